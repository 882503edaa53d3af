"""Packing: the order in which a kernel reads its constant operand, as loops that C and NumPy run.

The loops are found by packing arrays of indices: what stands where in the packed array is written as digits of its
place, each of which moves along axes of the operand by a step, up to a limit where blocks overlap. Places beyond an
axis are padding. The loops found are compared with the packing before they are returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import KernelError
from seqtune.kernels.devices.element_types import ElementType, decode, element_type, encode
from seqtune.kernels.launches.call import BufferArgument
from seqtune.kernels.operations.tensor import Tensors
from seqtune.kernels.problem import Problem

from ..backends.stored_operands import stored
from .c_language import C_TYPES
from .templates.arrays import PADDED, places

Pack = Callable[[NDArray[np.generic]], NDArray[np.generic]]  # an operand -> the packed array, in its stored form
Indices = NDArray[np.int64]
# An index that counts through neighbouring axes of the operand as if they were one: their sizes, and their steps in the
# operand, the outermost first.
Axis: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A loop's number, times `step` and at most `most`, is added to the index along an axis."""

    axis: int
    step: int
    most: int


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop over places of the packed array."""

    turns: int
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class PackingLoops:
    """A packing as loops, the outermost first, that copy elements and change no bits."""

    loops: Sequence[Loop]
    axes: Sequence[Axis]
    type: str  # of the operand
    packed_type: str  # fp32 for numbers of 16 bits that are packed as floats, else the same

    @property
    def elements(self) -> int:
        """The number of elements of the packed array."""
        return math.prod(loop.turns for loop in self.loops)

    def to_json(self) -> dict[str, Any]:
        """A JSON object, which `templates/arrays.py` runs."""
        return asdict(self)

    def c(self, name: str) -> str:
        """The function static void NAME(const void *operand, void *content), in C99."""
        sizes = [math.prod(size for size, _ in axis) for axis in self.axes]
        lines = [f"const int64_t a{axis} = {self._index(axis)};" for axis in range(len(sizes))]
        element = f"source[{' + '.join(map(_offset, range(len(sizes)), self.axes))}]"
        packed = C_TYPES[self.packed_type]
        if self.packed_type != self.type:
            packed, element = "uint32_t", f"(uint32_t){element} << 16"
        beyond = [f"a{axis} < {size}" for axis, size in enumerate(sizes) if self._largest(axis) >= size]
        if beyond:
            element = f"{' && '.join(beyond)} ? {element} : 0"
        loops = "".join(f"    for (int64_t d{number} = 0; d{number} < {loop.turns}; d{number}++)\n"
                        for number, loop in enumerate(self.loops))
        body = "\n        ".join([*lines, f"*packed++ = {element};"])
        return (f"static void {name}(const void *operand, void *content)\n{{\n"
                f"    const {C_TYPES[self.type]} *source = operand;\n    {packed} *packed = content;\n"
                f"{loops}    {{\n        {body}\n    }}\n}}\n")

    def _index(self, axis: int) -> str:
        """The index along an axis, of the loops' numbers in C."""
        terms = []
        for number, loop in enumerate(self.loops):
            for move in (move for move in loop.moves if move.axis == axis):
                term = f"d{number} * {move.step}" if move.step != 1 else f"d{number}"
                limited = move.most < move.step * (loop.turns - 1)
                terms.append(f"({term} < {move.most} ? {term} : {move.most})" if limited else term)
        return " + ".join(terms) or "0"

    def _largest(self, axis: int) -> int:
        """The largest index along an axis."""
        return sum(move.most for loop in self.loops for move in loop.moves if move.axis == axis)


def _offset(number: int, axis: Axis) -> str:
    """The part of an element's place that the index along an axis determines, in C."""
    terms, inner = [], math.prod(size for size, _ in axis)
    for part, (size, step) in enumerate(axis):
        inner //= size
        terms.append("".join((f"a{number}", f" / {inner}" if inner > 1 else "", f" % {size}" if part else "",
                              f" * {step}" if step > 1 else "")))
    return " + ".join(terms)


