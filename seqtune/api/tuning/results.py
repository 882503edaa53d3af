"""Tuned and TuningReport: the results of `seqtune.tune`. Each is frozen and can be written as JSON."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Setting, identity, shown_setting
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from ..results import finite

if TYPE_CHECKING:
    from seqtune.tuner.remembered import Remembered
    from seqtune.tuner.run.plan import Budget, Skipped
    from seqtune.tuner.run.result import TuningResult


MOST_VALUES = 3  # values of one parameter that are worth naming
IN_DOUBT = ("no reference or expected data are declared, so wrong results are those that differ from the default "
            "configuration's, which may itself be the wrong one")


@dataclass(frozen=True, slots=True)
class FailureCount:
    """Failed trials of one status."""

    status: str
    count: int
    message: str  # the message of the first failed trial; may be empty
    common: Mapping[str, tuple[Setting, ...]]  # parameter -> the values of these trials; empty if nothing tells them
    #                                            from other trials
    configuration: Configuration  # of the first failed trial

    def __str__(self) -> str:
        which = "the first has" if not self.common else "all have" if self.count > 1 else "it has"
        common = ", ".join(f"{name}={' or '.join(map(shown_setting, values))}" for name, values in self.common.items())
        return (f"{self.count} {self.status} ({which} {common or self.configuration.brief()})"
                f"{f': {self.message!r}' if self.message else ''}")

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"status": self.status, "count": self.count, "message": self.message,
                "common": {name: list(values) for name, values in self.common.items()},
                "configuration": dict(self.configuration.settings)}


def count_failures(failed: Mapping[Configuration, Measurement],
                   correct: Iterable[Configuration]) -> tuple[FailureCount, ...]:
    """Count failed trials by status, the most frequent one first; `correct` are the trials that did not fail."""
    kinds: dict[Status, list[Configuration]] = {}
    for configuration, measurement in failed.items():
        kinds.setdefault(measurement.status, []).append(configuration)
    others = list(correct)
    counts = [FailureCount(
        status.value, len(configurations), next(filter(None, (failed[each].message for each in configurations)), ""),
        common_settings(configurations, others), configurations[0]) for status, configurations in kinds.items()]
    return tuple(sorted(counts, key=lambda failure: -failure.count))


def common_settings(failed: Sequence[Configuration],
                    correct: Sequence[Configuration]) -> dict[str, tuple[Setting, ...]]:
    """The settings that tell failed trials from correct ones: parameter -> its values in the failed trials.

    These are the parameters with up to MOST_VALUES values that no correct trial has. Where there is none, all that have
    one value in every failed trial and others in correct ones.
    """
    correct = [each for each in correct if each.kernel == failed[0].kernel]
    if not correct or len({each.kernel for each in failed}) > 1:
        return {}
    values, others = _values(failed), _values(correct)
    own = {name: given for name, given in values.items()
           if len(given) <= MOST_VALUES and given.keys().isdisjoint(others[name])}
    shared = own or {name: given for name, given in values.items()
                     if len(given) == 1 and given.keys() != others[name].keys()}
    return {name: tuple(given.values()) for name, given in shared.items()}


def _values(configurations: Sequence[Configuration]) -> dict[str, dict[Hashable, Setting]]:
    """The values of each parameter by `identity`, in the order of the configurations."""
    values: dict[str, dict[Hashable, Setting]] = {}
    for configuration in configurations:
        for name, value in configuration.settings:
            values.setdefault(name, {})[identity(value)] = value
    return values


def is_in_doubt(failed: Iterable[Measurement]) -> bool:
    """Whether a trial failed because its numbers differ from others, not for poison or a write outside a buffer."""
    return any(each.status is Status.CORRECTNESS and each.error is not None for each in failed)


LOADED = ("measured while other work had much of the machine, so the fastest may have been missed; tune into another "
          "journal (--journal) when it is quiet")


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of tuning one problem, on a fleet by the members that are alike."""

    problem: Problem
    best: Configuration | None  # None where nothing ran correctly
    best_seconds: float | None
    default: Configuration  # or the stand-in that ran in its place
    default_seconds: float | None
    trials: int
    measured: int  # trials of this run; the others were in the journal
    failures: tuple[FailureCount, ...]  # counted over all trials
    space: int  # number of valid configurations
    confidence: float | None  # probability that the best beats the runner-up: 1 - p of a test over the finals
    best_resources: ResourceUsage | None = None  # registers and memory of the best; None on the CPU
    failed_default: str = ""  # why the default did not run, and what was compared with instead
    device: str = ""  # the name of the members' device; empty without a fleet
    members: tuple[str, ...] = ()  # members of a fleet that shared the trials
    default_in_doubt: bool = False  # whether trials failed only because they differ from the default
    origin: str = ""  # of the best, if another comparison in the journal decides: "verified on 2026-11-20"

    @classmethod
    def of(cls, result: TuningResult) -> Tuned:
        """The result of a search."""
        best, seconds = result.measurement, result.seconds
        best_seconds = None if result.configuration is None else seconds[result.configuration]
        return cls(result.problem, result.configuration, finite(best_seconds), result.default,
                   finite(seconds.get(result.default)), result.done,
                   result.done - result.resumed, count_failures(result.failed, result.correct), result.space,
                   result.confidence, None if best is None else best.resources, result.failed_default,
                   result.device.name if result.members else "", result.members,
                   operation(result.problem.type).agrees_with_default and is_in_doubt(result.failed.values()))

    def unfinished(self) -> Self:
        """The result of trials alone, which were not interleaved: there is no confidence in the best."""
        return replace(self, confidence=None)

    def with_winner(self, winner: Remembered | None) -> Self:
        """The result with the journal's winner as the best, where a comparison other than these finals made it."""
        if winner is None or winner.configuration == self.best:
            return self
        verdict, seconds = winner.verdict, winner.verdict.typical
        return replace(self, best=winner.configuration, best_seconds=seconds.get(winner.configuration),
                       default=verdict.default, default_seconds=seconds.get(verdict.default), confidence=None,
                       best_resources=winner.measurement.resources, origin=winner.origin)

    @property
    def failed(self) -> int:
        """The number of failed trials."""
        return sum(failure.count for failure in self.failures)

    def notes(self) -> list[str]:
        """Lines about what failed."""
        notes = [self.failed_default] if self.failed_default else []
        if self.origin:
            notes.append(f"the best and its times are those {self.origin}: that comparison decides over these finals")
        if self.failures:
            nothing = "nothing ran; " if self.best is None else ""
            notes.append(f"{nothing}{self.failed} of {self.trials} trials failed: "
                           f"{', '.join(map(str, self.failures))}")
        if self.default_in_doubt:
            notes.append(IN_DOUBT)
        return notes

    def to_json(self) -> dict[str, object]:
        """A JSON object.

        It has `failed_default` where the default did not run, `default_in_doubt` where it may be wrong, `origin` where
        another comparison in the journal made the best, and `members` of a fleet.
        """
        def timed(configuration: Configuration | None, seconds: float | None) -> dict[str, object] | None:
            return None if configuration is None else {
                "kernel": configuration.kernel, "configuration": dict(configuration.settings), "seconds": seconds}

        best = timed(self.best, self.best_seconds)
        if best is not None and self.best_resources is not None:
            best["resources"] = self.best_resources.to_json()
        return {"problem": self.problem.to_json(), "best": best,
                "default": timed(self.default, self.default_seconds), "trials": self.trials, "measured": self.measured,
                "failed": self.failed, "failures": [failure.to_json() for failure in self.failures],
                "space": self.space, "confidence": self.confidence,
                **({"failed_default": self.failed_default} if self.failed_default else {}),
                **({"origin": self.origin} if self.origin else {}),
                **({"default_in_doubt": IN_DOUBT} if self.default_in_doubt else {}),
                **({"device": self.device, "members": list(self.members)} if self.members else {})}


