"""Contents: what an array holds before a run: drawn numbers, a constant, a .npy file's data, or a copy of another."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import FormatError

from ..devices.element_types import ElementType, element_type
from ..operations.tensor import Contents, Tensor, Tensors
from .c_types import scalar

DRAWN = ("normal", "uniform", "zeros", "ones", "index")
KNOWN = f"{', '.join(DRAWN)}, 'uniform 0..9', 'normal seed 3', a number"  # in messages
COPY_OF = "copy of "  # before the name of an input: the contents of an output that starts as a copy of it
_HEADER = 4096  # bytes, more than any header of a .npy file with such a shape
_WIDEST = 16  # bytes of an element in a file: a long double
_BOUND = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?"
_RANDOM = re.compile(rf"(?:normal|uniform(?: ({_BOUND})\.\.({_BOUND}))?)(?: seed ([0-9]{{1,18}}))?", re.ASCII)


class RandomNumbers(NamedTuple):
    """Contents that are drawn: `normal`, `uniform`, `uniform 0..999`, each also with a seed, `uniform seed 3`."""

    is_normal: bool
    bounds: tuple[float, float] | None = None  # both included; None: those of the element type
    seed: int | None = None  # None: that of the measurement

    @classmethod
    def of(cls, values: Contents) -> RandomNumbers | None:
        """The numbers that these contents describe; None if they are others."""
        match = _RANDOM.fullmatch(values) if isinstance(values, str) else None
        if match is None:
            return None
        low, high, seed = match.groups()
        return cls(match[0].startswith("normal"), None if low is None else (_number(low), _number(high)),
                   None if seed is None else int(seed))

    def check(self, dtype: str) -> None:
        """Raise FormatError if the element type cannot hold the bounds, or if they are in the wrong order."""
        if self.bounds is not None:
            low, high = (scalar(dtype, bound) for bound in self.bounds)
            if low > high:
                raise FormatError(f"numbers from {low} to {high}: the first bound is the greater one")

    def draw(self, name: str, shape: tuple[int, ...], dtype: str, seed: int) -> NDArray[Any]:
        """Draw an array. Whole numbers without bounds are from -8..8, unsigned ones from 0..16: sums of many of them
        do not overflow 32 bits.
        """
        element = element_type(dtype)
        kind = element.stored
        generator = np.random.default_rng([seed if self.seed is None else self.seed, zlib.crc32(name.encode())])
        if not element.is_float:
            low, high = map(int, self.bounds or usual_bounds(element))
            wide = np.uint64 if high > np.iinfo(np.int64).max else np.int64
            return generator.integers(low, high, shape, wide, endpoint=True).astype(kind)
        if self.is_normal:
            return generator.standard_normal(shape, np.float32).astype(kind)
        numbers = generator.random(shape, np.float32)
        if self.bounds is not None:
            numbers = np.float32(self.bounds[0]) + numbers * np.float32(self.bounds[1] - self.bounds[0])
        return numbers.astype(kind)


def usual_bounds(element: ElementType) -> tuple[float, float]:
    """The bounds of whole numbers that declare none, both included."""
    return (0, 16) if element.stored.kind == "u" else (-8, 8)


def _number(text: str) -> float:
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else float(text)


def all_contents(tensors: Tensors, seed: int) -> dict[str, NDArray[Any]]:
    """Make the inputs, and the contents of outputs that have some, by name. Raises FormatError."""
    arrays = {name: contents(name, tensor, seed) for name, tensor in tensors.inputs.items()}
    for name, tensor in tensors.outputs.items():
        if (source := copied_input(tensor.values)) is not None:
            arrays[name] = arrays[source].reshape(tensor.shape)
        elif tensor.values is not None:
            arrays[name] = contents(name, tensor, seed)
    return arrays


def copied_input(values: Contents) -> str | None:
    """The name of the input that contents are a copy of; None if they are no copy."""
    return values.removeprefix(COPY_OF).strip() if isinstance(values, str) and values.startswith(COPY_OF) else None


def contents(name: str, tensor: Tensor, seed: int) -> NDArray[Any]:
    """Make the array. The numbers depend on seed and name, not on other arrays. Raises FormatError."""
    kind, values = element_type(tensor.dtype).stored, tensor.values
    if isinstance(values, Path):
        return read_array(values, tensor.shape).astype(kind, casting="same_kind")
    if not isinstance(values, str):
        return np.full(tensor.shape, 0 if values is None else values, kind)
    if values in ("zeros", "ones"):
        return np.full(tensor.shape, int(values == "ones"), kind)
    if values == "index":
        return np.arange(tensor.size).reshape(tensor.shape).astype(kind)
    numbers = RandomNumbers.of(values)
    if numbers is None:
        raise FormatError(f"{name}: no contents {values!r:.40}; there are {KNOWN} and a .npy file")
    return numbers.draw(name, tensor.shape, tensor.dtype, seed)


def read_array(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    """Read a .npy file of numbers with this shape (or its elements in one axis). Raises FormatError.

    Files whose size or header does not fit the shape are refused before their data are read.
    """
    count = int(np.prod(shape, dtype=np.int64))
    if not path.is_file():
        raise FormatError(f"{path.name}: there is no such file")
    size = path.stat().st_size
    if size > _HEADER + _WIDEST * count:
        raise FormatError(f"{path.name} has {size} bytes, too many for the shape {shape}")
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise FormatError(f"{path.name} is no array in NumPy's format .npy: {str(error)[:100]}") from None
    if not isinstance(mapped, np.ndarray) or mapped.dtype.kind not in "fiu":
        raise FormatError(f"{path.name} holds no numbers")
    if mapped.shape not in (shape, (count,)):
        raise FormatError(f"{path.name} has the shape {mapped.shape}; {shape} is declared")
    return np.array(mapped).reshape(shape)
