"""What is known of the shapes before a kernel is chosen: their tasks, measured times, and who expects the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
OTHERS = 2  # candidates that each further shape of the domain proposes
FEWEST, MOST = 50, 200  # candidates of a matrix, if the spaces have so many
FURTHER = 0.3  # weight of the further shapes together: what is only expected of them counts less
UNIVERSAL = 5  # candidates that may be the fallback
FIND = "find"  # Record.run of the times of MIOpen's find-dbs, which compare solvers whose settings are unknown


@dataclass
class Known:
    """The tasks of the shapes on a device, with what is measured; and a checkpoint, or trees, for what is not.

    After the given shapes may come others of the domain, of which nothing is measured.
    """

    device: Device
    tasks: list[MeasuredTask]
    weights: Floats  # (shape,) their sum is 1
    given: int  # the number of given shapes
    answerings: Mapping[Problem, Answering] = field(default_factory=dict)  # empty: trees learn from what is measured
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
            self._expected[key] = self._asked(task, numbers)
        return self._expected[key]

    def _asked(self, task: Task, numbers: Numbers) -> Floats:
        asked = self.answerings.get(task.problem)
        if asked is not None and asked.checkpoint is not None:
            return asked.checkpoint.opinions(task, numbers).slowness
        return np.full(len(numbers), np.nan) if self._trees is None else self._trees.slowness(task, numbers)

    def matrix(self, candidates: Sequence[Configuration]) -> Matrix:
        """The matrix of all shapes with these candidates."""
        return matrix_of(self.tasks, candidates, self.weights, self.expect)

    def candidates(self, further: Sequence[Configuration] = ()) -> Matrix:
        """The matrix of the candidates: the first of each shape, the fastest measured ones, defaults, and `further`.

        Of more than MOST, those stay that help most by what is expected.
        """
        count = max(FIRST, min(FEWEST, math.ceil(1.5 * FEWEST / self.given)))
        chosen = dict.fromkeys([*further, *(measured.task.default for measured in self.tasks[:self.given])])
        for row, proposed in enumerate(self._proposals(count)):
            chosen |= dict.fromkeys(proposed if row < self.given else proposed[:OTHERS])
        matrix = self.matrix([*chosen])
        self._expected.clear()  # the numbers of the kept ones are others
        kept = most_helpful(matrix.slowness(), self.weights, min(MOST, len(chosen)), range(len(further)))
        ordered = sorted(kept, key=lambda column: (matrix.candidates[column].kernel, matrix.candidates[column].key))
        return matrix.take(candidates=ordered)  # in an order that does not depend on what is measured already

    def universal(self, probes: Sequence[Problem]) -> list[Configuration]:
        """The UNIVERSAL configurations that are valid for all probes of a domain and are expected to be fastest."""
        try:
            tasks = sorted((Task.of(problem, self.device) for problem in probes), key=len)
        except KernelError:
            return []
        shared = [*tasks[0]] if tasks else []
        for task in tasks[1:]:
            shared = [configuration for kernel in task.kernels
                      for own in [[each for each in shared if each.kernel == kernel.name]]
                      for configuration, number in zip(
                          own, task.numbers(kernel.name, [dict(each.settings) for each in own]).tolist(), strict=True)
                      if number >= 0]
        step = math.ceil(len(shared) / MOST) or 1
        matrix = self.matrix(shared[::step])
        order = np.argsort(self.weights @ matrix.slowness(), kind="stable")[:UNIVERSAL]
        return [matrix.candidates[column] for column in order.tolist()]

    def _proposals(self, count: int) -> list[list[Configuration]]:
        measured = [known.fastest(FIRST) for known in self.tasks]
        if self.answerings:
            proposed = propose_many([self.answerings[known.problem] for known in self.tasks], count, evidence=False)
            return [[*fastest, *(each.configuration for each in candidates)]
                    for fastest, candidates in zip(measured, proposed, strict=True)]
        if self._trees is None:
            return measured
        return [[*fastest, *(known.task[number] for number in self._trees.first(known.task, count).tolist())]
                for fastest, known in zip(measured, self.tasks, strict=True)]


def known_here(shapes: Mapping[Problem, float], others: Sequence[Problem], device: Device,
               checkpoint: str | Path | None, seconds: Callable[[Task], Floats],
               note: Callable[[str], object]) -> Known:
    """What is known of shapes and of others on a device here; `seconds` are what a journal has of a task, by number.

    Shapes that no kernel solves are left out, with a note. Raises KernelError if none is left, CheckpointError.
    """
    wanted = [*shapes, *others]
    try:
        answered, unsolved = answering_many(wanted, device, checkpoint)
    except CheckpointError:
        if checkpoint is not None:
            raise
        answered, unsolved = {}, {}
    tasks = {problem: asked.task for problem, asked in answered.items()}
    if any(asked.checkpoint is None or not asked.checkpoint.experts for asked in answered.values()):
        answered = {}
    for problem in wanted:
        if not answered and problem not in unsolved:
            try:
                tasks[problem] = Task.of(problem, device)
            except KernelError as error:
                unsolved[problem] = error
    lacking = [problem for problem in shapes if problem in unsolved]
    if len(lacking) == len(shapes):
        raise unsolved[lacking[0]]
    if lacking:
        note(f"{len(lacking)} of {len(shapes)} shapes have no kernel and are left out, such as "
             f"{lacking[0].brief()}: {unsolved[lacking[0]]}")
    solved = [problem for problem in shapes if problem in tasks]
    further = [problem for problem in others if problem in tasks]
    share = FURTHER * len(further) / max(1, len(others))
    weights = np.append((1 - share) * shares([shapes[problem] for problem in solved]),
                        np.full(len(further), share / max(1, len(further))))
    return Known(device, [*(MeasuredTask(tasks[problem], seconds(tasks[problem])) for problem in solved),
                          *(MeasuredTask(tasks[problem], np.full(len(tasks[problem]), np.nan)) for problem in further)],
                 weights, len(solved), answered)


def known_in_data(data: Dataset, device: Device, operation: str, shapes: Mapping[Problem, float] | None) -> Known:
    """What a data set has of an operation's shapes on a device (None: of all). Raises MisuseError if it has none."""
    own = data.on(device.key)
    tasks = [measured for part in (False, True) for measured in measured_tasks(own, part, warn=False)
             if measured.problem.type == operation and (shapes is None or measured.problem in shapes)]
    if not tasks:
        raise MisuseError(f"the data have no times of these shapes of {operation} on {device.name}")
    known = Known(device, tasks, shares([1.0 if shapes is None else shapes[each.problem] for each in tasks]),
                  len(tasks))
    known.learn()
    return known


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
    seconds = table.to_numpy(float)
    return Matrix(tuple(problems), tuple(configuration(*column) for column in table.columns), seconds,
                  np.full(seconds.shape, np.nan), weights)


def shares(weights: Sequence[float]) -> Floats:
    """Weights as shares of their sum."""
    parts = np.asarray(weights, np.float64)
    return np.asarray(parts / parts.sum())
