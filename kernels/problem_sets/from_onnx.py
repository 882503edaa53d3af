"""Problems of an ONNX model: each convolution and matrix product, as the file stores its operands.

Sizes come from ONNX's shape inference; none is guessed. A bias, and a ReLU that alone reads the result, belong to the
problem, because kernels compute them in the same pass. Nodes that no problem describes are named with the reason, and
all other operators are counted. Operators: https://onnx.ai/onnx/operators/.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqtune.errors import ProblemError, cut, one_line, shown

from ..devices.element_types import BY_TORCH_NAME
from ..operations import conv2d, gemm
from ..operations.feature import Value
from ..operations.operation import Shape
from ..problem import Problem
from .onnx_file import inner_nodes, read_model
from .onnx_operators import products_in
from .onnx_values import LONGEST, Values, values_of

if TYPE_CHECKING:
    from onnx import NodeProto

STANDARD = ("", "ai.onnx")  # the names of ONNX's own domain


@dataclass(frozen=True, slots=True)
class ProblemNode:
    """A node that is a problem."""

    name: str
    problem: Problem
    count: int  # how often it is solved when the model runs once: a product of many matrices is many products
    note: str = ""  # what the problem leaves to others


@dataclass(frozen=True, slots=True)
class UndescribedNode:
    """A node with products, or of an unknown meaning, that no problem describes."""

    name: str
    operator: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """A JSON object."""
        return {"node": self.name, "operator": self.operator, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class OnnxProblems:
    """All nodes of a model: problems, nodes that none describes, parts of problems, and how many others there are."""

    nodes: tuple[ProblemNode, ...]  # in the order of the file
    undescribed: tuple[UndescribedNode, ...]
    absorbed: Mapping[str, int]  # operator -> number of nodes that are the bias or the activation of a problem
    others: Mapping[str, int]  # operator -> number of nodes without products


def read_onnx(path: str | Path, inputs: Mapping[str, Sequence[int]] | None = None) -> OnnxProblems:
    """The problems of an ONNX file. `inputs` are sizes of the model's inputs that the file leaves open, by name.

    Weights are not needed, and external data are not read. Raises FormatError for a damaged file, ProblemError for a
    size that is unknown or does not fit and for a model without convolutions and products, MissingPackageError without
    `onnx`.
    """
    path = Path(path)
    model = read_model(path)
    values = values_of(path, model, inputs or {})
    problems = _Graph(path, model.graph.node, [value.name for value in model.graph.output], values).problems()
    if not problems.nodes and not problems.undescribed:
        counted = ", ".join(f"{count} {cut(name, LONGEST)}" for name, count in list(problems.others.items())[:5])
        raise ProblemError(f"{path} has no convolution and no matrix product ({counted})")
    return problems


class _UndescribedError(Exception):
    """No problem describes a node, for this reason."""


class _Graph:
    """The nodes of a graph, with what is known of their values."""

    def __init__(self, path: Path, nodes: Iterable[NodeProto], results: Iterable[str], values: Values) -> None:
        self.path = path
        self.nodes = list(nodes)  # kept, since nodes are told apart by their identity
        self.values = values
        self._uses = Counter(results)
        self._readers: dict[str, NodeProto] = {}  # the last one of each value
        self._parts: dict[int, str] = {}  # the identity of a node that is part of a problem -> its operator
        for node in self.nodes:
            self._readers.update(dict.fromkeys(node.input, node))
            self._uses.update(node.input)
            self._uses.update(name for inner in inner_nodes(node) for name in inner.input)

    def problems(self) -> OnnxProblems:
        """Sort all nodes. Raises ProblemError for a shape that is unknown because the sizes of an input are open."""
        described: list[ProblemNode] = []
        undescribed: list[UndescribedNode] = []
        others: Counter[str] = Counter()
        for node in self.nodes:
            reason, make = _why_not(node), _MAKERS.get(node.op_type)
            if reason:
                undescribed.append(UndescribedNode(_name(node), _operator(node), reason))
            elif make is not None:
                try:
                    described.append(make(self, node))
                except _UndescribedError as error:
                    undescribed.append(UndescribedNode(_name(node), _operator(node), one_line(error, 200)))
            elif id(node) not in self._parts:  # nodes are in the order in which they run
                others[_operator(node)] += 1
        return OnnxProblems(tuple(described), tuple(undescribed), dict(Counter(self._parts.values()).most_common()),
                            dict(others.most_common()))

    def shape(self, node: NodeProto, index: int) -> Shape:
        """The shape of an input. Raises ProblemError if it is unknown for want of an input's sizes."""
        name = node.input[index] if index < len(node.input) else ""
        shape = self.values.shapes.get(name)
        if shape is not None:
            return shape
        if self.values.missing:
            raise ProblemError(f"{self.path}: the shape of {shown(name, LONGEST)} is unknown: {self.values.missing}")
        raise _UndescribedError(f"the shape of {shown(name, LONGEST)} is unknown")

    def described(self, node: NodeProto, kind: str, features: Mapping[str, Value], width: int, *, biased: bool,
                  count: int = 1, note: str = "") -> ProblemNode:
        """The problem of a node with its epilogue; `width` is the size of a bias, `biased` says that it has one."""
        parts: list[NodeProto] = []
        last = node
        adding = self._only_reader(node, "Add") if kind == "gemm" and not biased else None
        if adding is not None and any(self.is_bias(name, width) for name in adding.input if name not in node.output):
            biased, last = True, adding
            parts.append(adding)
        relu = self._only_reader(last, "Relu")
        parts += [relu] if relu is not None else []
        try:
            problem = Problem.make(kind, **features, dtype=self._dtype(node), bias="yes" if biased else "no",
                                   activation="none" if relu is None else "relu")
        except ProblemError as error:
            raise _UndescribedError(str(error)) from None
        self._parts.update((id(part), part.op_type) for part in parts)
        return ProblemNode(_name(node), problem, count, note)

    def is_bias(self, name: str, width: int) -> bool:
        """Whether a value has one number for each of `width` columns."""
        shape = self.values.shapes.get(name)
        return shape is not None and (shape or (1,))[-1] == width == math.prod(shape)

    def _only_reader(self, node: NodeProto, operator: str) -> NodeProto | None:
        """The node of this operator that alone reads the result of a node, and is part of no other problem."""
        result = next(iter(node.output), "")
        reader = self._readers.get(result) if self._uses[result] == 1 else None
        if reader is None or reader.op_type != operator or reader.domain not in STANDARD or id(reader) in self._parts:
            return None
        return reader

    def _dtype(self, node: NodeProto) -> str:
        """The element type of both operands. Raises _UndescribedError."""
        names = {self.values.elements.get(name, "unknown") for name in node.input[:2]}
        (name,) = names if len(names) == 1 else (" and ".join(sorted(names)),)
        dtype = BY_TORCH_NAME.get("float32" if name == "FLOAT" else name.lower())
        if dtype is None:
            raise _UndescribedError(f"its operands are {name}")
        return dtype


