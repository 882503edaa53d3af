"""Bands: runs of nodes whose results are larger than the caches are computed for some images of the batch at a time.

A layer that runs over the whole batch writes its result to memory if it is larger than the caches, and the next layer
reads it there. In a band, all nodes of a run compute a few images, one node after the other. Their results stay in the
caches, because the memory plan gives the same small buffers to all bands. But every band reads the weights again, and
starts every step again. Therefore dynamic programming divides the list of nodes into runs that together move the fewest
bytes: large images far from the result are computed one by one, and heavy layers near it for the whole batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem

from ..node_list import NodeList
from ..nodes import (
    AttentionHeads,
    Concatenation,
    Constant,
    Input,
    Layer,
    Node,
    Padding,
    Pointwise,
    Pool,
    Rearranged,
    Reduction,
    RowOperation,
    indices_view,
)
from ..steps.view import View
from .precision import multiplies_bf16

MOST_BANDS = 16  # maximum number of bands of a run; each band repeats all steps of the run
SHARERS = 8  # a band fills one 8th of the last-level cache; weights, other programs and other cores use the rest
START_BYTES = 1 << 16  # bytes that memory moves in the time in which a step starts, about 1 us
Run = tuple[list[Node], int]  # nodes that follow each other, and the number of their bands


def compute_in_bands(nodes: NodeList, device: Device) -> None:
    """Replace every run of nodes that moves fewer bytes in bands by its bands."""
    images = next((node.shape[0] for node in nodes if isinstance(node, Layer) and node.work.type == "conv2d"), 1)
    cache = max(device.l3_bytes // SHARERS, device.threads * device.l2_bytes)
    if images > 1 and cache:
        for run, count in _runs(nodes, images, cache):
            ends = [images * number // count for number in range(count + 1)]
            _split(nodes, run, list(pairwise(ends)))


def _runs(nodes: NodeList, images: int, cache: int) -> list[Run]:
    """The runs of several bands in the division of all nodes that moves the fewest bytes."""
    order = [node for node in nodes  # views of indices stay where they are: a Gather alone reads them
             if not isinstance(node, Constant | Input) and indices_view(node) is None]
    counts = sorted({min(1 << exponent, images) for exponent in range(MOST_BANDS.bit_length())})
    least: dict[int, tuple[float, tuple[int, ...]]] = {1: (0.0, ())}  # last node's bands -> bytes, bands of all
    for node, crossing in zip(order, _crossing(nodes, order, images), strict=True):
        other, path = min(least.values())
        allowed = counts if _is_local(node, images) else [1]
        before = {count: min(least.get(count, (math.inf, ())), (other + crossing, path)) for count in allowed}
        least = {count: (moved + _moved(node, images, count, cache), (*path, count))
                 for count, (moved, path) in before.items()}
    runs: list[Run] = []
    for node, count in zip(order, min(least.values())[1], strict=True):
        if not runs or count != runs[-1][1]:
            runs.append(([], count))
        runs[-1][0].append(node)
    return [run for run in runs if run[1] > 1]


def _crossing(nodes: NodeList, order: Sequence[Node], images: int) -> list[int]:
    """The bytes of images that exist before each node and are read by it or later; whole ones between runs."""
    last = {read: index for index, node in enumerate(order) for read in node.inputs}
    change = [0] * (len(order) + 1)
    for index, node in enumerate(order):
        if _has_images(node, images):
            end = len(order) - 1 if node in nodes.results else last[node]
            change[index + 1] += _bytes(node)
            change[end + 1] -= _bytes(node)
    return list(accumulate(change[:-1]))


def _moved(node: Node, images: int, count: int, cache: int) -> float:
    """The bytes that a node moves in `count` bands: images beyond the cache, weights, and START_BYTES."""
    if isinstance(node, Rearranged):
        return float(count)  # almost nothing: more bands are no better
    values = sum(_bytes(value) for value in (node, *node.inputs) if _has_images(value, images))
    weights = node.unscaled.size * (2 if multiplies_bf16(node) else 4) if isinstance(node, Layer) else 0
    return max(0.0, values - count * cache) + count * (weights + START_BYTES)


def _bytes(node: Node) -> int:
    return node.element.bytes * math.prod(node.shape)


def _has_images(node: Node, images: int) -> bool:
    """Whether the first axis of a value is the batch."""
    return len(node.shape) > 1 and node.shape[0] == images


def _is_local(node: Node, images: int) -> bool:
    """Whether image i of a node's result depends on image i of its inputs only."""
    if not node.inputs or not _has_images(node, images):
        return False
    by_image = _read_by_image(node, images)
    if any(_has_images(read, images) and read not in by_image for read in node.inputs):
        return False
    if isinstance(node, Pointwise):
        return True
    if node.inputs[0] not in by_image:
        return False
    if isinstance(node, Layer):
        return node.scaled is None
    if isinstance(node, Reduction):
        return 0 not in node.axes
    if isinstance(node, Concatenation):
        return node.axis != 0
    if isinstance(node, Padding):
        return node.low[0] == node.high[0] == 0
    return isinstance(node, Pool | RowOperation | AttentionHeads) or (
        isinstance(node, Rearranged) and _keeps_images(node))