@dataclass(frozen=True, slots=True)
class TuningReport:
    """The results of a tuning run: one for each problem, on a fleet one for each problem and kind of device."""

    device: Device  # a fleet: the device of its first member
    journal: Path | None  # None for a replay
    results: tuple[Tuned, ...] = ()
    skipped: tuple[tuple[Problem, str], ...] = ()  # problems with the reason
    replayed: str | None = None  # the data set that answered in a replay
    interrupted: bool = False  # whether Ctrl-C stopped the run: the results are those of the trials so far
    spent: str = ""  # the trials in the journal that used up the budget before the run, and its option, as text
    fleet: str = ""  # the address of the fleet; empty without one
    loaded: bool = False  # whether other work had much of this machine while trials were made

    def with_results(self, results: Sequence[Tuned], skipped: Sequence[Skipped], budget: Budget) -> TuningReport:
        """The report with these results, and with the problems that the run has skipped."""
        spent = "" if self.fleet or self.replayed is not None else _spent(results, budget)
        return replace(self, results=tuple(results), spent=spent,
                       skipped=(*self.skipped, *((each.problem, each.reason) for each in skipped)))

    @property
    def problems(self) -> frozenset[Problem]:
        """The problems that were to be tuned."""
        return frozenset([*(result.problem for result in self.results), *(problem for problem, _ in self.skipped)])

    @property
    def untuned(self) -> frozenset[Problem]:
        """The problems that were skipped, or of which nothing ran correctly, on any of the devices."""
        return frozenset([*(result.problem for result in self.results if result.best is None),
                          *(problem for problem, _ in self.skipped)])

    def notes(self) -> list[str]:
        """Lines about the whole run, but for the problems that were skipped."""
        notes = [f"no new trial: {self.spent}, which they use up; a larger number goes on"] if (
            self.spent and not self.interrupted) else []
        return [*notes, LOADED] if self.loaded else notes

    def to_json(self) -> dict[str, Any]:
        """A JSON object, with `interrupted` after Ctrl-C and `loaded` where other work disturbed the trials."""
        notes = self.notes()
        return {"device": self.device.name, "journal": None if self.journal is None else str(self.journal),
                "replayed": self.replayed, "results": [result.to_json() for result in self.results],
                "skipped": [{"problem": problem.to_json(), "reason": reason} for problem, reason in self.skipped],
                **({"interrupted": True} if self.interrupted else {}), **({"loaded": True} if self.loaded else {}),
                **({"remarks": notes} if notes else {}), **({"fleet": self.fleet} if self.fleet else {})}


def _spent(results: Sequence[Tuned], budget: Budget) -> str:
    """The trials in the journal that used up the budget, and its option as the command line writes it; else empty."""
    if not results or any(result.measured for result in results):
        return ""
    several = len(results) > 1
    if budget.trials is None or any(result.trials < budget.trials for result in results):
        return ""
    return (f"the {budget.trials} trials{' of each problem' if several else ''} in the journal count towards --trials "
            f"{budget.trials}")
