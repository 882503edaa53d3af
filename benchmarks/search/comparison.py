"""Comparison: every problem of a list is searched by every method of a list, and what is finished is stored."""

from __future__ import annotations

import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from benchmarks.common.report import write_json
from seqtune.errors import FormatError
from seqtune.kernels.files import read_bounded

LONGEST_NAME = 240  # characters of a file's name; file systems allow 255 with the suffix
LARGEST_FILE = 10_000_000  # bytes of a stored search
Outcome = TypeVar("Outcome", covariant=True)


class Finished:
    """The results of finished steps, JSON values, as files in a folder. After the deadline no step begins."""

    def __init__(self, folder: Path, deadline: float = math.inf) -> None:
        self.folder, self.deadline = folder, deadline  # of the monotonic clock
        self.left = 0  # number of steps that were asked for and did not begin

    def get(self, names: Sequence[object], step: Callable[[], Any], is_stored: bool = True) -> Any:
        """The result of a step: a stored one, or that of the step now; None if the time is over.

        Raises FormatError if a stored file is damaged.
        """
        path = self.path(*names)
        if is_stored and path.is_file():
            try:
                return json.loads(read_bounded(path, LARGEST_FILE))
            except ValueError:
                raise FormatError(f"{path} is not what this program writes; remove it") from None
        if time.monotonic() >= self.deadline:
            self.left += 1
            return None
        print(*names, file=sys.stderr, flush=True)
        result = step()
        if is_stored:
            write_json(path, result)
        return result

    def path(self, *names: object, suffix: str = ".json") -> Path:
        """The path of the file with these names. A long name ends with a checksum of the rest."""
        name = " ".join(map(str, names)).replace(":", "-").replace("/", "-").replace(" ", "_")
        if len(name) > LONGEST_NAME:
            name = f"{name[:LONGEST_NAME - 9]}_{zlib.crc32(name.encode()):08x}"
        return self.folder / (name + suffix)


class Search(NamedTuple):
    """One search of a problem."""

    method: str  # a strategy of ours, or PREFIX and one of Kernel Tuner's
    seed: int | None = None  # None: all seeds, one after the other


class SearchedProblem(Protocol[Outcome]):
    """A problem that is searched, and what its searches are judged by."""

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
        """Judge the results of all searches; nothing if the time is over."""
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
