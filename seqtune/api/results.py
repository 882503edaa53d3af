"""Results of the functions of `seqtune.api`. Each is frozen and can be written as JSON."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.data.record import Measurement
from seqtune.kernels.devices.accelerators import BACKENDS as GPU_BACKENDS
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.predictor.candidate import Candidate, Confidence

from ..errors import MisuseError
from .question import Question

if TYPE_CHECKING:
    from seqtune.predictor.confidence.explanation import Explanation
    from seqtune.predictor.learning.kinds import ResultRow
    from seqtune.tuner.building.built_kernel import BuiltKernel
    from seqtune.tuner.building.chosen import Chosen
    from seqtune.tuner.compile_check import FamilyCheck
    from seqtune.tuner.remembered import Remembered

NEW_CPU = ("new: no shipped measurement is of a CPU with this architecture and these caches; `seqtune "
           "collect` measures data to train from (guide: New hardware)")


def duration(seconds: float | None) -> str:
    """Seconds as text with a unit; "-" where unknown or infinite.

    >>> duration(0.00123)
    '1.23 ms'
    """
    if seconds is None or not math.isfinite(seconds):
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def finite(value: float | None) -> float | None:
    """The value, or None where it is infinite or NaN, because JSON has neither."""
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A configuration that a user is shown: it was proposed, measured, or both."""

    configuration: Configuration
    probability: float | None = None  # None where it was not proposed
    measurement: Measurement | None = None
    confidence: Confidence | None = None  # None where it was not proposed, or the predictor does not estimate it
    typical_seconds: float | None = None  # median of the levelled rounds of a comparison; None where it was in none
    question: Question | None = field(default=None, compare=False, repr=False)  # None outside of a prediction

    @classmethod
    def of(cls, configuration: Configuration, candidate: Candidate | None, measurement: Measurement | None = None,
           typical_seconds: float | None = None) -> Answer:
        """The answer with a configuration, of which the predictor's candidate may be known."""
        if candidate is None:
            return cls(configuration, None, measurement, None, typical_seconds)
        return cls(configuration, candidate.probability, measurement, candidate.confidence, typical_seconds)

    @property
    def seconds(self) -> float | None:
        """The seconds that decide: typical ones, else the least that was measured alone; None without a measurement."""
        if self.typical_seconds is not None:
            return self.typical_seconds
        return None if self.measurement is None else finite(self.measurement.seconds)

    def build(self) -> BuiltKernel:
        """Build the kernel with this configuration; see `seqtune.build`."""
        from seqtune.tuner.building.built_kernel import built_kernel

        if self.question is None:
            raise MisuseError("this answer belongs to no prediction, so its problem is not known; use seqtune.build")
        return built_kernel(self.question.chosen(self.configuration, self.seconds))

    def to_json(self) -> dict[str, object]:
        """A JSON object, with `status`, `seconds`, `spread` and `error` where it was measured.

        `resources` are the registers and memory that it needs, where a GPU's backend told them.
        """
        fields: dict[str, object] = {
            "kernel": self.configuration.kernel, "configuration": dict(self.configuration.settings),
            "probability": self.probability}
        if self.confidence is not None:
            fields["confidence"] = self.confidence.to_json()
        measurement = self.measurement
        if measurement is not None:
            fields |= {"status": measurement.status.value, "seconds": finite(measurement.seconds),
                       "typical_seconds": self.typical_seconds,
                       "spread": measurement.spread, "error": finite(measurement.error)}
            if measurement.resources is not None:
                fields["resources"] = measurement.resources.to_json()
            if measurement.message:
                fields["message"] = measurement.message
        return fields


