"""Translation of attention: heads of several batches, with masks that are added."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, fx

from ..nodes import AttentionHeads, Node, Shape
from .lowering import Lowering, Maker, UnknownOperationError, arguments, shape_of


def _attention(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    operands, shape = [lowering.value(given[name]) for name in ("query", "key", "value")], shape_of(node)
    if len(shape) < 3 or any(len(value.shape) != len(shape) for value in operands) or given["dropout_p"]:
        raise UnknownOperationError("attention of fewer than three axes, or with dropout")
    batches, counts = shape[:-3], {value.shape[-3] for value in operands[1:]}
    heads = max(counts)
    if not counts <= {1, heads}:
        raise UnknownOperationError("attention whose keys and values have different numbers of heads")
    inputs = [_of_heads(lowering, value, (*batches, count))
              for value, count in zip(operands, (shape[-3], heads, heads), strict=True)]
    mask = given["attn_mask"]
    if mask is not None and not _hides_nothing(lowering, mask):
        inputs.append(_mask_of_heads(lowering, lowering.value(_added_mask(lowering, mask)), batches))
    scale = given["scale"]
    result = lowering.add(AttentionHeads((math.prod(batches), *shape[-3:]), inputs,
                                         1 / math.sqrt(operands[0].shape[-1]) if scale is None else float(scale),
                                         bool(given["is_causal"])))
    return lowering.add_reshaped(result, shape)


def _of_heads(lowering: Lowering, value: Node, lead: Shape) -> Node:
    """A value for these batches and heads, repeated where it has one for all; all axes of batches become one."""
    whole = (*lead, *value.shape[-2:])
    return lowering.add_reshaped(lowering.add_expanded(value, whole), (math.prod(lead[:-1]), *whole[-3:]))


def _mask_of_heads(lowering: Lowering, mask: Node, batches: Shape) -> Node:
    """A mask with at most one axis of batches."""
    if len(mask.shape) < 4 or len(batches) == 1:
        return mask
    if math.prod(mask.shape[:-3]) == 1:
        return lowering.add_reshaped(mask, (1, *mask.shape[-3:]))
    return _of_heads(lowering, mask, (*batches, mask.shape[-3]))


def _hides_nothing(lowering: Lowering, mask: Any) -> bool:
    """Whether a mask is a constant that changes no score."""
    constant = lowering.values.get(mask) if isinstance(mask, fx.Node) else None
    return isinstance(constant, Tensor) and bool((constant if constant.dtype == torch.bool else constant == 0).all())


def _added_mask(lowering: Lowering, mask: Any) -> Any:
    """The mask as floats that are added to the scores: a constant one of truth values becomes 0 and -infinity."""
    constant = lowering.values.get(mask) if isinstance(mask, fx.Node) else None
    if isinstance(constant, Tensor) and constant.dtype == torch.bool:
        return torch.where(constant, 0.0, -math.inf)
    return mask


ATTENTION: dict[Any, Maker] = {torch.ops.aten.scaled_dot_product_attention.default: _attention}