def _convolution(graph: _Graph, node: NodeProto) -> ProblemNode:
    x, weights, given = graph.shape(node, 0), graph.shape(node, 1), _attributes(node)
    axes, groups = len(x) - 2, given.get("group", 1)
    if axes not in (1, 2) or len(weights) != len(x):
        raise _UndescribedError(f"a convolution of {axes} axes")
    if not isinstance(groups, int) or weights[1] * groups != x[1]:
        raise _UndescribedError(f"{x[1]} channels do not fit filters of {weights[1]} in {shown(groups)} groups")
    strides, dilations = (_sizes(given, name, [1] * axes) for name in ("strides", "dilations"))
    before, behind = _padding(given, x[2:], weights[2:], strides, dilations)
    if axes == 1:  # a sequence is an image of one row
        x, weights = (*x[:2], 1, x[2]), (*weights[:2], 1, weights[2])
        strides, dilations, before, behind = [1, *strides], [1, *dilations], [0, *before], [0, *behind]
    n, c, h, w = x
    more_h, more_w = (abs(first - last) for first, last in zip(before, behind, strict=True))
    padding = [min(both) for both in zip(before, behind, strict=True)]
    try:
        features = conv2d.layer_features((n, c, h + more_h, w + more_w), weights[0], weights[2:], strides, padding,
                                         dilations, groups)
    except ProblemError as error:
        raise _UndescribedError(str(error)) from None
    note = "its input is padded on one side beforehand" if more_h or more_w else ""
    return graph.described(node, "conv2d", features, weights[0], biased=len(node.input) > 2 and bool(node.input[2]),
                           note=note)