def _ordinal(number: int) -> str:
    """An ordinal: first, second, third, 4th."""
    return ("first", "second", "third")[number - 1] if number <= 3 else f"{number}th"


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for one problem: what is answered, and what the answer rests on.

    Without verification nothing was measured, and `winner` is the first candidate, or the safe default (`fell_back`).
    If the journal has a comparison that a configuration won (`remembered`), that one is the first candidate.
    """

    problem: Problem
    device: Device
    candidates: tuple[Answer, ...]  # most probable first
    default: Answer  # the safe default
    winner: Answer
    verified: bool = False
    speedup: float | None = None  # typical time of the default / of the winner
    significant: bool | None = None  # whether the winner is clearly faster than the default
    cached: bool = False  # whether an earlier verification in the journal answered
    budget_seconds: float | None = None  # time budget of the verification
    elapsed_seconds: float | None = None  # duration of the verification; None where it is cached
    predictor: str = ""  # name or folder of the checkpoint, or name of the untrained predictor, that answered
    note: str = ""  # what to know about an answer that rests on no measurement
    loaded: bool = False  # whether other work had much of the machine during the verification
    unverified: str = ""  # why a verification that was asked for was not made
    explanation: Explanation | None = None  # explains the first candidate, if asked for
    fell_back: bool = False  # whether the safe default answers: the first candidate was below `min_confidence`
    evidence: int = 0  # measurements of this device in the journal that corrected the proposals
    failed_default: str = ""  # why the safe default did not run, and what was compared with instead
    second: Answer | None = None  # the fastest one beside the winner in the comparison; None without one
    leads_second: bool | None = None  # whether the winner is clearly faster than the second
    remembered: Remembered | None = None  # the comparison in the journal that the winner won, if nothing was measured

    def __post_init__(self) -> None:
        origins = {self.default.configuration: "the safe default", **{
            candidate.configuration: f"the {_ordinal(number)} proposal"
            for number, candidate in enumerate(self.candidates, 1)}}
        if self.verified or self.remembered is not None:
            origins[self.configuration] = f"the winner {self.remembered.origin if self.remembered else 'now verified'}"

        def asked(answer: Answer) -> Answer:
            measured = answer.typical_seconds is not None
            return replace(answer, question=Question(self.problem, self.device,
                                                       origins.get(answer.configuration, "a candidate"),
                                                       self.default.seconds if measured else None))

        for name in ("default", "winner", "second"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, asked(getattr(self, name)))
        object.__setattr__(self, "candidates", tuple(map(asked, self.candidates)))

    def __repr__(self) -> str:
        return f"<Prediction of {self.problem.brief()} on {self.device.name}: {self.conclusion()}>"

    def conclusion(self) -> str:
        """One line about the winner."""
        winner, seconds = self.configuration, self.winner.seconds
        text = f"{winner.kernel} {winner.brief()}"
        if seconds is not None:
            text += f", {duration(seconds)}"
        if self.speedup is not None:
            is_default = winner == self.default.configuration
            text += (f", {self.speedup:.2f}x the default's speed" if self.significant or not is_default else
                     ", the default: no candidate is significantly faster") + (
                         "" if self.significant or is_default else " (not significant)")
        second = None if self.second is None else self.second.seconds
        if self.significant and seconds and second is not None and self.second != self.default:
            text += f", {second / seconds:.2f}x the second's" + ("" if self.leads_second else " (not significant)")
        if self.loaded:
            text += " (measured while other work had much of the machine; measure again when it is quiet)"
        if self.remembered is not None:
            return f"{text} ({self.remembered.origin})"
        return text + (" (from the journal)" if self.cached else "")

    def notes(self) -> list[str]:
        """Lines about what the answer rests on, where there is something to know."""
        said = f": {self.note}" if self.note else ""
        notes = [f"predictor {self.predictor}{said}"] if said or self.device.backend in GPU_BACKENDS else []
        if self.failed_default:
            notes.append(self.failed_default)
        if self.unverified:
            notes.append(f"not verified: {self.unverified}")
        if self.evidence:
            notes.append(f"corrected by {self.evidence} measurements of this device")
        return notes

    def remarks(self) -> list[str]:
        """The former name of `notes`."""
        warnings.warn("Prediction.remarks is now called notes", DeprecationWarning, stacklevel=2)
        return self.notes()

    @property
    def configuration(self) -> Configuration:
        """The winner's configuration."""
        return self.winner.configuration

    @property
    def confidence(self) -> Confidence | None:
        """The confidence in the winner before any measurement; None if the predictor does not estimate it."""
        return self.winner.confidence

    def to_json(self) -> dict[str, object]:
        """A JSON object, with `speedup`, `significant`, `cached` and the seconds where it was verified."""
        fields: dict[str, object] = {
            "problem": self.problem.to_json(), "device": self.device.name,
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "default": self.default.to_json(), "winner": self.winner.to_json(), "predictor": self.predictor}
        if self.confidence is not None:
            fields["confidence"] = self.confidence.to_json()
        if self.fell_back:
            fields["fell_back"] = True
        if self.explanation is not None:
            fields["explanation"] = self.explanation.to_json()
        if self.note:
            fields["note"] = self.note
        if self.failed_default:
            fields["failed_default"] = self.failed_default
        if self.unverified:
            fields["unverified"] = self.unverified
        if self.evidence:
            fields["evidence"] = self.evidence
        if self.remembered is not None:
            fields["remembered"] = self.remembered.to_json()
        if self.second is not None:
            fields |= {"second": self.second.to_json(), "leads_second": self.leads_second}
        if self.verified:
            fields |= {"speedup": self.speedup, "significant": self.significant, "cached": self.cached,
                       "loaded": self.loaded, "budget_seconds": self.budget_seconds,
                       "elapsed_seconds": self.elapsed_seconds}
        return fields


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of this machine with their short names, best first, and why other backends are unavailable."""

    listed: tuple[tuple[str, Device], ...]
    unavailable: Mapping[str, str]
    described: tuple[Device, ...] = ()  # those one can predict and compile for without having them, if asked for
    new_cpu: bool = False  # whether no shipped data set was measured on this CPU (architecture and caches)
    doubt: str | None = None  # a line about rates that were measured while other programs had the CPUs

    def to_json(self) -> dict[str, object]:
        """A JSON object, with `described` where that was asked for."""
        fields: dict[str, object] = {
            "devices": [{"alias": alias, **device.to_json()} for alias, device in self.listed],
            "unavailable": dict(self.unavailable), "new_cpu": self.new_cpu, "doubt": self.doubt}
        return {**fields, "described": [device.to_json() for device in self.described]} if self.described else fields


@dataclass(frozen=True, slots=True)
class CompileReport:
    """Random configurations of kernel families, compiled for a device and compared with their declarations."""

    device: Device
    sample: int  # configurations asked for, of each family
    seed: int
    families: tuple[FamilyCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether everything compiled and nothing contradicts a declaration."""
        return all(family.passed for family in self.families)

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"device": self.device.name, "sample": self.sample, "seed": self.seed, "passed": self.passed,
                "families": [family.to_json() for family in self.families]}


