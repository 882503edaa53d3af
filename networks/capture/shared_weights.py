"""Weights of a module: copies of the module that share or own them, and whether they or its hooks were changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from seqtune.errors import MisuseError, one_line

PLAIN = (Tensor, nn.Parameter)  # tensors of subclasses may have no memory, or other meanings
_version = attrgetter("_version")  # counts changes in place


class WatchedWeights:
    """The parameters and buffers of a module, where each is kept, and their versions.

    Inference tensors have no versions, and cannot be changed outside the inference mode.
    """

    def __init__(self, module: nn.Module) -> None:
        self.tensors = [weight for weight in (*module.parameters(), *module.buffers()) if not weight.is_inference()]
        self._addressed = [weight for weight in self.tensors
                           if type(weight) in PLAIN and weight.layout is torch.strided]
        self._versions = self._current()
        self._kept = [(kept, name, weight) for part in module.modules() for kept in (part._parameters, part._buffers)
                      for name, weight in kept.items() if weight is not None]

    def were_written(self) -> bool:
        """Whether a tensor was changed in place or got other memory since this object was made.

        Takes 0.3 us for each tensor. `weight.data = values`, as in `torch.nn.utils.vector_to_parameters`, gives other
        memory, and PyTorch does not count it as a change.
        """
        return self._versions != self._current()

    def were_replaced(self) -> bool:
        """Whether another tensor is in the place of one, as in `torch.func.functional_call`, or none, as in
        `torch.nn.utils.parametrize`; takes 0.1 us for each tensor.
        """
        return not all(kept.get(name) is weight for kept, name, weight in self._kept)

    def _current(self) -> list[int]:
        return [*map(_version, self.tensors), *map(Tensor.data_ptr, self._addressed)]


class WatchedHooks:
    """The hooks of a module's parts, to see whether more are registered: a graph does not call them."""

    def __init__(self, module: nn.Module) -> None:
        self._parts = list(module.modules())
        self._before = self._current()
        self._count, self._differ = RemovableHandle.next_id, False

    def differ(self) -> bool:
        """Whether the parts have other hooks; looks only if a hook was registered anywhere, or they differed before."""
        if self._differ or RemovableHandle.next_id != self._count:
            self._count, self._differ = RemovableHandle.next_id, self._current() != self._before
        return self._differ

    def _current(self) -> list[tuple[int, ...]]:
        return [(*part._forward_pre_hooks, *part._forward_hooks) for part in self._parts]


Arrays = Sequence[NDArray[np.uint8]]


def copy_arrays(copies: Arrays, originals: Arrays) -> None:
    """Copy arrays; NumPy does so without Python's lock, and in one thread only: an export runs at the same time."""
    for target, source in zip(copies, originals, strict=True):
        np.copyto(target, source)


class OwnCopy:
    """A copy of a model with memory of its own: `model`. Another thread copies its parameters until `wait` returns.

    An export needs no values of parameters, and takes about as long as this copying for a large model: the first use of
    memory is slow. An export may read values of parameters that a module keeps
    in a list; then the copy is complete at once. Raises MisuseError for a model that cannot be copied.
    """

    def __init__(self, model: nn.Module, copy_all: Callable[[Arrays, Arrays], None] = copy_arrays) -> None:
        weights = [weight for weight in plain_parameters(model) if weight.layout is torch.strided
                   and weight.is_contiguous() and not weight.is_conj() and not weight.is_neg()]
        copies = [nn.Parameter(torch.empty_like(weight), weight.requires_grad) for weight in weights]
        self._pool = ThreadPoolExecutor(1)
        self._copied = self._pool.submit(copy_all, [_bytes(copy) for copy in copies], list(map(_bytes, weights)))
        self._pool.shutdown(wait=False)
        memo: dict[int, Any] = {id(weight): copy for weight, copy in zip(weights, copies, strict=True)}
        try:
            self.model = copy.deepcopy(model, memo)
        except Exception as error:  # each module may have a __deepcopy__ of its own
            raise MisuseError(f"the model cannot be copied: {one_line(error, 200)}") from error
        if _keeps_weights_apart(model):
            self.wait()

    def wait(self) -> None:
        """Wait until all values are there."""
        self._copied.result()


