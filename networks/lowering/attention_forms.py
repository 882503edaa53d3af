"""Forms of attention: attention that is written out as products and a softmax becomes one operation of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from .attention_masks import HiddenScores, added_masks, of_heads, take_truth_values
from .graph_edits import insert_operation
from .lowering import arguments

aten = torch.ops.aten
SDPA = aten.scaled_dot_product_attention.default
_PRODUCTS = (aten.matmul.default, aten.bmm.default)
_SOFTMAXES = (aten.softmax.int, aten._softmax.default)
_SAME = (aten.clone.default, aten.contiguous.default, aten.detach.default, aten.alias.default, aten.dropout.default)
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default,
          aten.permute.default)
LEAST = -1e9  # scores that are replaced by this number or less get the weight 0
_TYPES = (aten.to.dtype, aten._to_copy.default, aten.to.dtype_layout)


def unify_attention(graph: fx.Graph) -> None:
    """Rewrite attention that is written out, and the masks of all attention. The graph must be functional."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is aten.einsum.default:
            _multiply(graph, node)
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _PRODUCTS:
            written = _written_out(node)
            if written is not None:
                _replace(graph, node, written)
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is SDPA:
            take_truth_values(graph, node)
    graph.eliminate_dead_code()


def _multiply(graph: fx.Graph, node: fx.Node) -> None:
    """Replace a sum over named axes by a product of matrices, where it is one for each place of the shared axes."""
    operands: Any = node.args[1]
    names, result = (side.strip() for side in str(node.args[0]).replace(" ", "").split("->")) \
        if str(node.args[0]).count("->") == 1 else ("", "")
    if names.count(",") != 1 or len(operands) != 2 or not names.replace(",", "").isalpha():
        return
    left, right = names.split(",")
    shared = [axis for axis in result if axis in left and axis in right]
    summed = [axis for axis in left if axis in right and axis not in result]
    rows, columns = ([axis for axis in side if axis not in other] for side, other in ((left, right), (right, left)))
    if any(len(set(side)) != len(side) for side in (left, right, result)) \
            or not summed or sorted(result) != sorted([*shared, *rows, *columns]) \
            or not _agree(operands, (left, right)):
        return
    with graph.inserting_before(node):
        first = _permuted(graph, operands[0], left, [*shared, *rows, *summed])
        second = _permuted(graph, operands[1], right, [*shared, *summed, *columns])
        sizes = dict(zip(left + right, (*operands[0].meta["val"].shape, *operands[1].meta["val"].shape), strict=True))
        first, second = (_with_joined_axes(graph, value, len(shared), first_axes, second_axes, sizes)
                         for value, first_axes, second_axes in ((first, rows, summed), (second, summed, columns)))
        product = insert_operation(graph, aten.matmul.default, first, second)
        if len(rows) != 1 or len(columns) != 1:
            product = insert_operation(graph, aten.reshape.default, product, [
                sizes[axis] for axis in (*shared, *rows, *columns)])
        whole = _permuted(graph, product, [*shared, *rows, *columns], result)
    whole.meta["val"] = node.meta["val"]  # the strides of PyTorch's result, which may be others
    node.replace_all_uses_with(whole)
    graph.erase_node(node)


def _with_joined_axes(graph: fx.Graph, node: fx.Node, shared: int, rows: Sequence[str], columns: Sequence[str],
                      sizes: dict[str, int]) -> fx.Node:
    """The value with several axes of rows, or of columns, as one, and with one of size 1 where there are none."""
    if len(rows) == len(columns) == 1:
        return node
    counts = [math.prod(sizes[axis] for axis in axes) for axes in (rows, columns)]
    return insert_operation(graph, aten.reshape.default, node, [*node.meta["val"].shape[:shared], *counts])


def _agree(operands: Sequence[fx.Node], names: Sequence[str]) -> bool:
    """Whether axes of one name have one size: an axis of the size 1 would be repeated."""
    sizes = [(name, size) for operand, axes in zip(operands, names, strict=True)
             for name, size in zip(axes, operand.meta["val"].shape, strict=True)]
    return len(set(sizes)) == len({name for name, _ in sizes})


