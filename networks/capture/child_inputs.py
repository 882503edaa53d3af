"""Inputs of a module's children: what a module that cannot be exported calls its parts with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .examples import clones
from .shared_weights import kept_buffers


def inputs_of_children(module: nn.Module, examples: Sequence[Tensor]) -> dict[str, tuple[Tensor, ...]]:
    """The inputs of each child where these are tensors of the same shapes at every call, else ()."""
    inputs: dict[str, tuple[Tensor, ...]] = {}
    handles = []
    for name, child in module.named_children():
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str = name) -> None:
            usable = not kwargs and all(isinstance(value, Tensor) for value in args)
            before = inputs.get(name, args)
            same = usable and [value.shape for value in before] == [value.shape for value in args]
            inputs[name] = tuple(value.clone() for value in args) if same else ()

        handles.append(child.register_forward_pre_hook(hook, with_kwargs=True))
    try:
        with torch.no_grad(), kept_buffers(module):
            module(*clones(examples))
    finally:
        for handle in handles:
            handle.remove()
    return inputs
