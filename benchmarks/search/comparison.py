"""Comparison: every problem of a list is searched by every method of a list, and what is finished is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from benchmarks.common.finished import Finished

Outcome = TypeVar("Outcome", covariant=True)


class Search(NamedTuple):
    """One search of a problem."""

    method: str  # a strategy of ours, or PREFIX and one of Kernel Tuner's
    seed: int | None = None  # None: all seeds, one after the other


class SearchedProblem(Protocol[Outcome]):
    """A problem that is searched, and what its searches are compared by."""

    @property
    def names(self) -> Sequence[object]:
        """The names that tell this problem and its budget apart from others."""
        ...

    def searches(self, methods: Sequence[str]) -> Sequence[Search]:
        """The searches with all methods, in their order."""
        ...

    def is_stored(self, search: Search) -> bool:
        """Whether the search gives the same result until the problem or the options change."""
        ...

    def ready(self, finished: Finished) -> AbstractContextManager[None]:
        """A context for the searches of this problem and for `outcomes`."""
        ...

    def search(self, search: Search, finished: Finished) -> Any:
        """Search now; the result is a JSON value."""
        ...

    def outcomes(self, results: Mapping[Search, Any], finished: Finished) -> Sequence[Outcome]:
        """Evaluate the results of all searches; nothing if the time is over."""
        ...


def compare(problems: Sequence[SearchedProblem[Outcome]], methods: Sequence[str],
            finished: Finished) -> list[Outcome]:
    """Search every problem with every method. Returns the outcomes of the problems that are finished."""
    outcomes: list[Outcome] = []
    for problem in problems:
        with problem.ready(finished):
            results = {}
            for search in problem.searches(methods):
                names = [*problem.names, *(name for name in search if name is not None)]
                results[search] = finished.get(names, partial(problem.search, search, finished),
                                               problem.is_stored(search))
            if None not in results.values():
                outcomes += problem.outcomes(results, finished)
    return outcomes
