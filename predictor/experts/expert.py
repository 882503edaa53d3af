"""Expert: expects how slow configurations are. A new expert is one class, and one name in `Checkpoint.experts`."""

from __future__ import annotations

from typing import Protocol

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