@dataclass(frozen=True, slots=True)
class BuiltFolder:
    """A folder of kernels that was written."""

    out: Path
    device: Device
    kernels: tuple[Chosen, ...]
    files: tuple[str, ...]  # paths in the folder
    left_out: tuple[tuple[Problem, str], ...] = ()  # problems that no kernel solves, with the reason

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"out": str(self.out), "device": self.device.name, "files": list(self.files),
                "kernels": [chosen.to_json() for chosen in self.kernels],
                "left_out": [{"problem": problem.to_json(), "reason": reason} for problem, reason in self.left_out]}


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Verified predictions, why other devices are left out, and the first problem's kernel, if it was built."""

    predictions: tuple[Prediction, ...]
    unavailable: Mapping[str, str]
    built: BuiltFolder | None = None

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        built = {} if self.built is None else {"built": self.built.to_json()}
        return {"predictions": [prediction.to_json() for prediction in self.predictions],
                "unavailable": dict(self.unavailable), **built}


@dataclass(frozen=True, slots=True)
class Written:
    """A file or checkpoint folder that was written, and a report on it."""

    out: Path
    report: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """A JSON object: the report after the path."""
        return {"out": str(self.out), **self.report}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The rows of an evaluation's table: shares of methods, or scores of learned choices by solver."""

    rows: tuple[ResultRow, ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"rows": [row.to_json() for row in self.rows]}