def _permuted(graph: fx.Graph, node: fx.Node, axes: Sequence[str], order: Sequence[str]) -> fx.Node:
    """The named axes in another order."""
    if list(axes) == list(order):
        return node
    numbers = [list(axes).index(axis) for axis in order]
    result = graph.call_function(aten.permute.default, (node, numbers))
    result.meta = {"val": node.meta["val"].permute(numbers)}
    return result


@dataclass(frozen=True, slots=True)
class WrittenAttention:
    """softmax(scale q k^T + masks) v as separate operations: `keys` is k^T, `lead` the leading axes of the scores."""

    q: fx.Node
    keys: fx.Node
    v: fx.Node
    masks: tuple[fx.Node, ...]
    hidden: tuple[HiddenScores, ...]
    factors: tuple[fx.Node, ...]  # q is multiplied by them; their last two axes have size 1
    scale: float
    lead: tuple[int, ...]


def _written_out(product: fx.Node) -> WrittenAttention | None:
    """The attention whose last operation a product is; None for other products, and where more is read of it."""
    weights, v = product.args[:2]
    softmax = _source(weights)
    if softmax is None or softmax.target not in _SOFTMAXES or not isinstance(v, fx.Node) \
            or arguments(softmax)["dim"] not in (-1, softmax.meta["val"].dim() - 1) \
            or arguments(softmax).get("dtype") not in (None, softmax.meta["val"].dtype):
        return None
    scores, scale = _source(softmax.args[0]), 1.0
    masks: list[Any] = []
    hidden: list[HiddenScores] = []
    factors: list[Any] = []
    lead = tuple(softmax.meta["val"].shape[:-2])
    while scores is not None and scores.target not in _PRODUCTS:
        factor = _factor(scores)
        if factor is not None:
            scale *= factor
        elif scores.target is aten.mul.Tensor and _broadcasts(scores.args[1], scores, lead) \
                and scores.args[1].meta["val"].shape[-2:] == (1, 1):  # type: ignore[union-attr]
            factors.append(scores.args[1])
        elif scores.target is aten.add.Tensor and scale == 1.0 and not factors and not scores.kwargs \
                and _broadcasts(scores.args[1], scores, lead):
            masks.append(scores.args[1])
        elif scale == 1.0 and not factors and _hides(scores, lead):
            hidden.append(HiddenScores(scores.args[1], float(scores.args[2])))  # type: ignore[arg-type]
        else:
            return None
        scores = _source(scores.args[0])
    if scores is None or not _same_type(product, scores):
        return None
    q, keys = scores.args[:2]
    while isinstance(q, fx.Node) and len(q.users) == 1 and (factor := _factor(q)) is not None \
            and _same_type(q, q.args[0]):
        q, scale = q.args[0], scale * factor
    if not isinstance(q, fx.Node) or not isinstance(keys, fx.Node) or not _is_batched(q, keys, v, lead):
        return None
    heads = lead if len(lead) < 3 else (math.prod(lead[:-1]), lead[-1])
    return WrittenAttention(q, keys, v, tuple(masks), tuple(hidden), tuple(factors), scale, heads)


def _hides(scores: fx.Node, lead: tuple[int, ...]) -> bool:
    """Whether an operation replaces some scores by a number so low that their weights become 0."""
    return scores.target is aten.masked_fill.Scalar and scores.meta["val"].dtype == torch.float32 \
        and isinstance(scores.args[2], int | float) and scores.args[2] <= LEAST \
        and _broadcasts(scores.args[1], scores, lead, torch.bool)


def _factor(node: fx.Node) -> float | None:
    """The number by which an operation multiplies; None for other operations."""
    number = node.args[1] if len(node.args) > 1 else None
    if isinstance(number, int | float):
        if node.target in (aten.mul.Tensor, aten.mul.Scalar):
            return float(number)
        if node.target in (aten.div.Tensor, aten.div.Scalar) and number:
            return 1.0 / number
    return None


