"""Encoding: the numbers that describe problems, devices and the tiling of a size to trees of every kind."""

from __future__ import annotations

import zlib
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem

LARGEST = float(np.finfo(np.float32).max)  # trees take no infinite numbers
_WORDS = 9973  # words become numbers below it: trees only need distinct ones
_BEFORE = ("threads", "compute_units")
_AFTER = ("vector_registers", "l1_bytes", "l2_bytes", "l3_bytes", "local_memory", "max_work_group", "peak_gflops",
          "bandwidth_gbs")

_Number = TypeVar("_Number", np.float32, np.float64)


def encode_value(value: object, unknown: float) -> float:
    """The number for a number, a word or `None`, which becomes `unknown`."""
    if isinstance(value, int | float):
        return float(max(-LARGEST, min(LARGEST, value)))
    return unknown if value is None else float(word_code(str(value)))


def word_code(word: str) -> int:
    """The number for a word."""
    return zlib.crc32(word.encode()) % _WORDS


def encode_features(problem: Problem, unknown: float) -> list[float]:
    """The features of a problem in their order; `unknown` is the number for a feature that the problem lacks."""
    return [encode_value(value, unknown) for value in problem.names().values()]


def encode_facts(problem: Problem, device: Device, vector: Literal["vector_bits", "vector_floats"],
                 unknown: float) -> list[float]:
    """The features of a problem in their order, then facts of a device.

    `vector` is the fact that gives the width of vector registers, `unknown` the number for a feature that the problem
    lacks.
    """
    return encode_features(problem, unknown) + [float(getattr(device, name)) for name in fact_names(vector)]


def fact_names(vector: str) -> tuple[str, ...]:
    """The names of a device's facts in their order; `vector` is the fact that gives the width of vector registers."""
    return (*_BEFORE, vector, *_AFTER)


def tiling(size: int, lengths: NDArray[_Number]) -> tuple[NDArray[_Number], NDArray[_Number]]:
    """The numbers of tiles of the given lengths in a size, and the padded size relative to the size.

    Lengths below 1 count as 1; numbers of tiles are not rounded.
    """
    lengths = np.maximum(lengths, 1)
    tiles: Any = min(size, LARGEST) / lengths  # numpy keeps the lengths' type, which its type hints do not express
    return tiles, np.ceil(tiles) * lengths / min(size, LARGEST)
