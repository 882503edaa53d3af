"""Optimized: a copy of an eval-mode CPU model with tuned kernels in it, made by `seqtune.pytorch.optimize`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device

from .compiled import Compiled
from .nodes import Shape
from .selection.choices import Choice, write_choices


class Optimized(nn.Module):
    """A model with tuned kernels in it; made by `optimize`. `choices` says what was chosen for each layer."""

    def __init__(self, model: nn.Module, device: Device, choices: Sequence[Choice], error: float,
                 precision: str = "fp32", inputs: Sequence[Shape] = ()) -> None:
        super().__init__()
        self.model = model
        self.device = device
        self.choices = tuple(choices)
        self.precision = precision
        self.inputs = tuple(inputs)  # the shapes of the example's tensors
        self.error = error  # max|difference| / max|reference| on the example

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model."""
        return self.model(*args, **kwargs)

    def save(self, path: str | Path) -> None:
        """Write the choices and the verdicts on networks, without the weights, for `optimize(..., saved=path)`.

        They hold for inputs of the example's shapes.
        """
        verdicts = [None if module.verdict is None else asdict(module.verdict) for module in self.modules()
                    if isinstance(module, Compiled)]
        write_choices(path, self.device, self.choices, self.precision, verdicts, self.inputs)

    def train(self, mode: bool = True) -> Optimized:
        """Set evaluation mode. Raises MisuseError for training mode."""
        if mode:
            raise MisuseError("an optimised model does not train; train the original and optimise it again")
        return super().train(False)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Raise MisuseError: the weights are packed into the kernels."""
        raise MisuseError("an optimised model keeps its weights; load them into the original and optimise it again")

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        raise MisuseError("an optimised model stays on the CPU in its precision; convert the original, optimise again")

    def __deepcopy__(self, memo: object) -> Any:
        raise MisuseError("an optimised model cannot be copied; save() the choice and optimise the original with it")

    def __reduce__(self) -> Any:
        raise MisuseError("an optimised model cannot be pickled; save() the choice and optimise the original with it")
