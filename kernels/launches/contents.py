"""Contents: what an array holds before a run: drawn numbers, a constant, a .npy file's data, or a copy of another."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import FormatError

from ..devices.element_types import element_type
from ..operations.tensor import Contents, Tensor, Tensors

DRAWN = ("normal", "uniform", "zeros", "ones", "index")
COPY_OF = "copy of "  # before the name of an input: the contents of an output that starts as a copy of it
_HEADER = 4096  # bytes, more than any header of a .npy file with such a shape
_WIDEST = 16  # bytes of an element in a file: a long double


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
    """Make the array. The numbers depend on seed and name, not on other arrays. Raises FormatError.

    Whole numbers are drawn from -8..8, unsigned ones from 0..16: sums of many of them do not overflow 32 bits.
    """
    kind, values = element_type(tensor.dtype).stored, tensor.values
    if isinstance(values, Path):
        return read_array(values, tensor.shape).astype(kind, casting="same_kind")
    if not isinstance(values, str):
        return np.full(tensor.shape, 0 if values is None else values, kind)
    if values in ("zeros", "ones"):
        return np.full(tensor.shape, int(values == "ones"), kind)
    if values == "index":
        return np.arange(tensor.size).reshape(tensor.shape).astype(kind)
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if not element_type(tensor.dtype).is_float:
        low = 0 if kind.kind == "u" else -8
        return generator.integers(low, low + 16, tensor.shape, endpoint=True).astype(kind)
    if values == "uniform":
        return generator.random(tensor.shape, np.float32).astype(kind)
    if values == "normal":
        return generator.standard_normal(tensor.shape, np.float32).astype(kind)
    raise FormatError(f"{name}: no contents {values!r:.40}; there are {', '.join(DRAWN)}, a number and a .npy file")


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
