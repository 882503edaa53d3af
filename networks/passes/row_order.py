"""Row order: rearrangements of whole rows, such as Swin's shifted windows, become one step: rows read by number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.llvm.text.formula import IDENTITY

from ..node_list import NodeList
from ..nodes import Concatenation, Layer, MovedRows, Node, Pointwise, Rearranged, RowOperation
from ..steps.view import View

Numbers = NDArray[np.int64]


def move_rows(nodes: NodeList, node: Node) -> None:
    """Replace views and concatenations of one value's rows by one step, where they would be copied more than once.

    A formula that is their only reader is computed in the same step; then one copy is enough.
    """
    readers = nodes.readers(node)
    if any(_moves(reader) for reader in readers) or not _moves(node):
        return
    source = _source(nodes, node)
    if source is None or not (isinstance(source, RowOperation) or (
            isinstance(source, Layer) and source.work.type == "gemm")):
        return
    reader = nodes.only_reader(node)
    fuses = isinstance(reader, Pointwise) and reader.inputs.count(node) == 1 \
        and all(read.shape == node.shape for read in reader.inputs)
    elements, copies = _elements(node, source)
    if copies < (1 if fuses else 2):
        return
    columns = source.shape[-1]
    pieces = elements.reshape(-1, columns)
    if (pieces[:, :1] % columns).any() or (pieces != pieces[:, :1] + np.arange(columns)).any():
        return  # parts of rows
    whole = columns == node.shape[-1]
    shape = node.shape[:-1] if whole else (*node.shape[:-1], node.shape[-1] // columns)
    named = next(_concatenations(node), node)
    moved = MovedRows((*shape, columns), [source], np.ascontiguousarray(pieces[:, 0] // columns).reshape(shape),
                      name=named.name, origin=named.origin)
    if not whole:
        nodes.insert_before(node, moved)
        flat = Rearranged(node.shape, [moved], lambda view: view.reshaped(node.shape), reshapes=True)
        nodes.insert_before(node, flat)
        nodes.replace(node, flat)
    elif fuses:
        assert isinstance(reader, Pointwise)
        moved.formula = IDENTITY.then(reader.formula, reader.inputs.index(node))
        moved.inputs = [source, *(read for read in reader.inputs if read is not node)]
        moved.name, moved.origin = reader.name, reader.origin
        nodes.insert_before(reader, moved)
        nodes.replace(reader, moved)
    else:
        nodes.insert_before(node, moved)
        nodes.replace(node, moved)


def _moves(node: Node) -> bool:
    return isinstance(node, Rearranged | Concatenation)


def _concatenations(node: Node) -> Iterator[Node]:
    """The concatenations from which `node` is rearranged, the last one first; reports name the step after them."""
    while _moves(node):
        if isinstance(node, Concatenation):
            yield node
        node = node.inputs[0]


def _source(nodes: NodeList, node: Node) -> Node | None:
    """The only value that the rearrangements up to `node` read; None where there are several."""
    inside = moves_of_one(nodes, node)
    return next((read for move in inside for read in move.inputs if read not in inside), None)


def moves_of_one(nodes: NodeList, node: Node) -> set[Node]:
    """The views and concatenations up to and with `node`, if together they read one value and nothing else reads them.

    Otherwise the set is empty.
    """
    inside: set[Node] = {node}
    sources: set[Node] = set()
    waiting = list(node.inputs)
    while waiting:
        read = waiting.pop()
        if not _moves(read):
            sources.add(read)
        elif read not in inside:
            inside.add(read)
            waiting += read.inputs
    alone = all(reader in inside for move in inside if move is not node for reader in nodes.readers(move)) \
        and not any(move in nodes.results for move in inside if move is not node)
    return inside if alone and len(sources) == 1 else set()


def _elements(node: Node, source: Node) -> tuple[Numbers, int]:
    """The number of each element in the contiguous source, and the copies that separate steps would make."""
    known: dict[Node, tuple[Numbers, View, int]] = {}

    def of(move: Node) -> tuple[Numbers, View, int]:
        """Numbers, the view of them, and copies so far."""
        if move not in known:
            known[move] = compute(move)
        return known[move]

    def compute(move: Node) -> tuple[Numbers, View, int]:
        if move is source:
            return np.arange(View.contiguous(source.shape).size), View.contiguous(source.shape), 0
        if isinstance(move, Concatenation):
            parts = [of(part) for part in move.inputs]
            joined = np.concatenate([_viewed(*part[:2]) for part in parts], move.axis)
            return joined.reshape(-1), View.contiguous(move.shape), len(parts) + max(part[2] for part in parts)
        assert isinstance(move, Rearranged)
        numbers, view, copies = of(move.inputs[0])
        result = move.transform(view)
        if result is None:
            numbers, view, copies = _viewed(numbers, view).reshape(-1), View.contiguous(view.shape), copies + 1
            result = move.transform(view)
            assert result is not None  # a contiguous value has every view
        return numbers, result, copies

    numbers, view, copies = of(node)
    return _viewed(numbers, view), copies


def _viewed(numbers: Numbers, view: View) -> Numbers:
    return np.lib.stride_tricks.as_strided(
        numbers[view.offset:], view.shape, [8 * stride for stride in view.strides], writeable=False)
