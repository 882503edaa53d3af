"""Dispatched: what `seqtune.api.dispatch` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.predictor.dispatch.bound import Bounds

if TYPE_CHECKING:
    from seqtune.predictor.dispatch.dispatcher import Dispatcher
    from seqtune.predictor.dispatch.members import MemberSet


@dataclass(frozen=True, slots=True)
class Served:
    """A member that ships, and the shapes for which the rule puts it first."""

    member: Configuration
    problems: tuple[Problem, ...]
    weight: float  # their share of the run time
    bytes: int | None = None  # of the largest object for these shapes; None: nobody asked


@dataclass(frozen=True, slots=True)
class OwnKernel:
    """A shape that deserves a kernel of its own, because none of the members is near its best."""

    problem: Problem
    configuration: Configuration  # the fastest candidate
    gain: float  # time of the rule's member / time of the fastest candidate
    measured: bool  # whether both times were measured, or one is expected


@dataclass(frozen=True, slots=True)
class Measured:
    """How much of the matrix of shapes and candidates was measured."""

    shapes: int
    candidates: int
    known: int  # cells that this call or an earlier one measured, or that fail
    measured: int  # cells that this call measured
    complete: bool  # whether all that decides was measured, before the time ended


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The result of a dispatch: a few kernels, the rule that chooses among them, and what it promises."""

    operation: str
    device: str  # its name
    goal: str  # mean, worst or within
    curve: tuple[MemberSet, ...]  # from one kernel on, each judged on shapes that its rule did not learn from
    served: tuple[Served, ...]  # the members that ship, in the rule's order of members
    rule: str  # as text
    losses: Mapping[str, float]  # of the goal on the given shapes: `rule`, the best `single` kernel, the `default`
    bounds: Bounds | None  # None: too few fresh or held-out shapes have the times that it needs
    deserving: tuple[OwnKernel, ...]  # the largest weighted gain first
    unsure: tuple[Problem, ...]  # given shapes for which the rule is not sure of its first member
    measuring: Measured
    files: tuple[Path, ...]  # that were written
    notes: tuple[str, ...] = ()
    dispatcher: Dispatcher | None = field(default=None, repr=False, compare=False)  # what `files` hold

    @property
    def kernels(self) -> int:
        """The number of kernels that ship."""
        return len(self.served)

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"operation": self.operation, "device": self.device, "goal": self.goal, "kernels": self.kernels,
                "curve": [{"kernels": each.kernels, "oracle": each.oracle, "rule": each.rule, "second": each.second}
                          for each in self.curve],
                "members": [{**_configuration(each.member), "weight": each.weight,
                             **({} if each.bytes is None else {"bytes": each.bytes}),
                             "shapes": [problem.key for problem in each.problems]} for each in self.served],
                "rule": self.rule, "losses": dict(self.losses),
                "bounds": None if self.bounds is None else asdict(self.bounds),
                "deserving": [{"shape": own.problem.key, "gain": own.gain, "measured": own.measured,
                               **_configuration(own.configuration)} for own in self.deserving],
                "unsure": [problem.key for problem in self.unsure], "measuring": asdict(self.measuring),
                "files": [str(path) for path in self.files], "notes": list(self.notes)}


def _configuration(configuration: Configuration) -> dict[str, Any]:
    return {"kernel": configuration.kernel, "configuration": dict(configuration.settings)}
