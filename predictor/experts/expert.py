"""Expert: expects how slow configurations are. The experts' plain mean orders proposals; nothing of it is learned.

A new expert is one class, and one name in `Checkpoint.experts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from seqtune.errors import MisuseError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task


class Expert(Protocol):
    """A method that expects the slowness of configurations without measuring them."""

    @property
    def name(self) -> str:
        """The name in explanations."""
        ...

    @property
    def is_relative(self) -> bool:
        """Whether it knows the slowness up to a constant of the task."""
        ...

    def opinion(self, task: Task, numbers: Numbers) -> Floats | None:
        """log(time / best time) of the configurations with these numbers; None if it does not know one of them.

        The shape is (configuration, member): an expert that is no ensemble has one member.
        """
        ...


@dataclass(frozen=True, eq=False)
class Opinions:
    """The opinions of experts on configurations of a task."""

    slowness: Floats  # (configuration,) the mean of log(time / best time); NaN if no expert knows all configurations
    by_expert: Mapping[str, Floats]  # (configuration, member) the same by each expert that knows them

    @property
    def members(self) -> Floats | None:
        """The members of all experts side by side, (configuration, member); None without an expert."""
        return np.hstack([*self.by_expert.values()]) if self.by_expert else None


def ask(experts: Iterable[Expert], task: Task, numbers: Numbers) -> Opinions:
    """The experts' opinions on configurations, and their mean: each expert counts the same.

    An opinion that is known up to a constant is moved to the mean of the others, or, if there are no others, so that
    its least is 0. Raises MisuseError for an opinion of another shape, or with a number that is not finite.
    """
    asked = [(expert, _opinion(expert, task, numbers)) for expert in experts] if len(numbers) else []
    said = {expert.name: (expert.is_relative, opinion) for expert, opinion in asked if opinion is not None}
    levels = [opinion.mean() for relative, opinion in said.values() if not relative]
    moved = {name: opinion - (opinion.mean() - np.mean(levels) if levels else opinion.min()) if relative else opinion
             for name, (relative, opinion) in said.items()}
    return Opinions(np.mean([opinion.mean(axis=1) for opinion in moved.values()], axis=0) if moved
                    else np.full(len(numbers), np.nan), moved)


def _opinion(expert: Expert, task: Task, numbers: Numbers) -> Floats | None:
    """The opinion of an expert, checked: anybody may write one."""
    opinion = expert.opinion(task, numbers)
    if opinion is None or (np.ndim(opinion) == 2 and len(opinion) == len(numbers) and np.isfinite(opinion).all()):
        return opinion
    raise MisuseError(f"the expert {expert.name} gave an opinion of shape {np.shape(opinion)}; it must be finite and "
                      f"have {len(numbers)} rows, one for each configuration, and a column for each member")
