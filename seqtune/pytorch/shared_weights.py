"""Shared weights: a copy of a module for a moment in the same memory, and whether a module's weights were written."""

from __future__ import annotations

import copy
from operator import attrgetter
from typing import Any

from torch import nn

_version = attrgetter("_version")  # counts changes in place


class WatchedWeights:
    """The parameters and buffers of a module, and their versions.

    Inference tensors are left out: they have no versions, and cannot be changed outside the inference mode.
    """

    def __init__(self, module: nn.Module) -> None:
        self._weights = [weight for weight in (*module.parameters(), *module.buffers()) if not weight.is_inference()]
        self._versions = self._current()

    def were_written(self) -> bool:
        """Whether one was changed in place since this object was made; a tenth of a microsecond for each."""
        return self._versions != self._current()

    def _current(self) -> list[int]:
        return list(map(_version, self._weights))


def shared_copy(model: nn.Module) -> nn.Module:
    """A copy that shares the memory of the model's parameters, for a call or two while the model stays as it is.

    Buffers, tensors of inference mode and of other kinds than plain ones are copied.
    """
    weights = [weight for weight in model.parameters() if type(weight) is nn.Parameter and not weight.is_inference()]
    shared: dict[int, Any] = {id(weight): nn.Parameter(weight.detach(), weight.requires_grad) for weight in weights}
    return copy.deepcopy(model, shared)
