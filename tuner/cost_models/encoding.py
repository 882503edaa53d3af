"""Encoding: the numbers that describe problems, devices and the tiling of a size to trees of every kind.

The code of a word of a derived quantity is its index among the words that the kernel's declaration can give, in
alphabetical order; the words of other rows do not matter.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats

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


def word_codes(kernel: Kernel, name: str, words: NDArray[Any]) -> Floats:
    """The codes of the words of a derived quantity, (row,). Words that the declaration does not name come last."""
    declared = {word: float(code) for code, word in enumerate(declared_words(kernel).get(name, ()))}
    distinct, inverse = np.unique(words.astype(str), return_inverse=True)
    codes = [declared.get(word, len(declared) + encode_value(word, 0.0)) for word in distinct.tolist()]
    return np.array(codes, np.float64)[inverse]


def declared_words(kernel: Kernel) -> Mapping[str, tuple[str, ...]]:
    """The words that each derived quantity can be, in alphabetical order; quantities that are no words are left out.

    The choices of the operation's features are unknown where its library is not in use.
    """
    try:
        features = operation(kernel.operation).features
    except SeqtuneError:
        features = ()
    return _declared_words(kernel, tuple((feature.name, feature.choices) for feature in features if feature.choices))


@lru_cache(maxsize=256)
def _declared_words(kernel: Kernel, choices: tuple[tuple[str, tuple[str, ...]], ...]) -> Mapping[str, tuple[str, ...]]:
    """The words as `declared_words` gives them, for these choices of features."""
    known: dict[str, set[str]] = {name: set(words) for name, words in choices}
    known |= {parameter.name: {value for value in parameter.values if isinstance(value, str)}
              for parameter in kernel.parameters}
    for name, expression in kernel.derived:
        known[name] = _words(ast.parse(expression.text, mode="eval").body, known)
    return {name: tuple(sorted(known[name])) for name, _ in kernel.derived if known[name]}


def _words(node: ast.expr, known: Mapping[str, set[str]]) -> set[str]:
    """The words that an expression can be, given those of the names in it."""
    match node:
        case ast.Constant(value=str(word)):
            return {word}
        case ast.Name(id=name):
            return known.get(name, set())
        case ast.IfExp(body=first, orelse=second):
            return _words(first, known) | _words(second, known)
        case ast.Subscript(value=ast.Dict(values=values)) | ast.BoolOp(values=values):
            return set().union(*(_words(value, known) for value in values))
        case _:
            return set()
