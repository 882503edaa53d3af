"""Shared weights: a copy of a module in the same memory, and whether its weights were written since."""

from __future__ import annotations

import copy
from collections.abc import Collection
from operator import attrgetter
from typing import Any

from torch import Tensor, nn

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


def shared_copy(model: nn.Module, own: Collection[int]) -> nn.Module:
    """A copy that shares the memory of the model's tensors, and notices when they are written.

    The buffers with an id in `own`, tensors of inference mode and of other kinds than plain ones are copied.
    """
    tensors = [tensor for tensor in (*model.parameters(), *model.buffers())
               if type(tensor) in (Tensor, nn.Parameter) and not tensor.is_inference() and id(tensor) not in own]
    memory = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    tensors += [value for module in model.modules() for value in vars(module).values()  # views of weights, say
                if type(value) is Tensor and value.untyped_storage().data_ptr() in memory]
    shared: dict[int, Any] = {id(tensor): tensor.detach() for tensor in tensors}
    shared |= {id(tensor): nn.Parameter(shared[id(tensor)], tensor.requires_grad) for tensor in tensors
               if isinstance(tensor, nn.Parameter)}
    return copy.deepcopy(model, shared)
