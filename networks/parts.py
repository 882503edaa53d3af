"""compile_parts: compiles a model as one graph or, where it cannot be exported, its parts as several graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from seqtune.errors import one_line
from seqtune.kernels.say import Say

from .capture.examples import clones
from .capture.export import exported
from .capture.shared_weights import OwnCopy, WatchedWeights, restored_buffers
from .compiled import Compiled
from .compiler import CompiledGraph

UNCOMPILED = "in no part of the model that could be compiled"  # of what `left_out` counts


def compile_parts(whole: OwnCopy, module: nn.Module, examples: Sequence[Tensor],
                  compile_program: Callable[[nn.Module, ExportedProgram, Sequence[Tensor]], CompiledGraph | None],
                  progress: Say, left: Mapping[nn.Module, str]) -> nn.Module:
    """Compile a module, a part of the copy; or, if it cannot be exported, its exportable children.

    A module in `left` is not compiled as a whole, for the reason there.
    """
    if next(module.parameters(), None) is None:
        return module
    weights = WatchedWeights(module)
    try:
        if module in left:
            raise ValueError(left[module])
        with torch.no_grad(), restored_buffers(module):  # an export fills empty ones with fake tensors
            program = exported(module, tuple(examples))
    except Exception as error:  # many kinds of code cannot be exported
        progress(f"{type(module).__name__} cannot be exported; trying its parts: {one_line(error, 100)}")
        whole.wait()
        inputs = _inputs_of_children(module, examples)
        for name, child in list(module.named_children()):
            if inputs.get(name):
                setattr(module, name, compile_parts(whole, child, inputs[name], compile_program, progress, left))
        return module
    whole.wait()
    compiled = compile_program(module, program, examples)
    if compiled is None:
        return module
    spec = program.call_spec.out_spec
    assert spec is not None
    return Compiled(module, weights, compiled, examples, lambda flat: pytree.tree_unflatten(flat, spec))


def left_out(module: nn.Module) -> str:
    """The layers with parameters that are in no compiled part, counted by type; empty if there is none."""
    return ", ".join(f"{count} {name}" for name, count in _left_out(module).items())


def _left_out(module: nn.Module) -> Counter[str]:
    if isinstance(module, Compiled):
        return Counter()
    types = Counter({type(module).__name__: 1} if next(module.parameters(recurse=False), None) is not None else {})
    return sum(map(_left_out, module.children()), types)


def _inputs_of_children(module: nn.Module, examples: Sequence[Tensor]) -> dict[str, tuple[Tensor, ...]]:
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
        with torch.no_grad(), restored_buffers(module):
            module(*clones(examples))
    finally:
        for handle in handles:
            handle.remove()
    return inputs
