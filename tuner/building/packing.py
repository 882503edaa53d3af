"""Packing: the order in which a kernel reads its constant operand, as loops in C and in NumPy.

The loops are found by packing arrays of indices: what stands where in the packed array is written as digits of its
place, each of which moves along axes of the operand by a step, up to a limit where blocks overlap. Places beyond an
axis are padding. The loops found are compared with the packing before they are returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import KernelError
from seqtune.kernels.devices.element_types import ELEMENT_TYPES, ElementType, decode, element_type, encode
from seqtune.kernels.launches.call import BufferArgument
from seqtune.kernels.operations.tensor import Tensors
from seqtune.kernels.problem import Problem

from ..backends.stored_operands import stored

Pack = Callable[[NDArray[np.generic]], NDArray[np.generic]]  # an operand -> the packed array, in its stored form
Indices = NDArray[np.int64]

_PADDED = -1
_C_FLOATS = {"float32": "float", "float64": "double", "float16": "uint16_t"}
C_TYPES = {name: _C_FLOATS.get(element.numpy, f"{element.numpy}_t") for name, element in ELEMENT_TYPES.items()}  # C99


@dataclass(frozen=True, slots=True)
class PackedText:
    """A packing as text. Its functions copy elements of one type and change no bits."""

    c: str  # static void NAME(const void *operand, void *content), in C99
    python: str  # def NAME(source): the packed array, flat; in NumPy
    elements: int  # of the packed array


@dataclass(frozen=True, slots=True)
class Digit:
    """One loop: along which axes of the operand its number moves, by which step, and at most how far."""

    count: int
    moves: tuple[tuple[int, int, int | None], ...]  # axis, step, largest move (None: no limit)

    def along(self, axis: int, number: str, least: str) -> list[str]:
        """The terms by which an axis' index grows. `least` formats the smaller of two numbers."""
        terms = ((number if step == 1 else f"{number} * {step}", most) for at, step, most in self.moves if at == axis)
        return [term if most is None else least.format(term, most) for term, most in terms]


@dataclass(frozen=True, slots=True)
class Axis:
    """One index of the loops, which counts through neighbouring axes of the operand as if they were one.

    `parts` are the sizes of these axes and their steps in the operand, the outermost first.
    """

    parts: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """The number of its indices."""
        return math.prod(size for size, _ in self.parts)

    def offset(self, number: str, divide: str) -> str:
        """The part of an element's place that this index determines. `divide` is the sign of whole division."""
        last = self.parts[-1][1]
        if all(step == math.prod(size for size, _ in self.parts[at + 1:]) * last for at, (_, step) in enumerate(
                self.parts)):
            return f"{number} * {last}"
        terms, inner = [], self.size
        for size, step in self.parts:
            inner //= size
            terms.append(f"{number} {divide} {inner} % {size} * {step}")
        return " + ".join(terms)


