"""Precision: in which types a network computes, how far its results may differ, and which element each value gets.

Computing is in fp32; dot products may be of bf16.

With precision bf16, a layer or attention multiplies bf16 numbers where a kernel of the device does so, and values are
bf16 in memory unless one of their readers needs fp32. Values that come from no layer and no table, such as masks, stay
fp32: they are small, and an addend like -3.4e38 would become infinite. So do sums and means, and what is computed from
them alone: they are subtracted from other numbers, and the difference would show their rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from seqtune.errors import MisuseError, UnavailableError, shown
from seqtune.kernels.devices.device import Device
from seqtune.kernels.llvm.text.elements import Element
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernels_for

from ..node_list import NodeList
from ..nodes import (
    AttentionHeads,
    Concatenation,
    Constant,
    Gather,
    Input,
    Layer,
    Node,
    Padding,
    Pointwise,
    Rearranged,
    Reduction,
    Tuned,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
TOLERANCES = {"fp32": 1e-3, "bf16": 2e-2}  # largest allowed max|difference| / max|reference|


def checked_precision(precision: object, weights: Iterable[Tensor], device: Device) -> str:
    """The precision that was asked for; None stands for that of the weights.

    Raises MisuseError for an unknown one, UnavailableError where the device does not have it.
    """
    if precision is None:
        precision = "bf16" if has_bf16(weights) else "fp32"
    if not isinstance(precision, str) or precision not in DTYPES:
        raise MisuseError(f"precision={shown(precision)} is not one of {', '.join(DTYPES)}")
    if precision == "bf16" and device.names()["bf16_dots"] != 1:
        raise UnavailableError(f"{device.name} does not multiply bf16 numbers; precision=\"fp32\" is possible here")
    return precision


def has_bf16(tensors: Iterable[Tensor]) -> bool:
    """Whether one of the tensors is bf16."""
    return any(tensor.dtype == torch.bfloat16 for tensor in tensors)


def give_elements(nodes: NodeList, results: Sequence[str], precision: str, device: Device) -> None:
    """Set the element of every node; `results` are the dtypes of the network's results."""
    for node in nodes:
        if isinstance(node, Input):
            node.element = Element.of(node.element.dtype, device)
    if precision == "bf16":
        for node in nodes:
            if isinstance(node, Layer):
                _multiply_bf16(nodes, node, device)
            elif isinstance(node, AttentionHeads):
                node.dtype = "bf16"
                if not kernels_for(node.problem, device):
                    node.dtype = "fp32"
        _store_bf16(nodes, results, Element.of("bf16", device))
    for node in nodes:
        if isinstance(node, Rearranged):
            node.element = node.inputs[0].element


def multiplies_bf16(node: Tuned) -> bool:
    """Whether a layer or attention multiplies bf16 numbers."""
    return node.problem["dtype"] == "bf16"


def _multiply_bf16(nodes: NodeList, layer: Layer, device: Device) -> None:
    """Let a layer multiply bf16 numbers if a kernel can; an odd number of channels gets another one that is zero."""
    image = layer.work.type == "conv2d"
    name, axis = ("c", 1) if image else ("k", len(layer.inputs[0].shape) - 1)
    channels = layer.work.size(name)
    can_pad = layer.scaled is None and (not image or layer.work.size("groups") == 1)
    added = channels % 2 if can_pad else 0
    work = Problem.make(layer.work.type, **{**dict(layer.work), "dtype": "bf16", name: channels + added})
    if not kernels_for(_with_bias(layer, work), device):
        return
    layer.work = work
    if added:
        x = layer.inputs[0]
        shape = tuple(size + (index == axis) for index, size in enumerate(x.shape))
        high = tuple(int(index == axis) for index in range(len(shape)))
        padded = Padding(shape, [x], (0,) * len(shape), high, 0.0, name="pad", origin=layer.origin)
        layer.unscaled = np.pad(layer.unscaled, [(0, int(index == 1)) for index in range(layer.unscaled.ndim)])
        nodes.insert_before(layer, padded)
        nodes.set_inputs(layer, [padded, *layer.inputs[1:]])


def _with_bias(layer: Layer, work: Problem) -> Problem:
    return Problem.make(work.type, **{**dict(work), "bias": layer.problem["bias"]})


def _store_bf16(nodes: NodeList, results: Sequence[str], bf16: Element) -> None:
    """Let values be bf16 in memory as far as their readers allow it."""
    wide = {_source(node) for node, dtype in zip(nodes.results, results, strict=True) if dtype == "fp32"}
    wide |= {_source(read) for node in nodes for read in _read_as_fp32(node)}
    computed: set[Node] = set()  # values that depend on layers or tables
    statistics = _statistics(nodes)
    for node in nodes:
        if isinstance(node, Layer | Gather | AttentionHeads) or any(read in computed for read in node.inputs):
            computed.add(node)
    for node in reversed(list(nodes)):
        if isinstance(node, Concatenation) and node in wide:  # its parts are written in place
            wide |= {_source(part) for part in node.inputs}
        if isinstance(node, Input | Constant | Rearranged) or node in wide or not _can_store_bf16(node):
            continue
        readers = _readers(nodes, node)
        feeds_layers = bool(readers) and all(isinstance(reader, Tuned) and multiplies_bf16(reader)
                                             for reader in readers)
        if feeds_layers or (node in computed and node not in statistics):
            node.element = bf16


def _statistics(nodes: NodeList) -> set[Node]:
    """The sums and means, and what is computed from them and constants alone."""
    statistics: set[Node] = set()
    for node in nodes:
        if isinstance(node, Reduction) or (isinstance(node, Pointwise | Rearranged) and all(
                read in statistics or isinstance(read, Constant) for read in node.inputs)):
            statistics.add(node)
    return statistics


def _read_as_fp32(node: Node) -> list[Node]:
    """The inputs that an operation reads as fp32 only."""
    if not isinstance(node, Tuned):
        return []
    if not multiplies_bf16(node):
        return node.inputs
    return node.inputs[3:] if isinstance(node, AttentionHeads) else []  # a mask


def _can_store_bf16(node: Node) -> bool:
    return not isinstance(node, Tuned) or multiplies_bf16(node)


def _source(node: Node) -> Node:
    """The value in whose memory a view lies."""
    while isinstance(node, Rearranged):
        node = node.inputs[0]
    return node


def _readers(nodes: NodeList, node: Node) -> list[Node]:
    """The operations that read a value, through views."""
    readers: list[Node] = []
    for reader in nodes.readers(node):
        readers += _readers(nodes, reader) if isinstance(reader, Rearranged) else [reader]
    return readers
