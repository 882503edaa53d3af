"""Progress of trainings in tests."""

from __future__ import annotations

from collections.abc import Callable

from seqtune.kernels.say import silent
from seqtune.predictor.training.progress import Epoch, Progress


def parted(epochs: Callable[[Epoch], object], lines: Callable[[str], object] = silent) -> Progress:
    """A `Progress` that hands every epoch on to one function, and every line to another."""
    def receive(step: str | Epoch) -> None:
        if isinstance(step, str):
            lines(step)
        else:
            epochs(step)

    return receive
