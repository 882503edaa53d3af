"""Examples that a model is optimised for: checks of both, copies for one call, and the model's results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from seqtune.errors import MisuseError, SeqtuneError, one_line

from ..plan.precision import NAMES, has_bf16
from .shared_weights import WatchedBuffers, outer_names, shared_copy

# Reasons why a part of a model is left to PyTorch
BUFFERS = "it changes its buffers, or an outer module does"
NESTED = ("it computes padded sequences as nested tensors, whose padded rows become 0; the exported graph has other "
          "numbers there")


def checked_examples(given: object) -> tuple[Tensor, ...]:
    """Copies of the tensors that a model is called with, given as one or several. Raises MisuseError for others.

    The copies are dense: an example may repeat its elements where later operands do not.
    """
    examples = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not examples or not all(isinstance(example, Tensor) for example in examples):
        raise MisuseError("the example input must be a tensor, or a tuple of the tensors that the model is called with")
    if any(example.is_nested or example.layout is not torch.strided for example in examples):
        raise MisuseError("the example input is a sparse or nested tensor; only dense ones are optimised")
    return clones(examples)


def check_model(model: object, examples: Sequence[Tensor]) -> None:
    """Raise MisuseError for a model that cannot be optimised, and for examples that it cannot be optimised for.

    The model must be a torch.nn.Module in eval mode, and its lazy parameters and buffers must have values. Parameters,
    buffers and examples must be on the CPU; floats must be fp32, or bf16 if a parameter of the model is.
    """
    if not isinstance(model, nn.Module):
        raise MisuseError(f"a {type(model).__name__} is not a torch.nn.Module")
    if any(module.training for module in model.modules()):
        raise MisuseError("the model is in training mode; call .eval() first")
    allowed = tuple(NAMES) if has_bf16(model.parameters()) else (torch.float32,)
    named = [(f"model's {kind} {name}", tensor) for kind, tensors in (
        ("parameter", model.named_parameters()), ("buffer", model.named_buffers())) for name, tensor in tensors]
    lazy = [what for what, tensor in named if is_lazy(tensor)]
    if lazy:
        raise MisuseError(f"the {lazy[0]} has no values yet; call the model once")
    for what, tensor in (*named, *(("example input", example) for example in examples)):
        if tensor.device.type != "cpu":
            raise MisuseError(f"the {what} is on {tensor.device}; only CPU models are optimised")
        if tensor.is_floating_point() and tensor.dtype not in allowed:
            reason = (", and no parameter of the model is" if tensor.dtype in NAMES else
                      f"; only {' and '.join(map(str, NAMES))} are optimised")
            raise MisuseError(f"the {what} is of {tensor.dtype}{reason}: convert the model and the example input with "
                              ".float() or .bfloat16()")


def result_for(model: nn.Module, operands: Sequence[object], what: str) -> Any:
    """The model's result. An exception of the model becomes a MisuseError, which names the operands as `what`."""
    try:
        return model(*operands)
    except SeqtuneError:
        raise
    except Exception as error:  # a model is anybody's code
        raise MisuseError(f"the model cannot be called with {what}: {one_line(error, 200)}") from error


def clones(examples: Sequence[Any]) -> tuple[Any, ...]:
    """Copies of the tensors for one call, which may change them; sizes and other numbers stay as they are."""
    return tuple(example.detach().clone() if isinstance(example, Tensor) else example for example in examples)


def tensors_of(result: Any) -> list[Tensor]:
    """Copies of a result's tensors; bf16 becomes fp32."""
    return [leaf.float() if leaf.dtype == torch.bfloat16 else leaf.clone() for leaf in pytree.tree_leaves(result)
            if isinstance(leaf, Tensor)]


def reference_of(model: nn.Module, examples: Sequence[Tensor]) -> tuple[list[Tensor], dict[str, str]]:
    """The model's results for the examples, computed in fp32, and the parts that an export does not compute as PyTorch.

    Each name of a part has the reason: calls write its buffers, or it computes nested tensors. A buffer that only the
    first call writes, such as a table that it makes, does not count. The model's own buffers are not written. Raises
    MisuseError where the model raises an exception.
    """
    wide = shared_copy(model)
    if has_bf16((*model.parameters(), *examples)):
        wide, examples = wide.float(), [x.float() if x.is_floating_point() else x for x in examples]
    with torch.no_grad():
        buffers = WatchedBuffers(wide)
        expected = tensors_of(result_for(wide, clones(examples), "the example input"))
        left = dict.fromkeys(_nested_parts(wide, examples), NESTED)
        if not buffers.written():
            return expected, left
        buffers = WatchedBuffers(wide)
        result_for(wide, clones(examples), "the example input a second time")
        return expected, left | dict.fromkeys(buffers.written(), BUFFERS)


def _nested_parts(model: nn.Module, examples: Sequence[Tensor]) -> set[str]:
    """The names of the parts that are called with nested tensors, and of those around them.

    PyTorch's encoder makes them, of sequences with a mask of their padding.
    """
    if not any(isinstance(part, nn.TransformerEncoder) for part in model.modules()):
        return set()
    names: set[str] = set()
    handles = []
    for name, part in model.named_modules():
        def hook(_: nn.Module, args: tuple[Any, ...], name: str = name) -> None:
            if any(isinstance(value, Tensor) and value.is_nested for value in args):
                names.update(outer_names(name))

        handles.append(part.register_forward_pre_hook(hook))
    try:
        model(*clones(examples))
    finally:
        for handle in handles:
            handle.remove()
    return names


def difference(expected: Sequence[Tensor], actual: Sequence[Tensor]) -> float:
    """The largest max|difference| / max|reference| of finite numbers; infinite where shapes or other numbers differ."""
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in actual]:
        return math.inf
    worst = 0.0
    for reference, result in zip(expected, actual, strict=True):
        finite = reference.isfinite()
        if not torch.equal(finite, result.isfinite()) \
                or not torch.allclose(reference[~finite], result[~finite], equal_nan=True):
            return math.inf
        if finite.any():
            numbers, expected_numbers = result[finite].double(), reference[finite].double()
            error = (numbers - expected_numbers).abs().max() / expected_numbers.abs().max().clamp(min=1e-30)
            worst = max(worst, float(error))
    return worst
