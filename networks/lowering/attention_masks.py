"""Masks of attention: numbers to add, in place of truth values, of replaced scores and of several masks.

PyTorch computes masks that are not constant, before our program runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .graph_edits import insert_operation
from .lowering import arguments

aten = torch.ops.aten
LOW = -1e30  # all scores vanish beside it, so that a row in which all are replaced gets equal weights, as in PyTorch


@dataclass(frozen=True, slots=True)
class HiddenScores:
    """The scores that are replaced by a low number: where `condition` is true."""

    condition: fx.Node
    number: float


def added_masks(graph: fx.Graph, masks: Sequence[fx.Node], hidden: Sequence[HiddenScores]) -> fx.Node | None:
    """One mask for all that is added to scores or replaces them; None for nothing.

    PyTorch's softmax of a row of -infinity is NaN, its attention makes 0 of it. The mask of such a row is NaN, as far
    as it follows from constants or from replaced scores.
    """
    fixed = [of_heads(graph, mask) for mask in masks if mask.op == "get_attr"]
    low = [_replacing(graph, part) for part in hidden]
    parts = [of_heads(graph, mask) for mask in masks if mask.op != "get_attr"]
    if fixed:
        parts.append(_without_empty_rows(graph, _joined(graph, aten.add.Tensor, fixed)))
    if low:
        whole = _joined(graph, aten.minimum.default, low)
        parts.append(_without_empty_rows(graph, whole) if any(math.isinf(part.number) for part in hidden) else whole)
    return _joined(graph, aten.add.Tensor, parts) if parts else None


def _replacing(graph: fx.Graph, part: HiddenScores) -> fx.Node:
    """0 where a score stays, and else a low number, whose sum with the score is that number."""
    return of_heads(graph, _inserted_after(graph, part.condition, aten.where.Scalar, min(part.number, LOW), 0.0))


def _without_empty_rows(graph: fx.Graph, mask: fx.Node) -> fx.Node:
    """The mask with NaN in place of rows of -infinity."""
    empty = _inserted_after(graph, _inserted_after(graph, mask, aten.eq.Scalar, -math.inf), aten.all.dim, -1, True)
    return _inserted_after(graph, empty, aten.where.ScalarSelf, math.nan, mask)


def _joined(graph: fx.Graph, target: Any, parts: Sequence[fx.Node]) -> fx.Node:
    whole, *others = parts
    for part in others:
        whole = insert_operation(graph, target, whole, part)
    return whole


def of_heads(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """A mask or a factor without leading axes of the size 1, so that it has four axes at most."""
    shape = node.meta["val"].shape
    return node if len(shape) <= 4 else insert_operation(graph, aten.reshape.default, node, list(shape[-3:]))


def take_truth_values(graph: fx.Graph, node: fx.Node) -> None:
    """Let attention add 0 and -infinity in place of a mask of truth values that is no constant."""
    mask = arguments(node)["attn_mask"]
    if not isinstance(mask, fx.Node) or mask.op == "get_attr" or mask.meta["val"].dtype != torch.bool:
        return
    dtype = node.args[0].meta["val"].dtype  # type: ignore[union-attr]
    source = mask
    while source.target is aten.expand.default and isinstance(source.args[0], fx.Node) \
            and source.args[0].meta["val"].dim() == mask.meta["val"].dim():
        source = source.args[0]  # fewer numbers
    added = _inserted_after(graph, source, aten.where.Scalar, 0.0, -math.inf)
    if dtype != torch.float32:
        added = _inserted_after(graph, added, aten.to.dtype, dtype)
    node.args = tuple(added if value is mask else value for value in node.args)
    node.kwargs = {name: added if value is mask else value for name, value in node.kwargs.items()}


def _inserted_after(graph: fx.Graph, source: fx.Node, target: Any, *given: Any) -> fx.Node:
    """Insert an operation after the value that it reads, or return the equal one there: attention shares masks."""
    for user in source.users:
        if user.target is target and user.args == (source, *given) and not user.kwargs:
            source.append(user)
            return user
    with graph.inserting_after(source):
        return insert_operation(graph, target, source, *given)