def _read_by_image(node: Node, images: int) -> list[Node]:
    """The inputs of which image i of the result reads image i; the others are the same for all images."""
    axes = len(node.shape if isinstance(node, Pointwise) else node.inputs[0].shape)
    return [read for read in node.inputs if len(read.shape) == axes and _has_images(read, images)]


def _keeps_images(node: Rearranged) -> bool:
    """Whether a view takes image i of its result from image i of its input."""
    whole = View.contiguous(node.inputs[0].shape)
    view = node.transform(whole)
    if view is None:
        return False
    first = replace(view, shape=(1, *view.shape[1:]))
    return view.strides[0] == whole.strides[0] and first.offset + first.extent <= whole.strides[0]


def _split(nodes: NodeList, run: Sequence[Node], bands: Sequence[tuple[int, int]]) -> None:
    """Replace a run by its bands, and values that other nodes read by concatenations, into which the bands write."""
    inside = set(run)
    ends = [node for node in run if node in nodes.results
            or any(reader not in inside for reader in nodes.readers(node))]
    parts: dict[Node, list[Node]] = {node: [] for node in ends}
    added: dict[Node, None] = {}
    for begin, end in bands:
        known: dict[Node, Node] = {}
        for node in run:
            by_image = _read_by_image(node, node.shape[0])
            for read in node.inputs:
                if read not in known:
                    known[read] = _slice(read, begin, end) if read in by_image else read
                    added |= {known[read]: None} if known[read] is not read else {}
            known[node] = _band(node, [known[read] for read in node.inputs], end - begin)
            added[known[node]] = None
        for node in ends:
            parts[node].append(known[node])
    wholes = [Concatenation(node.shape, parts[node], 0, element=node.element, name=node.name, origin=node.origin)
              for node in ends]
    nodes.insert_before(run[-1], *added, *wholes)
    for node, whole in zip(ends, wholes, strict=True):
        nodes.replace(node, whole)


def _slice(node: Node, begin: int, end: int) -> Node:
    """Some images of a value."""
    return Rearranged((end - begin, *node.shape[1:]), [node], lambda view: view.sliced(0, begin, end),
                      element=node.element, name=node.name, origin=node.origin)


def _band(node: Node, inputs: list[Node], images: int) -> Node:
    """The same operation for some of the images."""
    shape = (images, *node.shape[1:])
    if isinstance(node, Layer):
        axis = "n" if node.work.type == "conv2d" else "m"
        size = node.work.size(axis) // node.shape[0] * images
        return replace(node, shape=shape, inputs=inputs, work=Problem.make(
            node.work.type, **{**dict(node.work), axis: size}))
    if isinstance(node, Rearranged):
        return replace(node, shape=shape, inputs=inputs, transform=_of_band(node.transform, node.shape[0]),
                       inverse=None)
    return replace(node, shape=shape, inputs=inputs)


def _of_band(transform: Callable[[View], View | None], images: int) -> Callable[[View], View | None]:
    """Adapt a view function of the whole batch to a band: it is applied as if all images of the batch were there."""
    def view_of_band(view: View) -> View | None:
        whole = transform(replace(view, shape=(images, *view.shape[1:])))
        return None if whole is None else replace(whole, shape=(view.shape[0], *whole.shape[1:]))

    return view_of_band