def packing_loops(name: str, pack: Pack, shape: Sequence[int], dtype: str, groups: int = 1) -> PackingLoops:
    """The loops of a packing of the operand `name`, which has this shape and element type.

    The first axis may consist of `groups`, which are padded one by one. Numbers of 16 bits may be packed as floats.
    Raises KernelError if the packing is no copy of elements in another order.
    """
    split = (groups, shape[0] // groups, *shape[1:])
    for packed in dict.fromkeys((dtype, "fp32")):
        wanted = index_map(pack, shape, dtype, packed)
        if wanted is None:
            continue
        for parts in _orders(split):
            numbered = _renumbered(wanted, parts)
            for axes in _axes(parts):
                digits = _digits(numbered, [math.prod(size for size, _ in axis) for axis in axes])
                if digits is not None:
                    loops = PackingLoops(digits, axes, dtype, packed)
                    if np.array_equal(places(loops.to_json()), wanted) and _copies(pack, wanted, shape, dtype, packed):
                        return loops
    raise KernelError(f"the packing of {name} is no order of loops over an operand of shape {tuple(shape)}")


def operand_loops(argument: BufferArgument, tensors: Tensors, problem: Problem) -> PackingLoops:
    """The loops of the packing of a problem's constant operand. Raises KernelError."""
    tensor, groups = tensors.inputs[argument.name], problem.names().get("groups")
    return packing_loops(argument.name, lambda array: stored(array, argument), tensor.shape, tensor.dtype,
                         groups if isinstance(groups, int) else 1)


def index_map(pack: Pack, shape: Sequence[int], dtype: str, packed_dtype: str) -> Indices | None:
    """The index of the operand's element at each place of the packed array; PADDED for padding.

    Indices are packed as several digits, because the packing may round them to the element type. None if the packed
    array does not hold such elements, or others than the operand's.
    """
    count, bits, element = math.prod(shape), _whole_bits(element_type(dtype)), element_type(packed_dtype)
    numbers, result, shift = np.arange(count), np.zeros(0, np.int64), 0
    while not shift or numbers[-1]:
        digits = (numbers & ((1 << bits) - 1)) + 1
        packed = np.ascontiguousarray(pack(digits.astype(element_type(dtype).host).reshape(shape)))
        elements = decode(packed.reshape(-1).view(element.stored), packed_dtype)
        found = elements.astype(np.int64)
        if (found != elements).any() or found.min() < 0 or found.max() > 1 << bits:
            return None
        result = np.where(result == PADDED, PADDED, result + (found - 1 << shift)) if shift else found - 1
        numbers >>= bits
        shift += bits
    return result if (result < count).all() else None


def _copies(pack: Pack, wanted: Indices, shape: Sequence[int], dtype: str, packed_dtype: str) -> bool:
    """Whether the packing copies all bits of other numbers, too: negative ones, and fractions."""
    element, unit = element_type(dtype), 1 << _whole_bits(element_type(dtype))
    numbers = np.random.default_rng(0).integers(-unit, unit + 1, shape)
    array = (numbers / unit if element.is_float else numbers).astype(element.host)
    elements = encode(array, packed_dtype).reshape(-1)
    packed = np.ascontiguousarray(pack(array)).reshape(-1).view(elements.dtype)
    return np.array_equal(packed, np.where(wanted == PADDED, elements.dtype.type(0), elements[wanted]))


def _whole_bits(element: ElementType) -> int:
    """The number of bits up to whose power of two the type holds all whole numbers, at most 24."""
    return round(-math.log2(element.rounding or 2.0**-24)) if element.is_float else min(24, 8 * element.size - 2)


def _orders(split: Sequence[int]) -> list[list[tuple[int, int]]]:
    """The axes of an operand as sizes and steps, in its order and with the second behind the others (channels last)."""
    parts = [(size, math.prod(split[axis + 1:])) for axis, size in enumerate(split)]
    orders = (parts, [*parts[:2], *parts[3:], parts[2]]) if len(parts) > 3 else (parts,)
    return [[part for part in order if part[0] > 1] or [(1, 1)] for order in orders]


def _axes(parts: Sequence[tuple[int, int]]) -> Iterator[list[Axis]]:
    """The axes one by one, and joined in all ways, the fewest joints first."""
    for cuts in range(len(parts) - 1, -1, -1):
        for chosen in combinations(range(1, len(parts)), cuts):
            ends = (0, *chosen, len(parts))
            yield [_joined(parts[begin:end]) for begin, end in pairwise(ends)]


def _joined(parts: Sequence[tuple[int, int]]) -> Axis:
    """One axis of several, whose neighbours are one part where they are contiguous."""
    joined = [parts[0]]
    for size, step in parts[1:]:
        outer, apart = joined[-1]
        joined[-1:] = [(outer * size, step)] if apart == size * step else [joined[-1], (size, step)]
    return tuple(joined)


def _renumbered(wanted: Indices, parts: Sequence[tuple[int, int]]) -> Indices:
    """The index map in which elements are numbered along axes of these sizes and steps in the operand."""
    if list(parts) == sorted(parts, key=lambda part: -part[1]):
        return wanted
    numbers, result = np.maximum(wanted, 0), np.zeros(len(wanted), np.int64)
    for size, step in parts:
        result = result * size + numbers // step % size
    return np.where(wanted == PADDED, PADDED, result)


def _digits(wanted: Indices, sizes: Sequence[int]) -> list[Loop] | None:
    """The loops that reach these indices, the outermost first; None if there are none."""
    known = wanted != PADDED
    axes = np.stack(np.unravel_index(np.where(known, wanted, 0), sizes), axis=-1)  # (place, axis)
    loops: list[Loop] = []
    while len(axes) > 1:
        found = next(filter(None, (_innermost(axes, known, turns, sizes) for turns in _divisors(len(axes)))), None)
        if found is None:
            return None
        loops.append(found)
        axes, known = axes[::found.turns], known[::found.turns]
    return loops[::-1] if known.all() and not axes.any() else None


def _divisors(number: int) -> list[int]:
    """The divisors above 1, the largest first."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({number // divisor for divisor in small} | set(small) - {1}, reverse=True)


def _innermost(axes: Indices, known: NDArray[np.bool_], turns: int, sizes: Sequence[int]) -> Loop | None:
    """The innermost loop, if it can have this number of turns; None if not. `sizes` are those of the axes.

    Where all turns but the first are padding, it leaves the first axis.
    """
    rows, there = axes.reshape(-1, turns, axes.shape[1]), known.reshape(-1, turns)
    fullest = 0 if there[0].all() else int(np.argmax(np.count_nonzero(there, axis=1)))
    length = int(np.count_nonzero(there[fullest]))
    if length == 1:
        return None if there[:, 1:].any() else Loop(turns, (Move(0, sizes[0], sizes[0] * (turns - 1)),))
    line, middle = rows[fullest, :length], length // 2  # what is known of them, from the first on
    step, half, last = (line[turn] - line[0] for turn in (min(1, middle), middle, length - 1))
    if not ((half == middle * step) | (half == last)).all() or not there[fullest, :length].all():
        return None
    # a limit is reached before the last turn; where the turns beyond `length` are padding, there is none
    most = np.where(last == step * (length - 1), step * (turns - 1), last)
    steps = np.minimum(np.arange(turns)[:, None] * step, most)
    if not step.any() or (step < 0).any() or (line - line[0] != steps[:length]).any():
        return None
    for some in (slice(None, None, len(rows) // 16 + 1), slice(None)):  # most are refused by a few rows
        reached, there_some = rows[some, :1] + steps, there[some]
        right = (rows[some] == reached).all(axis=2)
        if not there_some.all():  # padding is where the loop leaves an axis, or where its first turn is padding
            started, inside = there_some[:, :1], (reached < sizes).all(axis=2)
            right = np.where(there_some, right & started, ~(inside & started))
        if not right.all():
            return None
    return Loop(turns, tuple(Move(int(axis), int(step[axis]), int(most[axis])) for axis in np.flatnonzero(step)))
