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
        for axes in _axes(split):
            digits = _digits(_renumbered(wanted, axes), [math.prod(size for size, _ in axis) for axis in axes])
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
    count, base, element = math.prod(shape), _largest_whole(element_type(dtype)), element_type(packed_dtype)
    numbers, result, scale = np.arange(count), np.zeros(0, np.int64), 1
    while scale == 1 or scale < count:
        digits = (numbers // scale) % base + 1
        packed = np.ascontiguousarray(pack(digits.astype(element_type(dtype).host).reshape(shape)))
        found = decode(packed.reshape(-1).view(element.stored), packed_dtype)
        if not ((found >= 0) & (found <= base) & (found == np.round(found))).all():
            return None
        found = found.astype(np.int64)
        result = found - 1 if scale == 1 else np.where(result == PADDED, PADDED, result + (found - 1) * scale)
        scale *= base
    return result if (result < count).all() else None


def _copies(pack: Pack, wanted: Indices, shape: Sequence[int], dtype: str, packed_dtype: str) -> bool:
    """Whether the packing copies all bits of other numbers, too: negative ones, and fractions."""
    element, unit = element_type(dtype), _largest_whole(element_type(dtype))
    numbers = np.random.default_rng(0).integers(-unit, unit + 1, shape)
    array = (numbers / unit if element.is_float else numbers).astype(element.host)
    elements = encode(array, packed_dtype).reshape(-1)
    packed = np.ascontiguousarray(pack(array)).reshape(-1).view(elements.dtype)
    return np.array_equal(packed, np.where(wanted == PADDED, elements.dtype.type(0), elements[wanted]))


def _largest_whole(element: ElementType) -> int:
    """A number up to which the type holds all whole ones."""
    return round(0.5 / element.rounding) if element.rounding else 1 << min(20, 8 * element.size - 2)


def _axes(split: Sequence[int]) -> Iterator[list[Axis]]:
    """The axes of an operand, in its order and with the second behind the others (channels last), one by one or joined.
    """
    steps = [math.prod(split[axis + 1:]) for axis in range(len(split))]
    for order in ([*range(len(split))], [0, 1, *range(3, len(split)), 2] if len(split) > 3 else []):
        parts = [(split[axis], steps[axis]) for axis in order if split[axis] > 1] or [(1, 1)] if order else []
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


def _renumbered(wanted: Indices, axes: Sequence[Axis]) -> Indices:
    """The index map in which elements are numbered along these axes."""
    numbers, result = np.maximum(wanted, 0), np.zeros(len(wanted), np.int64)
    for size, step in (part for axis in axes for part in axis):
        result = result * size + numbers // step % size
    return np.where(wanted == PADDED, PADDED, result)


def _digits(wanted: Indices, sizes: Sequence[int]) -> list[Loop] | None:
    """The loops that reach these indices, the outermost first; None if there are none."""
    known = wanted != PADDED
    axes = np.stack(np.unravel_index(np.where(known, wanted, 0), sizes), axis=-1)  # (place, axis)
    loops: list[Loop] = []
    while len(axes) > 1:
        found = next(filter(None, (_innermost(axes, known, turns, sizes[0]) for turns in _divisors(len(axes)))), None)
        if found is None:
            return None
        loops.append(found)
        axes, known = axes[::found.turns], known[::found.turns]
    return loops[::-1] if known.all() and not axes.any() else None


def _divisors(number: int) -> list[int]:
    """The divisors above 1, the largest first."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({number // divisor for divisor in small} | set(small) - {1}, reverse=True)


def _innermost(axes: Indices, known: NDArray[np.bool_], turns: int, size: int) -> Loop | None:
    """The innermost loop, if it can have this number of turns; None if not.

    Where all turns but the first are padding, it leaves the first axis, which has this `size`.
    """
    rows, there = axes.reshape(-1, turns, axes.shape[1]), known.reshape(-1, turns)
    fullest = 0 if there[0].all() else int(np.argmax(np.count_nonzero(there, axis=1)))
    length = int(np.count_nonzero(there[fullest]))
    if length == 1:
        return None if there[:, 1:].any() else Loop(turns, (Move(0, size, size * (turns - 1)),))
    moved, middle = rows[fullest, :length] - rows[fullest, 0], length // 2  # what is known of them, from the first on
    step, last = moved[min(1, middle)], moved[-1]
    if not there[fullest, :length].all() or not ((moved[middle] == middle * step) | (moved[middle] == last)).all():
        return None
    # a limit is reached before the last turn; where the turns beyond `length` are padding, there is none
    most = np.where(last == step * (length - 1), step * (turns - 1), last)
    steps = np.minimum(np.arange(turns)[:, None] * step, most)
    if not step.any() or (step < 0).any() or (moved != steps[:length]).any():
        return None
    same = (rows == rows[:, :1] + steps).all(axis=2) | ~there
    starts = there[:, 0] | ~there.any(axis=1)
    moves = (Move(int(axis), int(step[axis]), int(most[axis])) for axis in np.flatnonzero(step))
    return Loop(turns, tuple(moves)) if same.all() and starts.all() else None
