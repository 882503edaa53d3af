"""MIOpen's find-dbs as matrices of problems and solvers.

A find-db keeps the four fastest solvers of a problem, and the others are missing: they are slower, or not valid, or
failed. Each counts as 20 times the best, so a rule is judged more harshly here than where all times are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqtune.errors import MisuseError
from seqtune.integrations.miopen.formats.files import FindDb, read
from seqtune.integrations.miopen.formats.terms import true_terms
from seqtune.integrations.miopen.kernels.gpus import device_of
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.predictor.dispatch.matrix import Matrix

LEAST_SOLVERS = 2  # of a problem; there is nothing to choose with fewer


@dataclass(frozen=True, slots=True)
class Part:
    """The problems of one find-db that are compared: 2-D, without groups."""

    file: str  # how the file's name begins
    direction: str  # F forward, B backward data, W backward weights
    dtype: str

    def __str__(self) -> str:
        return f"{self.file[:6]} {self.direction} {self.dtype}"


SETS = (Part("gfx90a68", "F", "FP32"), Part("gfx90878", "W", "FP32"),
        Part("gfx906_60", "B", "FP32"), Part("gfx942130", "F", "FP32"))
RULES = SETS[:2]


@dataclass(frozen=True, eq=False)
class SolverTimes:
    """The times of solvers as a matrix, with the columns of its problems and the device."""

    matrix: Matrix
    columns: ProblemColumns
    device: Device


def solver_times(folder: Path, part: Part) -> SolverTimes:
    """Read a part of a folder's find-dbs. Raises MisuseError if the folder does not hold it."""
    paths = sorted(folder.glob(f"{part.file}*fdb.txt*"))
    content = read(paths[0]) if paths else None
    if not isinstance(content, FindDb):
        raise MisuseError(f"{folder} holds no find-db {part.file}*.fdb.txt; MIOpen's source has it")
    wanted = {"direction": part.direction, "data_type": part.dtype, "layout": "NCHW", "group_count": 1}
    rows = np.flatnonzero(np.all([np.array(content.columns[name]) == value for name, value in wanted.items()], axis=0))
    columns = {name: np.array(column)[rows] for name, column in content.columns.items()}
    problems, sound = ProblemColumns.read("convnd", true_terms(columns))
    for broken, _ in problems.refusals():
        sound &= ~broken
    numbers = {row: number for number, row in enumerate(rows.tolist())}
    times = [(numbers[row], solver, time) for row, solver, time, _ in content.times if row in numbers]
    solvers, codes = np.unique([solver for _, solver, _ in times], return_inverse=True)
    seconds = np.full((len(problems), len(solvers)), np.inf)
    np.minimum.at(seconds, (np.array([number for number, *_ in times]), codes), [time for *_, time in times])
    enough = np.flatnonzero(sound & (np.isfinite(seconds).sum(axis=1) >= LEAST_SOLVERS))
    kept, seconds = problems.take(enough), seconds[enough]
    used = np.flatnonzero(np.isfinite(seconds).any(axis=0))
    matrix = Matrix(tuple(problem for _, problem in kept.problems()),
                    tuple(Configuration.of(str(solvers[index]), {}) for index in used), seconds[:, used],
                    np.full((len(enough), len(used)), np.nan), np.full(len(enough), 1 / len(enough)))
    return SolverTimes(matrix, kept, device_of(paths[0], ()))
