"""Budget: what a dispatch that measures a part of a whole matrix loses to one that knows all of it; and eight kernels.

The dispatch measures as always, but the matrix's own times answer it. No device is needed, so the same figures come out
on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.common.progress import say
from seqtune.api.dispatching.choosing import Chooser, Chosen, Question
from seqtune.api.dispatching.filling import fill
from seqtune.api.dispatching.known import Known, known_here, tasks_in_data
from seqtune.api.dispatching.measuring import Measuring
from seqtune.api.dispatching.run import PREFIX
from seqtune.api.dispatching.stages import DRAWN, choose_measured
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.say import silent
from seqtune.kernels.task import Floats, MeasuredTask
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.matrix import WORST, Matrix
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.measuring.recorded_measurer import RecordedMeasurer

from .products import Target

KERNELS = 8
FOLDS = 5


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """A product, and the shares of the best speed that eight kernels reach on its shapes."""

    product: str
    cells: int  # that are valid
    measured: float  # share of them that was measured
    whole: float  # the fastest kernel of each shape, chosen with the whole matrix
    part: float  # the fastest kernel of each shape, chosen with the measured part
    whole_rule: float  # the rule's first kernel
    part_rule: float
    held_out: float  # the rule's first kernel on shapes of which neither set nor rule knows
    held_out_two: float  # the faster one of its first two


def budget_row(product: Target) -> BudgetRow:
    """Dispatch with a part of a product's matrix, with all of it, and without a fifth of its shapes in turn."""
    tasks, candidates = recorded(product)
    device = tasks[0].device
    problems, times = [each.problem for each in tasks], {each.problem: each.seconds for each in tasks}
    question = Question(operation(product.operation), Goal(), KERNELS, product.domain, 0, 0, None, Path(), PREFIX,
                        silent, say)
    drawn = product.served().draw(DRAWN, np.random.default_rng(0), problems)
    with TemporaryDirectory() as folder, Journal(Path(folder) / "journal.sqlite") as journal:
        measuring = Measuring(device, journal, replayed(tasks), Deadline())
        known, all_known = (known_here(dict.fromkeys(problems, 1.0), device, None, seconds, say)
                            for seconds in (measuring.seconds, lambda task: times[task.problem]))
        for each in (known, all_known):
            each.draw(drawn, None)
        whole = all_known.matrix(candidates)
        chooser = Chooser(question, device, known.kernels, product.served(), candidates, ())
        full = chooser.choose(all_known.with_drawn(whole), Deadline())
        part = _from_part(known, chooser, measuring)
    firsts, seconds = zip(*(_held_out(chooser, all_known, whole, fold) for fold in range(FOLDS)), strict=True)
    slowness, weights = whole.slowness(), whole.weights
    return BudgetRow(
        product.name, int(whole.valid.sum()), measuring.measured / int(whole.valid.sum()),
        *(math.exp(-float(weights @ slowness[:, each.members].min(axis=1))) for each in (full, part)),
        *(math.exp(-float(weights.dot(_picked(each, whole, each.dispatcher.choose_many(
            ProblemColumns.of(whole.problems)).members)))) for each in (full, part)),
        *(math.exp(-float(np.concatenate(losses).mean())) for losses in (firsts, seconds)))


def recorded(product: Target) -> tuple[list[MeasuredTask], list[Configuration]]:
    """The measured tasks and the candidates of a product's matrix."""
    product.use()
    data = read_dataset(product.path)
    tasks = tasks_in_data(data, data.device(None), product.operation, None)
    measured = {each.task[number] for each in tasks for number in np.flatnonzero(~np.isnan(each.seconds)).tolist()}
    return tasks, sorted(measured, key=lambda each: (each.kernel, each.key))


def replayed(tasks: Sequence[MeasuredTask]) -> RecordedMeasurer:
    """A measurer that answers with the measured times of tasks of one device."""
    device, kernels = tasks[0].device, {kernel.name: kernel for each in tasks for kernel in each.task.kernels}
    records = []
    for measured in tasks:
        for number in np.flatnonzero(measured.known).tolist():
            configuration, seconds = measured.task[number], float(measured.seconds[number])
            records.append(Record(
                measured.problem, device.key, kernels[configuration.kernel].version, configuration, device.toolchain,
                Measurement(Status.CORRECT, (seconds,)) if math.isfinite(seconds) else Measurement(Status.RUNTIME)))
    return RecordedMeasurer(device, records, [*kernels.values()])


def _from_part(known: Known, chooser: Chooser, measuring: Measuring) -> Chosen:
    """Choose as a dispatch does that measures as much as it may."""
    matrix, _ = fill(known, known.matrix(chooser.candidates), measuring, KERNELS, silent, ())
    chosen = chooser.choose(known.with_drawn(matrix), Deadline())
    return choose_measured(known, chooser, measuring, chosen, Deadline())[0]


def _held_out(chooser: Chooser, known: Known, whole: Matrix, fold: int) -> tuple[Floats, Floats]:
    """The slowness of the rule's first kernel and of the faster of its two, on the shapes that the fold leaves out."""
    rows = np.random.default_rng(0).permutation(len(whole.problems))
    held, rest = rows[fold::FOLDS], np.setdiff1d(rows, rows[fold::FOLDS])
    chosen, asked = chooser.choose(known.with_drawn(whole.take(rest)), Deadline()), whole.take(held)
    answers = chosen.dispatcher.choose_many(ProblemColumns.of(asked.problems))
    first, second = (_picked(chosen, asked, members) for members in (answers.members, answers.seconds))
    return first, np.minimum(first, second)


def _picked(chosen: Chosen, matrix: Matrix, members: Numbers) -> Floats:
    """The slowness of a member for each shape; that of a missing one where there is none."""
    slowness = matrix.slowness()[:, chosen.members]
    return np.where(members >= 0, slowness[np.arange(len(slowness)), members], WORST)