def _padding(given: Mapping[str, Any], sizes: Shape, filters: Shape, strides: Sequence[int],
             dilations: Sequence[int]) -> tuple[list[int], list[int]]:
    """The padding before and behind each axis. Raises _UndescribedError."""
    mode = given.get("auto_pad", "NOTSET")
    if mode == "NOTSET":
        pads = _sizes(given, "pads", [0] * 2 * len(sizes), least=0)
        return pads[:len(sizes)], pads[len(sizes):]
    if mode == "VALID":
        return [0] * len(sizes), [0] * len(sizes)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise _UndescribedError(f"auto_pad={shown(mode)}")
    totals = [max(0, (-(-size // stride) - 1) * stride + dilation * (taps - 1) + 1 - size)
              for size, taps, stride, dilation in zip(sizes, filters, strides, dilations, strict=True)]
    smaller, larger = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (smaller, larger) if mode == "SAME_UPPER" else (larger, smaller)


def _general_product(graph: _Graph, node: NodeProto) -> ProblemNode:
    """ONNX's Gemm: alpha A B + beta C, of which a C with one number for each column is a bias."""
    a, b, given = graph.shape(node, 0), graph.shape(node, 1), _attributes(node)
    if len(a) != 2 or len(b) != 2:
        raise _UndescribedError("its operands are no matrices")
    trans_a, trans_b = bool(given.get("transA")), bool(given.get("transB"))
    rows, (n, k) = a[::-1] if trans_a else a, b if trans_b else b[::-1]
    _check_inner(rows[1], k)
    added = node.input[2] if len(node.input) > 2 and given.get("beta", 1.0) != 0 else ""
    biased = bool(added) and graph.is_bias(added, n)
    notes = ["without its factors" if given.get("alpha", 1.0) != 1 or (added and given.get("beta", 1.0) != 1) else "",
             "without the matrix that is added" if added and not biased else ""]
    features = {**gemm.layer_features(rows, n, k), "trans_a": _word(trans_a), "trans_b": _word(trans_b)}
    return graph.described(node, "gemm", features, n, biased=biased, note=", ".join(filter(None, notes)))


def _product(graph: _Graph, node: NodeProto) -> ProblemNode:
    """ONNX's MatMul. With one matrix B, all axes of A but the last are rows; else it is a product for each pair."""
    a, b = graph.shape(node, 0), graph.shape(node, 1)
    if not a or not b:
        raise _UndescribedError("an operand is a single number")
    a, b = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    k, n = b[-2:]
    _check_inner(a[-1], k)
    try:
        count = math.prod(np.broadcast_shapes(a[:-2], b[:-2]))
    except ValueError:
        raise _UndescribedError("the leading axes of its operands do not fit") from None
    if math.prod(b[:-2]) == 1:
        rows, count = a, 1
    else:
        rows = a[-2:]
    if not count:
        raise _UndescribedError("it multiplies no matrices")
    features = {**gemm.layer_features(rows, n, k), "trans_b": "no"}
    return graph.described(node, "gemm", features, n, biased=False, count=count)


_MAKERS: Mapping[str, Callable[[_Graph, NodeProto], ProblemNode]] = {
    "Conv": _convolution, "Gemm": _general_product, "MatMul": _product}


def _check_inner(columns: int, rows: int) -> None:
    if columns != rows:
        raise _UndescribedError(f"{columns} columns of A and {rows} rows of B do not fit")


def _word(flag: bool) -> str:
    return "yes" if flag else "no"


def _why_not(node: NodeProto) -> str:
    """The reason why no problem describes a node, whatever its shapes are; empty for all others."""
    if node.domain not in STANDARD:
        return f"{cut(node.domain, LONGEST)} is not ONNX's own domain"
    inner = [_operator(part) for part in inner_nodes(node)
             if part.domain not in STANDARD or part.op_type in _MAKERS or products_in(part.op_type)]
    if inner:
        return f"it runs {len(inner)} of its own as often as it decides ({', '.join(dict.fromkeys(inner[:3]))})"
    return "" if node.op_type in _MAKERS else products_in(node.op_type)


def _name(node: NodeProto) -> str:
    """The name of a node, or of its result where it has none."""
    return (node.name or next(iter(node.output), ""))[:200]


def _operator(node: NodeProto) -> str:
    """The operator of a node, with its domain if that is not ONNX's own."""
    return (node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}")[:200]


def _attributes(node: NodeProto) -> dict[str, Any]:
    """The attributes of a node by name: numbers, lists of numbers, words. Raises _UndescribedError."""
    from onnx import helper

    try:
        given = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    except ValueError as error:
        raise _UndescribedError(str(error)) from None
    return {name: value.decode(errors="replace") if isinstance(value, bytes) else value
            for name, value in given.items()}


def _sizes(given: Mapping[str, Any], name: str, usual: list[int], least: int = 1) -> list[int]:
    """An attribute of as many whole numbers as `usual` has, each at least `least`. Raises _UndescribedError."""
    values = given.get(name, usual)
    numbers = isinstance(values, Sequence) and all(isinstance(value, int) and value >= least for value in values)
    if not numbers or len(values) != len(usual):
        raise _UndescribedError(f"{name}={shown(values)}")
    return list(values)
