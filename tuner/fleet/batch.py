"""MeasuringBatch: configurations of one problem that the driver hands to one member, and how a member measures them.

A member answers each configuration with its index in the batch, in any order, and reports at last that the batch is
finished. The number of a batch is never used twice in a run, so a late answer can be told from a current one.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from seqtune.data.record import Measurement, Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..measuring.runner import Measurer, compare_batch
from ..measuring.timing import Options
from ..measuring.worker.request import Limits

MOST_SAMPLES = 100_000  # of an answer; comparisons have 64
LONGEST_MESSAGE = 10_000  # characters; workers send one line of a compiler


class Purpose(StrEnum):
    """The purpose of a batch."""

    MEASURE = "measure"  # trials of a search
    COMPARE = "compare"  # the finals of a search: all finalists in rounds on one member
    CONTROL = "control"  # the fixed probe that shows whether the member still measures as before


@dataclass(frozen=True, slots=True)
class MeasuringBatch:
    """A batch. `best` is the least time so far, in seconds; only a comparison uses `rounds`."""

    number: int
    purpose: Purpose
    problem: Problem
    configurations: tuple[Configuration, ...]
    options: Options
    best: float = math.inf
    rounds: int = 0

    def silence(self, allowance: float, answered: int) -> float:
        """The longest time, in seconds, that a sound member may need until its next answer.

        `answered` is the number of its answers to this batch so far. A crash is measured twice, in a new worker. A
        comparison answers at its end; all of its rounds together take less than the check of each configuration may.
        """
        limits = Limits.of(self.problem, self.options, allowance)
        steps = 2 * len(self.configurations) if self.purpose is Purpose.COMPARE else 2
        return (0.0 if answered else 2 * limits.prepare) + steps * (limits.build + limits.run)


def is_sound(measurement: Measurement) -> bool:
    """Whether an answer can be a measurement: a correct one has times, which are positive and finite, and not too many.
    """
    samples = measurement.samples
    return len(measurement.message) <= LONGEST_MESSAGE and len(samples) <= MOST_SAMPLES \
        and all(0 < seconds < math.inf for seconds in samples) \
        and bool(samples) >= (measurement.status is Status.CORRECT)


def answers(measurer: Measurer, batch: MeasuringBatch) -> Generator[tuple[int, Measurement], None, None]:
    """Measure a batch; yield the index of each configuration with its measurement, when it is there.

    Closing the iterator cancels the rest. Raises SeqtuneError where the batch cannot be measured at all.
    """
    if batch.purpose is Purpose.COMPARE:
        compared = compare_batch(measurer, batch.problem, batch.configurations, batch.rounds, batch.options,
                                 batch.options.order_seed)
        yield from enumerate(compared)
        return
    with closing(measurer.measure(batch.problem, batch.configurations, batch.options, batch.best)) as measuring:
        for index, (_, measurement) in enumerate(measuring):
            yield index, measurement
