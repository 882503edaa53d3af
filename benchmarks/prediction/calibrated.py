"""Calibrated: `seqtune calibrate` replayed on recorded measurements, and a checkpoint that its corrections change.

The probes are chosen as on a live device, but only among recorded configurations of problems that are not evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seqtune.kernels.problem_sets.kinds import kind_of
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.correction.correction import Correction, CorrectionFit
from seqtune.predictor.correction.probing import Probing

if TYPE_CHECKING:
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.trees.ranker import Ranker

PROBES = 600  # what three minutes suffice for on a slow machine, most of them for builds
PROBLEMS = 39  # the number of problems in `problem_sets.probes`


@dataclass(frozen=True)
class Corrected:
    """A checkpoint, corrected by the probes of each device."""

    checkpoint: Checkpoint
    corrections: Mapping[str, Correction]  # key of a device -> its correction

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Propose configurations; the interface of every predictor."""
        return [self.checkpoint.propose([task], count, self.corrections.get(task.device.key))[0] for task in tasks]


def calibrated(checkpoint: Checkpoint, tasks: Sequence[MeasuredTask],
               seed: int) -> tuple[Corrected, dict[str, CorrectionFit]]:
    """Calibrate every device of the tasks; return the checkpoint that is corrected, and the fits by device name."""
    ranker = checkpoint.ranker
    assert ranker is not None
    by_device: dict[str, list[MeasuredTask]] = {}
    for measured in tasks:
        by_device.setdefault(measured.device.key, []).append(measured.measured_only())
    corrections: dict[str, Correction] = {}
    fits: dict[str, CorrectionFit] = {}
    for key, measured_here in by_device.items():
        probed = probe(kinds_in_turn(measured_here, PROBLEMS, seed), ranker, PROBES, seed)
        corrections[key], fits[measured_here[0].device.name] = Correction.fit(
            ranker, probed, expected=checkpoint.expected)
    return Corrected(checkpoint, corrections), fits


def probe(tasks: Sequence[MeasuredTask], ranker: Ranker, probes: int, seed: int) -> list[MeasuredTask]:
    """The tasks with the times of so many probes alone, which are chosen as `seqtune calibrate` does."""
    probing = Probing([measured.task for measured in tasks], ranker, [None] * len(tasks), seed)
    left = probes
    while left > 0 and (order := probing.order()):
        for index in order:
            chosen = probing.choose(index).tolist()[:left]
            for number in chosen:
                probing.record(index, number, float(tasks[index].seconds[number]))
            left -= len(chosen)
    return probing.measured()


def kinds_in_turn(tasks: Sequence[MeasuredTask], count: int, seed: int) -> list[MeasuredTask]:
    """At most `count` tasks in an order drawn with the seed: one of each kind of problem, then the next of each."""
    order = np.random.default_rng(seed).permutation(len(tasks)).tolist()
    turns: dict[str, int] = {}
    ranked = []
    for position, index in enumerate(order):
        kind = kind_of(tasks[index].problem)
        turns[kind] = turns.get(kind, 0) + 1
        ranked.append((turns[kind], position, index))
    return [tasks[index] for *_, index in sorted(ranked)[:count]]
