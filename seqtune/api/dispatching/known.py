"""Known: the tasks of the shapes with their measured times, and the checkpoint or trees that expect the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from seqtune.data.dataset import Dataset, configuration
from seqtune.data.measured_tasks import measured_tasks
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.predictor.answering import Answering, answering_many, propose_many
from seqtune.predictor.dispatch.matrix import Matrix, matrix_of, most_helpful
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import Ranker

from ...errors import CheckpointError, KernelError, MisuseError

FIRST = 5  # candidates that each shape proposes: the best of them lose 0.5 % to the whole space
FEWEST, MOST = 50, 200  # candidates of a matrix, if the spaces have so many
FIND = "find"  # Record.run of the times of MIOpen's find-dbs, which compare solvers whose settings are unknown


@dataclass
class Known:
    """The tasks of the shapes on a device, with what is measured; and a checkpoint, or trees, for what is not."""

    device: Device
    tasks: list[MeasuredTask]
    weights: Floats  # (shape,) their sum is 1
    answerings: Mapping[Problem, Answering] = field(default_factory=dict)  # empty: trees learn from what is measured
    drawn: list[MeasuredTask] = field(default_factory=list)  # of shapes that were not asked for, and teach the rule
    searched: int = 0  # trials of searches
    _trees: Ranker | None = None
    _expected: dict[tuple[Problem, bytes], Floats] = field(default_factory=dict)  # by problem and numbers

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels of the tasks by name."""
        return {kernel.name: kernel for measured in self.tasks for kernel in measured.task.kernels}

    def learn(self) -> None:
        """Fit trees to what is measured, where no checkpoint answers."""
        fitting = [measured for measured in self.tasks if np.isfinite(measured.seconds).any()]
        if not self.answerings and fitting:
            self._trees = Ranker.of(Trees(fitting, TreesOptions(models=1)))
            self._expected.clear()

    def expect(self, task: Task, numbers: Numbers) -> Floats:
        """The expected log(time / best time) of configurations of a task; NaN where nothing is known."""
        key = task.problem, numbers.tobytes()
        if key not in self._expected:
            checkpoint = self.answerings[task.problem].checkpoint if self.answerings else None
            self._expected[key] = checkpoint.opinions(task, numbers).slowness if checkpoint is not None else \
                np.full(len(numbers), np.nan) if self._trees is None else self._trees.slowness(task, numbers)
        return self._expected[key]

    def matrix(self, candidates: Sequence[Configuration]) -> Matrix:
        """The matrix of all shapes with these candidates."""
        return matrix_of(self.tasks, candidates, self.weights, self.expect)

    def draw(self, problems: Sequence[Problem], checkpoint: str | Path | None) -> None:
        """Let further shapes teach the rule by what is expected of them, as far as there are kernels for them.

        With eight kernels for 60 shapes of two products (`python -m benchmarks dispatch --parts budget`), the rule
        reaches 0.923 and 0.884 of the best speed on shapes that it did not see, instead of 0.900 and 0.848 where the
        given shapes teach it alone (with three folds that choose the rule; with ten 0.926 and 0.894).
        """
        tasks = list[Task]()
        if self.answerings:
            answered, _ = answering_many(problems, self.device, checkpoint)
            known = {problem: asked for problem, asked in answered.items()
                     if asked.checkpoint is not None and asked.checkpoint.experts}
            self.answerings, tasks = {**known, **self.answerings}, [asked.task for asked in known.values()]
        else:
            for problem in problems:
                with suppress(KernelError):
                    tasks.append(Task.of(problem, self.device))
        self.drawn = [MeasuredTask(task, np.broadcast_to(np.nan, len(task))) for task in tasks]

    def with_drawn(self, matrix: Matrix) -> Matrix:
        """The matrix with a row of weight 0 for each drawn shape, if anything is expected of them."""
        if not self.drawn or (not self.answerings and self._trees is None):
            return matrix
        return matrix.joined(matrix_of(self.drawn, matrix.candidates, np.zeros(len(self.drawn)), self.expect))

    def candidates(self) -> Matrix:
        """The matrix of the candidates: the first of each shape, the fastest measured ones, and defaults.

        Of more than MOST, those stay that help most by what is expected, and one for each shape.
        """
        chosen = dict.fromkeys(measured.task.default for measured in self.tasks)
        for measured in self.tasks:
            chosen |= dict.fromkeys(measured.fastest(FIRST))
        for proposed in self._proposals(max(FIRST, min(FEWEST, math.ceil(1.5 * FEWEST / len(self.tasks))))):
            chosen |= dict.fromkeys(proposed)
        matrix = self.matrix([*chosen])
        self._expected.clear()  # the numbers of the kept ones are others
        kept = most_helpful(matrix.slowness(), self.weights, min(MOST, len(chosen)))
        for row in np.flatnonzero(~matrix.valid[:, kept].any(axis=1)):
            kept.append(int(np.argmin(matrix.slowness()[row])))
        ordered = sorted({*kept}, key=lambda column: (matrix.candidates[column].kernel, matrix.candidates[column].key))
        return matrix.take(candidates=ordered)  # in an order that does not depend on what is measured already

    def _proposals(self, count: int) -> list[list[Configuration]]:
        if self.answerings:
            proposed = propose_many([self.answerings[known.problem] for known in self.tasks], count, evidence=False)
            return [[each.configuration for each in candidates] for candidates in proposed]
        return [] if self._trees is None else [
            [known.task[number] for number in self._trees.first(known.task, count).tolist()] for known in self.tasks]


