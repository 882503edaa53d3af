"""TuningResult: what a run found for one problem on one device, or on the members of a fleet that are alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seqtune.data.record import Measurement
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..measuring.comparison import p_value
from .finals import seconds_of


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The result of a search. `configuration` is None if no configuration was correct."""

    problem: Problem
    device: Device
    configuration: Configuration | None
    measurement: Measurement | None  # of the configuration; of the finals if there were any
    default: Configuration  # or the stand-in that ran in its place
    finalists: tuple[tuple[Configuration, Measurement], ...]  # fastest first, including the default
    done: int  # trials
    resumed: int  # trials of these that were in the journal
    space: int  # number of configurations of the task
    failed: Mapping[Configuration, Measurement] = field(default_factory=dict)  # trials that count as failures
    failed_default: str = ""  # a sentence, if the default does not run
    paired: bool = True  # whether the finalists ran in rounds; else each was timed alone
    correct: tuple[Configuration, ...] = ()  # trials that did not fail
    members: tuple[str, ...] = ()  # names of the members of a fleet that shared the trials

    @property
    def seconds(self) -> dict[Configuration, float]:
        """The seconds of the finalists, by which they are ordered; infinite for one that failed."""
        return seconds_of(dict(self.finalists), self.paired)

    @property
    def confidence(self) -> float | None:
        """The confidence that the winner is faster than the runner-up: 1 - p of a signed-rank test over the rounds.

        Near 0.5 the finals show no difference. None if there are fewer than two finalists or rounds.
        """
        if self.measurement is None or len(self.finalists) < 2 or not self.paired:
            return None
        samples, second = self.measurement.samples, self.finalists[1][1].samples
        return 1 - p_value(second, samples) if len(samples) == len(second) > 1 else None
