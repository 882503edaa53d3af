"""Largest: the largest numbers of the problems that a predictor has learned from, so that it says if one exceeds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, RootModel

from seqtune.kernels.devices import accelerators
from seqtune.kernels.operations.table import operation
from seqtune.kernels.task import KnownTask, Task

MEASURE = "measure several (--top 5 --verify)"
MOST_EXCESSES = 4  # numbers that one note names

_Name = Annotated[str, Field(max_length=200)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class Excess(NamedTuple):
    """A number of a problem that is larger than in all problems that a predictor has learned from."""

    name: str  # of a feature or derived size
    value: float
    most: float  # of those problems


class Largest(RootModel[dict[_Name, dict[_Name, _Number]]]):
    """The largest of each number of the training problems, by backend and operation ("cuda gemm")."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    root: Annotated[dict[_Name, dict[_Name, _Number]], Field(max_length=1000)] = {}

    @classmethod
    def of(cls, tasks: Iterable[KnownTask]) -> Largest:
        """The largest numbers of some tasks."""
        largest: dict[str, dict[str, float]] = {}
        for known in tasks:
            most = largest.setdefault(_key(known.task), {})
            for name, value in known.problem.names().items():
                if isinstance(value, int | float) and value > most.get(name, float("-inf")):
                    most[name] = value
        return cls(largest)

    def exceeded(self, task: Task) -> tuple[Excess, ...]:
        """The numbers of a problem, such as a size or its FLOP, that are larger than in every training problem.

        Derived sizes other than the FLOP are left out where features say the same.
        """
        most, names = self.root.get(_key(task), {}), task.problem.names()
        every = [Excess(name, value, most[name]) for name in most
                 if isinstance(value := names.get(name), int | float) and value > most[name]]
        features = {*operation(task.problem.type).by_name, "flop"}
        return tuple([excess for excess in every if excess.name in features] or every)

    def note(self, task: Task) -> str:
        """The note that names the numbers in which a problem exceeds all training problems; empty if it does not."""
        excesses = self.exceeded(task)[:MOST_EXCESSES]
        if not excesses:
            return ""
        *others, last = [f"{excess.name}={excess.value:.6g} is more than {excess.most:.6g}" for excess in excesses]
        facts = f"{', '.join(others)} and {last}" if others else last
        device = task.device
        is_here = accelerators.described(device.backend, device.name.partition(":")[2]) is None
        return (f"{facts}, the most of the {task.problem.type} problems that it has learned from on {device.backend}, "
                f"so the answer extrapolates{f': {MEASURE}' if is_here else ''}")


NONE_LEARNED = Largest()


def _key(task: Task) -> str:
    return f"{task.device.backend} {task.problem.type}"