def _bytes(weight: Tensor) -> NDArray[np.uint8]:
    """The memory of a contiguous tensor; writing there does not count as a change of the tensor."""
    array: NDArray[np.uint8] = weight.detach().reshape(-1).view(torch.uint8).numpy()
    return array


def _keeps_weights_apart(model: nn.Module) -> bool:
    """Whether a module has parameters among its plain attributes, such as in a list."""
    return any(isinstance(leaf, nn.Parameter) for part in model.modules()
               for name, value in vars(part).items() if name not in ("_parameters", "_modules")
               for leaf in pytree.tree_leaves(value))


@contextmanager
def restored_buffers(module: nn.Module) -> Iterator[None]:
    """Give a module's buffers their present values again at the end: calls in between may write or replace them."""
    buffers = WatchedBuffers(module)
    try:
        yield
    finally:
        if buffers.written():
            buffers.restore()


@dataclass(frozen=True, slots=True)
class _Buffer:
    """A buffer as a part keeps it: the tensor, how often it was changed in place, and a copy of its values."""

    part: nn.Module
    tensor: Tensor | None
    version: int
    values: Tensor | None

    @classmethod
    def of(cls, part: nn.Module, tensor: Tensor | None) -> _Buffer:
        if tensor is None:
            return cls(part, None, 0, None)
        return cls(part, tensor, -1 if tensor.is_inference() else tensor._version, tensor.clone())

    def is_kept(self, tensor: Tensor | None) -> bool:
        """Whether a part still keeps this tensor with these values; batch norms write without counting a change."""
        if tensor is None or self.tensor is not tensor or self.values is None:
            return self.tensor is tensor
        return (tensor.is_inference() or tensor._version == self.version) and (
            type(tensor) not in PLAIN or tensor.layout is not torch.strided
            or bool(((tensor == self.values) | ((tensor != tensor) & (self.values != self.values))).all()))


class WatchedBuffers:
    """The buffers of a module and of its parts, to see which parts have one that was written, replaced or filled."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._before = {(name, key): _Buffer.of(part, tensor) for name, part in module.named_modules()
                        for key, tensor in part._buffers.items()}

    def written(self) -> set[str]:
        """The names of the parts that have such a buffer, themselves or deeper; "" is the module."""
        now = {(name, key): tensor for name, part in self._module.named_modules()
               for key, tensor in part._buffers.items()}
        parts = {key[0] for key in self._before.keys() | now.keys()
                 if key not in self._before or not self._before[key].is_kept(now.get(key))}
        return {outer for name in parts for outer in outer_names(name)}

    def restore(self) -> None:
        """Give all parts the buffers with the values that they had."""
        for (_, key), before in self._before.items():
            before.part._buffers[key] = tensor = before.tensor
            if tensor is not None and before.values is not None and not tensor.is_inference() \
                    and not torch.equal(tensor, before.values):
                tensor.data.copy_(before.values)


def outer_names(name: str) -> tuple[str, ...]:
    """The names of the parts of a model that hold a part, "" for the model first, and its own name."""
    return "", *accumulate(name.split("."), "{}.{}".format)


def plain_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are neither of a subclass nor made in inference mode."""
    return [weight for weight in model.parameters() if type(weight) is nn.Parameter and not weight.is_inference()]


def shared_copy(model: nn.Module) -> nn.Module:
    """A copy that shares the memory of the model's parameters, for a call or two while the model stays as it is.

    Buffers, tensors of inference mode and of other kinds than plain ones are copied.
    """
    shared: dict[int, Any] = {id(weight): nn.Parameter(weight.detach(), weight.requires_grad)
                              for weight in plain_parameters(model)}
    return copy.deepcopy(model, shared)
