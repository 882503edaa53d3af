"""LearnedChoices: the parts of a checkpoint, beside its translator, that come from another tuner's choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seqtune.data.formats.miopen_terms import as_convnd
from seqtune.errors import CheckpointError, FormatError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.miopen.solver import PREFIX, SOLVERS, find_solver
from seqtune.kernels.miopen.xdlops_tables import RowSolver
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

from ..sequence.vocabulary import Vocabulary
from .about import ChoicesAbout
from .choice_trees import ChoiceTrees
from .seen_problems import SeenProblems

_MOST_ROWS = 1000  # rows of one solver's table


@dataclass(frozen=True, eq=False)
class LearnedChoices:
    """The problems that were learned from, tables of solvers, and trees that choose values."""

    learned: SeenProblems  # never evaluated on
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by solver: the rows of its table as text
    trees: ChoiceTrees | None = None

    @classmethod
    def read(cls, folder: Path, about: ChoicesAbout, learned: NDArray[np.uint8], vocabulary: Vocabulary) -> Self:
        """Read the tables and trees of a checkpoint's folder. Raises CheckpointError."""
        choices = cls(SeenProblems(learned), about.tables)
        if about.trees is None:
            return choices
        return cls(choices.learned, choices.tables,
                   ChoiceTrees.read(folder, about.trees, choices.kernels(vocabulary), vocabulary))

    def about(self) -> ChoicesAbout:
        """The fields of seqtune.json that describe it."""
        return ChoicesAbout(learned=len(self.learned.bits), tables=dict(self.tables),
                            trees=None if self.trees is None else self.trees.about())

    def kernels(self, vocabulary: Vocabulary) -> Mapping[str, Kernel]:
        """The solvers with parameters in a vocabulary by name, with the table rows of training.

        Raises CheckpointError.
        """
        kernels = {}
        for declared in vocabulary.kernels:
            name = declared.name.removeprefix(PREFIX)
            if name in SOLVERS and declared.parameters:
                solver = find_solver(name)
                if isinstance(solver, RowSolver) and name in self.tables:
                    try:
                        solver = solver.with_rows(solver.read(text) for text in self.tables[name][:_MOST_ROWS])
                    except (FormatError, KernelError) as error:
                        raise CheckpointError(f"the table of {name} is damaged: {error}") from None
                kernels[declared.name] = solver.kernel
        return kernels

    def task(self, problem: Problem, device: Device, kernels: Iterable[Kernel]) -> Task:
        """The task in MIOpen's terms, with those of the kernels that apply; where none does, with all solvers.

        Raises KernelError, ProblemError.
        """
        problem = as_convnd(problem)
        solving = tuple(kernel for kernel in kernels if kernel.why_not(problem, device) is None)
        return Task.of(problem, device, solving or None)