def packing_text(name: str, pack: Pack, shape: Sequence[int], dtype: str, groups: int = 1) -> PackedText:
    """The functions NAME for a packing of operands of this shape and element type.

    The first axis may consist of `groups`, which are padded one by one. Numbers of 16 bits may be packed as floats.
    Raises KernelError if the packing is no copy of elements in another order.
    """
    split = (groups, shape[0] // groups, *shape[1:])
    for packed in dict.fromkeys((dtype, "fp32")):
        wanted = index_map(pack, shape, dtype, packed)
        if wanted is None:
            continue
        for axes in _axes(split):
            sizes, places = [axis.size for axis in axes], _renumbered(wanted, axes)
            digits = _digits(places, sizes)
            if digits is not None and np.array_equal(_places(digits, sizes), places) and _copies(
                    pack, wanted, shape, dtype, packed):
                text = _Text(name, digits, axes, dtype, packed, int(wanted.min()) == _PADDED)
                return PackedText(text.c(), text.python(), len(wanted))
    raise KernelError(f"the packing of {name} is no order of loops over an operand of shape {tuple(shape)}")


def operand_packing(name: str, argument: BufferArgument, tensors: Tensors, problem: Problem) -> PackedText:
    """The functions NAME for the packing of a problem's constant operand. Raises KernelError."""
    tensor, groups = tensors.inputs[argument.name], problem.names().get("groups")
    return packing_text(name, lambda array: stored(array, argument), tensor.shape, tensor.dtype,
                        groups if isinstance(groups, int) else 1)


def index_map(pack: Pack, shape: Sequence[int], dtype: str, packed_dtype: str) -> Indices | None:
    """The index of the operand's element at each place of the packed array; -1 for padding.

    Indices are packed as several digits, because the packing may round them to the element type. None if the packed
    array does not hold such elements, or others than the operand's.
    """
    count, base, element = math.prod(shape), _largest(element_type(dtype)), element_type(packed_dtype)
    numbers, result, scale = np.arange(count), np.zeros(0, np.int64), 1
    while scale == 1 or scale < count:
        digits = (numbers // scale) % base + 1
        packed = np.ascontiguousarray(pack(digits.astype(element_type(dtype).host).reshape(shape)))
        found = decode(packed.reshape(-1).view(element.stored), packed_dtype)
        if not ((found >= 0) & (found <= base) & (found == np.round(found))).all():
            return None
        found = found.astype(np.int64)
        result = found - 1 if scale == 1 else np.where(result == _PADDED, _PADDED, result + (found - 1) * scale)
        scale *= base
    return result if (result < count).all() else None


def _copies(pack: Pack, wanted: Indices, shape: Sequence[int], dtype: str, packed_dtype: str) -> bool:
    """Whether the packing copies all bits of other numbers, too: negative ones, and fractions."""
    element, unit = element_type(dtype), _largest(element_type(dtype))
    numbers = np.random.default_rng(0).integers(-unit, unit + 1, shape)
    array = (numbers / unit if element.is_float else numbers).astype(element.host)
    elements = encode(array, packed_dtype).reshape(-1)
    packed = np.ascontiguousarray(pack(array)).reshape(-1).view(elements.dtype)
    return np.array_equal(packed, np.where(wanted == _PADDED, elements.dtype.type(0), elements[wanted]))


def _largest(element: ElementType) -> int:
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
                yield [Axis(tuple(parts[begin:end])) for begin, end in pairwise(ends)]


def _renumbered(wanted: Indices, axes: Sequence[Axis]) -> Indices:
    """The index map in which elements are numbered along these axes."""
    parts = [part for axis in axes for part in axis.parts]
    numbers, result = np.maximum(wanted, 0), np.zeros(len(wanted), np.int64)
    for size, step in parts:
        result = result * size + numbers // step % size
    return np.where(wanted == _PADDED, _PADDED, result)


def _digits(wanted: Indices, sizes: Sequence[int]) -> list[Digit] | None:
    """The loops that reach these indices, the outermost first; None if there are none."""
    known = wanted != _PADDED
    axes = np.stack(np.unravel_index(np.where(known, wanted, 0), sizes), axis=-1)  # (place, axis)
    digits: list[Digit] = []
    while len(axes) > 1:
        found = next(filter(None, (_innermost(axes, known, count, sizes[0]) for count in _divisors(len(axes)))), None)
        if found is None:
            return None
        digits.append(found)
        axes, known = axes[::found.count], known[::found.count]
    return digits[::-1] if known.all() and not axes.any() else None


def _divisors(number: int) -> list[int]:
    """The divisors above 1, the largest first."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({number // divisor for divisor in small} | set(small) - {1}, reverse=True)


def _innermost(axes: Indices, known: NDArray[np.bool_], count: int, size: int) -> Digit | None:
    """The innermost loop, if it can have this number of turns; None if not.

    Where all turns but the first are padding, it leaves the first axis, which has this `size`.
    """
    rows, there = axes.reshape(-1, count, axes.shape[1]), known.reshape(-1, count)
    fullest = 0 if there[0].all() else int(np.argmax(np.count_nonzero(there, axis=1)))
    length = int(np.count_nonzero(there[fullest]))
    if length == 1:
        return None if there[:, 1:].any() else Digit(count, ((0, size, None),))
    moved, middle = rows[fullest, :length] - rows[fullest, 0], length // 2  # what is known of them, from the first on
    step, last = moved[min(1, middle)], moved[-1]
    if not there[fullest, :length].all() or not ((moved[middle] == middle * step) | (moved[middle] == last)).all():
        return None
    moves, numbers = [], np.arange(count)
    steps = np.zeros((count, axes.shape[1]), np.int64)
    for axis in np.flatnonzero(step).tolist():
        most = None if last[axis] == step[axis] * (length - 1) else int(last[axis])
        steps[:, axis] = numbers * step[axis] if most is None else np.minimum(numbers * step[axis], most)
        moves.append((axis, int(step[axis]), most))
    if not moves or (moved != steps[:length]).any():
        return None
    same = (rows == rows[:, :1] + steps).all(axis=2) | ~there
    starts = there[:, 0] | ~there.any(axis=1)
    return Digit(count, tuple(moves)) if same.all() and starts.all() else None


def _places(digits: Sequence[Digit], sizes: Sequence[int]) -> Indices:
    """The index map of the loops."""
    shape = [digit.count for digit in digits]
    axes = np.zeros((len(sizes), *(shape or [1])), np.int64)
    for number, digit in zip(np.ogrid[tuple(slice(count) for count in shape)], digits, strict=True):
        for axis, step, most in digit.moves:
            axes[axis] += number * step if most is None else np.minimum(number * step, most)
    axes = axes.reshape(len(sizes), -1)
    inside = (axes < np.array(sizes)[:, None]).all(axis=0)
    flat = np.ravel_multi_index(tuple(np.where(inside, axes, 0)), tuple(sizes))
    return np.where(inside, flat, _PADDED)


@dataclass(frozen=True, slots=True)
class _Text:
    """Writes the functions of a packing."""

    name: str
    digits: Sequence[Digit]
    axes: Sequence[Axis]
    dtype: str
    packed: str
    is_padded: bool

    def c(self) -> str:
        """The function in C99."""
        source, packed = C_TYPES[self.dtype], C_TYPES[self.packed]
        loops = "".join(f"    for (int64_t d{number} = 0; d{number} < {digit.count}; d{number}++)\n"
                        for number, digit in enumerate(self.digits))
        element = f"source[{self._place('/')}]"
        if self.packed != self.dtype:
            packed, element = "uint32_t", f"(uint32_t){element} << 16"
        if self.is_padded:
            inside = " && ".join(f"a{axis} < {each.size}" for axis, each in enumerate(self.axes))
            element = f"{inside} ? {element} : 0"
        axes = [f"const int64_t {line};" for line in self._indices("({0} < {1} ? {0} : {1})")]
        body = "\n        ".join([*axes, f"*packed++ = {element};"])
        return (f"static void {self.name}(const void *operand, void *content)\n{{\n"
                f"    const {source} *source = operand;\n    {packed} *packed = content;\n"
                f"{loops}    {{\n        {body}\n    }}\n}}\n")

    def python(self) -> str:
        """The function in NumPy."""
        inside = " & ".join(f"(a{axis} < {each.size})" for axis, each in enumerate(self.axes))
        wide = "" if self.packed == self.dtype else ".astype(np.uint32) << 16"
        lines = [*[f"d{number} = np.arange({digit.count}).reshape({(-1, *[1] * (len(self.digits) - 1 - number))})"
                   for number, digit in enumerate(self.digits)],
                 *self._indices("np.minimum({0}, {1})"),
                 f"inside = {inside}", f"place = np.where(inside, {self._place('//')}, 0)",
                 f"packed = np.ascontiguousarray(source).reshape(-1)[place]{wide}",
                 "return np.where(inside, packed, packed.dtype.type(0)).reshape(-1)"]
        return f"def {self.name}(source):\n" + "".join(f"    {line}\n" for line in lines)

    def _indices(self, least: str) -> list[str]:
        """The assignments of the axes' indices."""
        return [f"a{axis} = " + (" + ".join(term for number, digit in enumerate(self.digits)
                                            for term in digit.along(axis, f"d{number}", least)) or "0")
                for axis in range(len(self.axes))]

    def _place(self, divide: str) -> str:
        """The place of an element in the operand."""
        return " + ".join(axis.offset(f"a{number}", divide) for number, axis in enumerate(self.axes))
