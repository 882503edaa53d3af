"""Filling: which cells of the matrix are measured, so that a fifth of them decides.

In every round the members that would be chosen now are compared with each other and with the best challengers, on the
shapes where one of them may be the fastest. What is expected of a candidate is corrected by its measured cells.

On recorded spaces (convolutions and products on two CPUs, 13 to 36 shapes, 34 to 91 candidates, 8 members, 13 cells a
shape) the sets chosen this way lose 0.001 to those of the whole matrix, on average over 1 to 8 members. With 5 rounds
they lose 0.002, without further challengers 0.003, and without the correction 0.003.

A quarter of the cells is kept for the members that are chosen then, which are measured on all shapes, because a rule
learns badly from what is only expected: for eight kernels of a product it reached 0.969 of the best speed instead of
0.917 where nothing is kept, and the fastest of them 0.982 instead of 0.983. Since drawn shapes teach the rule, too, it
reaches 0.976, and 0.973 where a tenth is kept (`python -m benchmarks dispatch`, part `budget`; the share was chosen on
that matrix).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from seqtune.kernels.say import Say
from seqtune.kernels.task import MeasuredTask
from seqtune.predictor.dispatch.matrix import Matrix, most_helpful
from seqtune.tuner.measuring.deadline import OutOfTime

from .known import Known
from .measuring import Measuring

SHARE = 0.2  # of the valid cells that are measured at most
ROUNDS_SHARE = 0.75  # of these, that the rounds measure; with the rest, members are measured on all shapes
LEAST, MOST = 3, 16  # cells of each shape, on average, that may be measured in any case, and at most
ROUNDS = 8


def fill(known: Known, matrix: Matrix, measuring: Measuring, most: int, progress: Say,
         first: Iterable[tuple[int, int]]) -> tuple[Matrix, bool]:
    """Measure what decides about up to `most` members, and the cells `first` in any case.

    The result is the matrix, and whether there was time for all of it.
    """
    wanted, complete = [*first], True
    for done in range(ROUNDS):
        wanted += decisive(matrix.corrected(), most, room(known, matrix, ROUNDS_SHARE) // (ROUNDS - done))
        if not wanted:
            continue
        matrix, complete = measure_cells(known, matrix, measuring, wanted)
        progress(f"measuring: {matrix.known} of {len(known.tasks)} x {len(matrix.candidates)} pairs of shape and "
                 f"candidate are known, round {done + 1} of {ROUNDS}")
        if not complete:
            break
        wanted = []
    return matrix, complete


def complete_members(known: Known, matrix: Matrix, measuring: Measuring,
                     members: Sequence[int]) -> tuple[Matrix, bool]:
    """Measure members on all shapes, those that are expected to be fast first, as far as the limit allows."""
    cells = decisive(matrix.take(candidates=members), len(members), room(known, matrix))
    return measure_cells(known, matrix, measuring, [(shape, members[member]) for shape, member in cells])


def room(known: Known, matrix: Matrix, share: float = 1.0) -> int:
    """The number of cells that may still be measured, up to a share of all. Trials of searches count as cells."""
    shapes = len(known.tasks)
    most = min(int(SHARE * matrix.valid.sum()), MOST * shapes)
    return max(0, int(share * max(most - known.searched, LEAST * shapes)) - matrix.known)


def measure_cells(known: Known, matrix: Matrix, measuring: Measuring,
                  wanted: Iterable[tuple[int, int]]) -> tuple[Matrix, bool]:
    """Measure cells (shape, candidate), those of a shape together with its fastest one so far.

    The result is the matrix with them, and whether there was time for all. Cells that are known stay as they are.
    """
    by_shape: dict[int, dict[int, None]] = {}
    for shape, candidate in wanted:
        if np.isnan(matrix.seconds[shape, candidate]):
            by_shape.setdefault(shape, {})[candidate] = None
    complete = True
    for shape, columns in by_shape.items():
        task, times = known.tasks[shape].task, matrix.seconds[shape]
        fastest = [int(np.nanargmin(times))] if np.isfinite(times).any() else []
        try:
            measuring.compare(task, [matrix.candidates[candidate] for candidate in (*fastest, *columns)])
        except OutOfTime:
            complete = False
        known.tasks[shape] = MeasuredTask(task, measuring.seconds(task))
        if not complete:
            break
    if by_shape:
        known.learn()
    return known.matrix(matrix.candidates), complete


def decisive(matrix: Matrix, most: int, count: int) -> list[tuple[int, int]]:
    """Up to `count` cells (shape, candidate) that are worth measuring, the most important first.

    First come the cells of the `most` members and half as many challengers, those first that are nearest to the fastest
    member of their shape; then those of further challengers.
    """
    slowness = matrix.slowness(optimistic=True)
    order = most_helpful(slowness, matrix.weights, slowness.shape[1])
    gaps = np.abs(slowness - slowness[:, order[:most]].min(axis=1, keepdims=True))
    chosen: list[tuple[int, int]] = []
    begin, end = 0, most + most // 2 + 2
    while len(chosen) < count and begin < len(order):
        part = [(gaps[shape, candidate], shape, candidate) for candidate in order[begin:end]
                for shape in np.flatnonzero(np.isnan(matrix.seconds[:, candidate])).tolist()]
        chosen += [(shape, candidate) for _, shape, candidate in sorted(part)]
        begin, end = end, end + most
    return chosen[:max(0, count)]
