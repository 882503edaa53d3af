"""Progress: where a training stands, as users see it: a line of text for a step, or an Epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Epoch:
    """The state of a training after an epoch."""

    stage: str  # "training" or "refitting"
    epoch: int
    epochs: int
    loss: float  # mean nats per example, over the steps of the epoch
    best_epoch: int  # the epoch whose weights are kept so far
    seconds: float  # since the training began
    left: float | None  # seconds until the last epoch, if all take as long as those of this run and none is left out;
    #                     None after the first, which also warms up, and which alone says little
    figures: Mapping[str, float] = field(default_factory=dict)  # of the validation problems, where there are any

    @property
    def text(self) -> str:
        """The state as one line of text."""
        figures = "".join(f", {name} {value:.4f}" for name, value in self.figures.items())
        best = "" if self.best_epoch == self.epoch else f" (best in epoch {self.best_epoch})"
        loss = f"loss {self.loss:.4f}{figures}{best}"
        left = "" if not self.left else f", about {self.left:.0f} s to epoch {self.epochs}"
        return f"{self.stage}: epoch {self.epoch}/{self.epochs}, {loss}, {self.seconds:.0f} s{left}"


Progress = Callable[[str | Epoch], None]
