"""MeasuringBatch: configurations of one problem that the driver hands to one member, and how a member measures them.

A member answers each configuration with its index in the batch, in any order, and reports at last that the batch is
finished. The number of a batch is never used twice in a run, so a late answer can be told from a current one.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from seqtune.data.record import Measurement, Status
from seqtune.errors import FormatError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..measuring.batches import compare_batch
from ..measuring.runner import Measurer
from ..measuring.timing import Options
from ..measuring.worker.request import Limits

LIMITS = ("patience", "budget", "planned")  # options that may be infinite, in seconds
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

    def to_json(self) -> dict[str, object]:
        """A JSON object, for messages between driver and member."""
        return {"number": self.number, "purpose": self.purpose.value, "problem": self.problem.to_json(),
                "configurations": [[configuration.kernel, [list(setting) for setting in configuration.settings]]
                                   for configuration in self.configurations],
                "options": _finite(self.options), "best": None if math.isinf(self.best) else self.best,
                "rounds": self.rounds}

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> MeasuringBatch:
        """The inverse of `to_json`. Raises FormatError, and ProblemError for a problem that is none."""
        try:
            number, rounds, best = content["number"], content["rounds"], content["best"]
            problem, options, listed = content["problem"], content["options"], content["configurations"]
            assert isinstance(number, int)
            assert isinstance(rounds, int)
            assert isinstance(best, int | float | None)
            assert isinstance(problem, Mapping)
            assert isinstance(options, dict)
            assert isinstance(listed, list)
            limits = {name: math.inf if options[name] is None else options[name] for name in LIMITS}
            configurations = tuple(Configuration.of(str(kernel), [(str(name), value) for name, value in settings])
                                   for kernel, settings in listed)
            return cls(number, Purpose(str(content["purpose"])), Problem.from_json(problem), configurations,
                       Options.from_json({**options, **limits}), math.inf if best is None else best, rounds)
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"a batch of the fleet is damaged ({error!r:.60})") from None


def _finite(options: Options) -> dict[str, object]:
    """The options as JSON, where an infinite limit is null."""
    content = options.to_json()
    finite = {name: None if content[name] == math.inf else content[name] for name in LIMITS}
    return {**content, "drop_factors": list(options.drop_factors), **finite}


def is_sound(measurement: Measurement) -> bool:
    """Whether an answer can be a measurement: a correct one has times, which are positive and finite, and not too many.
    """
    samples = measurement.samples
    return len(measurement.message) <= LONGEST_MESSAGE and len(samples) <= MOST_SAMPLES \
        and all(0 < seconds < math.inf for seconds in samples) \
        and bool(samples) >= (measurement.status is Status.CORRECT)


def answers(measurer: Measurer, batch: MeasuringBatch) -> Generator[tuple[int, dict[str, object]], None, None]:
    """Measure a batch; yield the index of each configuration with its Measurement as JSON, when it is measured.

    Closing the iterator cancels the rest. Raises SeqtuneError where the batch cannot be measured at all.
    """
    if batch.purpose is Purpose.COMPARE:
        compared = compare_batch(measurer, batch.problem, batch.configurations, batch.rounds, batch.options,
                                 batch.options.order_seed)
        yield from ((index, measurement.to_json()) for index, measurement in enumerate(compared))
        return
    with closing(measurer.measure(batch.problem, batch.configurations, batch.options, batch.best)) as measuring:
        for index, (_, measurement) in enumerate(measuring):
            yield index, measurement.to_json()