def known_here(shapes: Mapping[Problem, float], device: Device, checkpoint: str | Path | None,
               seconds: Callable[[Task], Floats], note: Callable[[str], object]) -> Known:
    """Find out what is known of shapes on a device here; `seconds` gives the times of a task in a journal, by number.

    Shapes that no kernel solves are left out, with a note. Raises KernelError if none is left, and CheckpointError,
    also for a `checkpoint` that expects no times.
    """
    try:
        answered, unsolved = answering_many([*shapes], device, checkpoint)
    except CheckpointError:
        if checkpoint is not None:
            raise
        answered, unsolved = {}, {}
    if any(asked.checkpoint is None or not asked.checkpoint.experts for asked in answered.values()):
        if checkpoint is not None:
            raise CheckpointError(f"the checkpoint {checkpoint} expects no times, by which kernels are chosen; name "
                                  "another, or none: trees then learn from what is measured")
        answered = {}
    tasks = {problem: asked.task for problem, asked in answered.items()}
    for problem in shapes if not answered else ():
        try:
            tasks[problem] = Task.of(problem, device)
        except KernelError as error:
            unsolved[problem] = error
    if not tasks:
        raise next(iter(unsolved.values()))
    if unsolved:
        problem, refusal = next(iter(unsolved.items()))
        note(f"{device.name} has no kernel for {len(unsolved)} of {len(shapes)} shapes, which are left out, such as "
             f"{problem.brief()}: {refusal}")
    solved = [problem for problem in shapes if problem in tasks]
    return Known(device, [MeasuredTask(tasks[problem], seconds(tasks[problem])) for problem in solved],
                 shares([shapes[problem] for problem in solved]), answered)


def tasks_in_data(data: Dataset, device: Device, operation: str,
                  shapes: Mapping[Problem, float] | None) -> list[MeasuredTask]:
    """The measured tasks of an operation's shapes on a device (None: of all shapes). Raises MisuseError without any."""
    tasks = [measured for held_out in (False, True)
             for measured in measured_tasks(data.on(device.key), held_out, warn=False)
             if measured.problem.type == operation and (shapes is None or measured.problem in shapes)]
    if not tasks:
        raise MisuseError(f"the data have no times of these shapes of {operation} on {device.name}")
    return tasks


def solver_matrix(data: Dataset, device: Device, operation: str, shapes: Mapping[Problem, float] | None) -> Matrix:
    """The matrix of solvers from a data set of MIOpen's find-dbs. A solver that has no time is missing.

    Raises MisuseError if the data have none.
    """
    rows = data.on(device.key).rows
    rows = rows[(rows["run"] == FIND) & (rows["problem"].map(
        {key: problem.type == operation and (shapes is None or problem in shapes)
         for key, problem in data.known_problems.items()}))]
    if not len(rows):
        raise MisuseError(f"the data have no times of these shapes of {operation} on {device.name}")
    table = rows.pivot_table("seconds", "problem", ["kernel", "configuration"], aggfunc="min", fill_value=np.inf)
    problems = [data.known_problems[key] for key in table.index]
    weights = shares([1.0 if shapes is None else shapes[problem] for problem in problems])
    return Matrix(tuple(problems), tuple(configuration(*column) for column in table.columns), table.to_numpy(float),
                  np.full(table.shape, np.nan), weights)


def shares(weights: Sequence[float]) -> Floats:
    """Weights as shares of their sum."""
    parts = np.asarray(weights, np.float64)
    return np.asarray(parts / parts.sum())