def _source(value: Any) -> fx.Node | None:
    """The operation of which a value is a copy, perhaps with other leading axes, where nothing else reads it."""
    while isinstance(value, fx.Node) and value.op == "call_function" and len(value.users) == 1:
        read = value.args[0]
        if value.target in _SAME:
            is_copy = value.target is not aten.dropout.default or not value.args[2]
        elif value.target in _TYPES:
            is_copy = _same_type(value, read)
        else:
            is_copy = value.target in _VIEWS and _is_same_matrix(value, read)
        if not is_copy:
            return value
        value = read
    return None


def _is_same_matrix(value: Any, read: Any) -> bool:
    """Whether a view keeps the last two axes and joins or splits the ones before."""
    shape, old = value.meta["val"].shape, read.meta["val"].shape
    if value.target is aten.permute.default:
        return bool(list(value.args[1]) == list(range(len(shape))))
    return bool(len(shape) > 1 and shape[-2:] == old[-2:] and shape.numel() == old.numel())


def _same_type(first: Any, second: Any) -> bool:
    return bool(first.meta["val"].dtype == second.meta["val"].dtype)


def _broadcasts(mask: Any, scores: fx.Node, lead: tuple[int, ...], dtype: torch.dtype | None = None) -> bool:
    """Whether a value, of the scores' type or `dtype`, broadcasts to scores of these leading axes."""
    value, whole = mask.meta.get("val") if isinstance(mask, fx.Node) else None, scores.meta["val"]
    return isinstance(value, Tensor) and value.dtype == (dtype or whole.dtype) and 2 <= value.dim() <= whole.dim() \
        and (len(lead) < 3 or math.prod(value.shape[:-3]) == 1) \
        and scores.args[0].meta["val"].shape == whole.shape and tuple(whole.shape[:-2]) == lead  # type: ignore[union-attr]


def _is_batched(q: fx.Node, keys: fx.Node, v: fx.Node, lead: tuple[int, ...]) -> bool:
    """Whether the operands are heads, or batches of heads, of one number."""
    shapes = [node.meta["val"].shape for node in (q, keys, v)]
    return len(lead) > 0 and len({shape[:-2] for shape in shapes}) == 1 \
        and math.prod(shapes[0][:-2]) == math.prod(lead)


def _replace(graph: fx.Graph, product: fx.Node, written: WrittenAttention) -> None:
    """Put attention in the place of its last product."""
    with graph.inserting_before(product):
        q, keys, v = (_with_lead(graph, node, written.lead) for node in (written.q, written.keys, written.v))
        k = graph.call_function(aten.transpose.int, (keys, -1, -2))
        k.meta = {"val": keys.meta["val"].transpose(-1, -2)}
        for factor in written.factors:
            q = insert_operation(graph, aten.mul.Tensor, q, of_heads(graph, factor))
        mask = added_masks(graph, written.masks, written.hidden)
        node = graph.call_function(SDPA, (q, k, v, mask), {"scale": written.scale})
        shape = product.meta["val"].shape
        node.meta = {**product.meta, "val": product.meta["val"].reshape(*written.lead, *shape[-2:])}
        dense = graph.call_function(aten.contiguous.default, (node,))  # as the product's result, whoever computes it
        dense.meta = dict(node.meta)
        if dense.meta["val"].shape != shape:
            dense = graph.call_function(aten.view.default, (dense, list(shape)))
            dense.meta = dict(product.meta)
    product.replace_all_uses_with(dense)
    graph.erase_node(product)


def _with_lead(graph: fx.Graph, node: fx.Node, lead: tuple[int, ...]) -> fx.Node:
    """A matrix for each place of the leading axes, without a view that takes these apart or together."""
    value = node.meta["val"]
    shape = (*lead, *value.shape[-2:])
    while tuple(node.meta["val"].shape) != shape and node.target in (*_VIEWS, *_SAME) \
            and node.target is not aten.permute.default and _is_same_matrix(node, node.args[0]):
        node = node.args[0]  # type: ignore[assignment]
    if tuple(node.meta["val"].shape) != shape:
        node = graph.call_function(aten.reshape.default, (node, list(shape)))
        node.meta = {"val": value.reshape(shape)}
    return node
