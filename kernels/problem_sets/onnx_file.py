"""ONNX files without their weights: a model that is small however large the file is, and that reads no other file.

An ONNX file is one message of Protocol Buffers. Before the library parses it, the message is copied field by field
without the numbers of its larger tensors, so that a bound on the rest bounds the memory that a hostile file can take.
Functions that a file defines are left out, too: each may call the one before it twice, and shape inference would
follow every call. Layout: https://protobuf.dev/programming-guides/encoding/, field numbers: onnx.proto of onnx 1.17.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.errors import FormatError, check_installed, one_line

from ..files import read_bounded

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

LARGEST_FILE = 2_000_000_000  # bytes; Protocol Buffers end at 2 GiB
LARGEST_REST = 64_000_000  # bytes beside the weights; 5,000 nodes with PyTorch's stack traces have 25 MB
MOST_PARTS = 200_000  # nodes, tensors and values of the graph
MOST_TENSOR_FIELDS = 1000  # of a larger tensor: its sizes, one field with all of its numbers, and few others
LARGEST_KEPT = 4096  # bytes of a tensor that is kept whole: sizes that nodes such as Reshape read
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # kinds of fields
_GRAPH, _INITIALIZER = 7, 5  # in ModelProto, in GraphProto
_MODEL_FIELDS = (1, 2, 3, 4, 5, 6, _GRAPH, 8)  # all but functions, training and metadata
_TENSOR_FIELDS = (1, 2, 8)  # sizes, element type and name


def read_model(path: Path) -> ModelProto:
    """The model of a file; its larger tensors have sizes and types, and no numbers.

    Raises FormatError for what is no ONNX file and for one that is too large, MissingPackageError without `onnx`.
    """
    check_installed("onnx", "onnx")
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    content = memoryview(read_bounded(path, LARGEST_FILE, "; store its weights as external data"))
    try:
        rest = b"".join(_bounded(path, _without_weights(content)))
        model: ModelProto = ModelProto.FromString(rest)
    except (_DamagedError, DecodeError, RecursionError) as error:
        raise FormatError(f"{path} is no ONNX file, or it is damaged ({one_line(error, 80)})") from None
    if not model.ir_version or not model.graph.node:
        raise FormatError(f"{path} is no ONNX file: it has no graph")
    _check_names(path, model.graph)
    return model


def _check_names(path: Path, graph: GraphProto) -> None:
    """Check that all names are text: Protocol Buffers return others as bytes. Raises FormatError."""
    nodes = [part for node in graph.node for part in (node, *inner_nodes(node))]
    names: list[object] = [
        name for node in nodes for name in (node.name, node.op_type, node.domain, *node.input, *node.output)]
    names += [part.name for part in (*graph.initializer, *graph.input, *graph.output, *graph.value_info)]
    if not all(isinstance(name, str) for name in names):
        raise FormatError(f"{path} is damaged: a name in it is not UTF-8")


def inner_nodes(node: NodeProto) -> Iterator[NodeProto]:
    """The nodes of the graphs in a node, such as the body of a Loop, at any depth."""
    waiting = [node]
    while waiting:
        attributes = waiting.pop().attribute
        for graph in (graph for attribute in attributes for graph in (attribute.g, *attribute.graphs)):
            yield from graph.node
            waiting += graph.node


class _DamagedError(Exception):
    """A message ends in the middle of a field, or has a field of an unknown kind."""


def _bounded(path: Path, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The pieces. Raises FormatError if they are too large or too many."""
    size = 0
    for count, piece in enumerate(pieces):
        size += len(piece)
        if size > LARGEST_REST or count > MOST_PARTS:
            raise FormatError(f"{path} has more than {LARGEST_REST // 1_000_000} MB beside its weights, or more than "
                              f"{MOST_PARTS:,} nodes, tensors and values")
        yield piece


def _without_weights(model: memoryview) -> Iterator[bytes | memoryview]:
    """The message of a model in pieces, with a message of its graph for each part of the graph: they are merged."""
    for number, whole, content in _fields(model):
        if number == _GRAPH:
            for part, part_whole, part_content in _fields(content):
                if part == _INITIALIZER and len(part_content) > LARGEST_KEPT:
                    yield _field(_GRAPH, _field(_INITIALIZER, _without_numbers(part_content)))
                else:
                    yield _field(_GRAPH, part_whole)
        else:
            yield whole if number in _MODEL_FIELDS else b""


def _without_numbers(tensor: memoryview) -> bytes:
    """The message of a tensor with its sizes, element type and name alone. Raises _DamagedError."""
    fields = list(islice(_fields(tensor), MOST_TENSOR_FIELDS + 1))
    if len(fields) > MOST_TENSOR_FIELDS:
        raise _DamagedError(f"a tensor of more than {MOST_TENSOR_FIELDS} fields")
    return b"".join(whole for number, whole, _ in fields if number in _TENSOR_FIELDS)


def _field(number: int, content: bytes | memoryview) -> bytes:
    """A field of bytes with its number, which is below 16, and its length."""
    head, size = bytearray([number << 3 | _BYTES]), len(content)
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + content


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """The fields of a message: number, the whole field, and its content (empty for numbers). Raises _DamagedError."""
    end = 0
    while end < len(message):
        begin = end
        tag, start = _varint(message, begin)
        kind = tag & 7
        if kind == _BYTES:
            size, start = _varint(message, start)
            end = start + size
        elif kind == _VARINT:
            _, start = _varint(message, start)
            end = start
        elif kind in (_FIXED64, _FIXED32):
            end = start = start + (8 if kind == _FIXED64 else 4)
        else:
            raise _DamagedError(f"field of kind {kind} at byte {begin:,}")
        if end > len(message):
            raise _DamagedError(f"it ends in the middle of a field at byte {begin:,}")
        yield tag >> 3, message[begin:end], message[start:end]


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """A number of at most 10 bytes, and the position behind it. Raises _DamagedError."""
    value = 0
    for count, byte in enumerate(message[position:position + 10]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, position + count + 1
    raise _DamagedError(f"a number without an end at byte {position:,}")
