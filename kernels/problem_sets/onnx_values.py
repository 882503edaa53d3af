"""Values of an ONNX model: the shapes and element types that are known of them.

A file may leave sizes of its inputs open; who asks gives them. Shapes of all other values are inferred.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.errors import FormatError, ProblemError, shown

from ..operations.feature import LARGEST_SIZE
from ..operations.operation import Shape
from .onnx_shapes import inferred_values

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto, ValueInfoProto

LONGEST = 60  # characters of a name from the file in a message, where nobody has to type it
LONGEST_ADVICE = 1500  # characters of names that users type; a message has at most 2000
MOST_ADVISED, MOST_LISTED = 3, 5  # inputs


@dataclass(frozen=True, slots=True)
class Values:
    """The known shapes and types of the values of a graph."""

    shapes: Mapping[str, Shape]  # those that are known
    elements: Mapping[str, str]  # ONNX's names of their types, "FLOAT"
    missing: str  # which inputs have open sizes, and what to do; empty if none has


def values_of(path: Path, model: ModelProto, given: Mapping[str, Sequence[int]]) -> Values:
    """The values of a model, of which `given` are sizes of inputs that the file leaves open; they are written into it.

    Raises ProblemError for sizes that do not fit, FormatError where no shapes can be inferred.
    """
    return _inferred(path, model, _open_sizes(path, model, given))


def _open_sizes(path: Path, model: ModelProto, given: Mapping[str, Sequence[int]]) -> str:
    """Write the given sizes into a model; return how to give those that are still open. Raises ProblemError."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in constants}
    for axis in (axis for value in inputs.values() for axis in value.type.tensor_type.shape.dim):
        if axis.HasField("dim_value") and axis.dim_value < 1:  # so some converters write an open size
            axis.ClearField("dim_value")
    symbols: dict[str, int] = {}
    for name, sizes in given.items():
        if name not in inputs:
            raise ProblemError(f"{path} has no input {shown(name, LONGEST)}; it has {_listed(inputs)}")
        _write(inputs[name], sizes, symbols)
    values = [*inputs.values(), *model.graph.value_info, *model.graph.output]
    for axis in (axis for value in values for axis in value.type.tensor_type.shape.dim):
        if axis.dim_param in symbols:
            axis.dim_value = symbols[axis.dim_param]
    unknown = [value for value in inputs.values() if value.type.HasField("tensor_type") and _is_open(value)]
    if not unknown:
        return ""
    return "give " + " ".join(_whole([f"--input {shlex.quote(f'{value.name}={_example(value)}')}"
                                      for value in unknown[:MOST_ADVISED]]))


def _listed(names: Iterable[str]) -> str:
    """The names of inputs, whole, because users type them."""
    listed = [repr(name) for name in names]
    first = _whole(listed[:MOST_LISTED])
    more = [f"and {len(listed) - len(first)} more"] if len(listed) > len(first) else []
    return ", ".join([*first, *more]) or "none"


def _whole(words: Sequence[str]) -> Sequence[str]:
    """The first words, at least one, that fit into a message without being cut."""
    lengths = accumulate(map(len, words))
    return [word for number, (word, length) in enumerate(zip(words, lengths, strict=True))
            if not number or length <= LONGEST_ADVICE]


def _write(value: ValueInfoProto, sizes: Sequence[int], symbols: dict[str, int]) -> None:
    """Write the sizes of an input, and remember those of named axes. Raises ProblemError if they do not fit."""
    name = f"input {shown(value.name, LONGEST)}"
    sizes = list(sizes)
    if any(isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= LARGEST_SIZE for size in sizes):
        raise ProblemError(f"{name} cannot have the sizes {shown(sizes)}; each is a whole number from 1 to "
                           f"{LARGEST_SIZE}")
    if not value.type.HasField("tensor_type"):
        raise ProblemError(f"{name} is not a tensor, and has no sizes")
    shape = value.type.tensor_type.shape
    if value.type.tensor_type.HasField("shape") and len(shape.dim) != len(sizes):
        raise ProblemError(f"{name} has {len(shape.dim)} axes, not {len(sizes)}")
    for _ in range(len(sizes) - len(shape.dim)):
        shape.dim.add()
    for number, (axis, size) in enumerate(zip(shape.dim, sizes, strict=True)):
        known = axis.dim_value if axis.HasField("dim_value") else size
        if axis.dim_param:
            known = symbols.setdefault(axis.dim_param, size)
        if known != size:
            raise ProblemError(f"axis {number} of {name} has {known} elements, not {size}")
        axis.dim_value = size


def _is_open(value: ValueInfoProto) -> bool:
    """Whether a size of a value is unknown."""
    tensor = value.type.tensor_type
    return not tensor.HasField("shape") or any(not axis.HasField("dim_value") for axis in tensor.shape.dim)


def _example(value: ValueInfoProto) -> str:
    """Sizes as they could be written: those that are known, and usual ones in place of the others."""
    axes = value.type.tensor_type.shape.dim
    usual = 224 if len(axes) == 4 else 128
    return "x".join(str(axis.dim_value or (usual if number else 1)) for number, axis in enumerate(axes)) or "1x128"


def _inferred(path: Path, model: ModelProto, missing: str) -> Values:
    """The shapes and types of all values. Raises FormatError."""
    from onnx import TensorProto, helper

    graph = model.graph
    inputs = {value.name for value in graph.input}
    tensors = list(graph.initializer)
    for tensor in tensors:
        if not _has_numbers(tensor) and tensor.name not in inputs:  # shape inference would ask for them
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    kept = list(filter(_has_numbers, tensors))
    del graph.initializer[:]
    graph.initializer.extend(kept)
    try:
        shapes, elements = inferred_values(model.SerializeToString())
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    types = {number: name for name, number in TensorProto.DataType.items()}
    return Values({**{tensor.name: tuple(tensor.dims) for tensor in kept}, **shapes},
                   {**{tensor.name: types.get(tensor.data_type, "unknown") for tensor in kept}, **elements}, missing)


def _has_numbers(tensor: TensorProto) -> bool:
    """Whether a tensor stands in the file with its numbers; it does not if it is large or external."""
    fields = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
    return not tensor.external_data and any(len(getattr(tensor, field)) for field in fields)
