"""Tree features: the facts of an operation's own sentence as columns for boosted trees, and for distances of problems.

A convolution is described as in the keys of MIOpen's perf-db (see `seqtune.kernels.operations.convnd`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import Queries
from seqtune.kernels.devices.device import Device
from seqtune.kernels.operations.convnd import OPERATION
from seqtune.kernels.problem import Problem

from ..sequence.source_columns import fact_columns, few_fact_columns

Floats = NDArray[np.float32]

_SIZED = ("batch", "read channels", "written channels", "read image", "written image", "products", "filter")
_NUMBERS = tuple(name for position in _SIZED for name in OPERATION.sentence[position])
_MAGNITUDES = ("points", "weights", "input", "output", "flop", "ambiguous", "shape", "aspect", "element_bytes")
_WORDS = ("direction", "dtype", "layout", "bias")
_FACTS = tuple(OPERATION.sentence["device"])
_MODULI = {"n": (3, 5), "from_c": (3, 5, 7, 12, 24), "to_c": (3, 5, 7, 12, 20, 24, 28), "read_w": (4, 14, 16, 64),
           "read_pixels": (4, 16, 32, 64), "write_pixels": (4, 16, 32, 64), "write_w": (4, 14, 16, 64)}
_TWOS = ("n", "from_c_group", "to_c_group", "read_w", "read_pixels", "write_pixels", *OPERATION.sentence["products"])
_NEAR = tuple(name for name in _NUMBERS if name not in OPERATION.sentence["products"])
TREE_FEATURES = (len(_NUMBERS) + sum(map(len, _MODULI.values())) + len(_TWOS) + len(_MAGNITUDES) + len(_WORDS)
                 + len(_FACTS))


def tree_columns(queries: Queries) -> Floats:
    """The features of queries for boosted trees, (query, feature): words as their number, unknown numbers as -1."""
    return _tree_columns(fact_columns(queries))


def few_tree_columns(pairs: Sequence[tuple[Problem, Device]]) -> Floats:
    """The features of `tree_columns` for a few queries, at least one."""
    return _tree_columns(few_fact_columns(pairs))


def _tree_columns(facts: Mapping[str, NDArray[Any]]) -> Floats:
    def known(names: Sequence[str], change: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[np.float64]:
        """Changed facts (name, query); -1 for unknown ones."""
        values = np.array([facts[name] for name in names])
        return np.where(np.isnan(values), -1, change(values))

    divided = [(name, modulus) for name, moduli in _MODULI.items() for modulus in moduli]
    divisors = np.array([modulus for _, modulus in divided], np.float64)[:, None]
    words = []
    for name in _WORDS:
        number = {word: float(index) for index, word in enumerate(OPERATION.by_name[name].choices)}
        words.append([number[text] for text in facts[name].tolist()])
    columns = [
        known(_NUMBERS, lambda values: values), known([name for name, _ in divided], lambda values: values % divisors),
        _twos(np.array([facts[name] for name in _TWOS])),
        known(_MAGNITUDES, lambda values: np.log2(np.maximum(values, 2.0**-20))), np.array(words),
        np.nan_to_num(np.array([facts[name] for name in _FACTS]))]
    return np.ascontiguousarray(np.concatenate(columns).T, np.float32)


def plain_columns(queries: Queries) -> Floats:
    """Logarithms of the sizes of queries, (query, feature), from which the distance of problems is computed."""
    facts = fact_columns(queries)
    return np.stack([np.log2(np.nan_to_num(facts[name]) + 1) for name in _NEAR], axis=1).astype(np.float32)


def _twos(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The number of times that two divides each size, at most ten; 0 for zero and for unknown sizes."""
    whole = np.nan_to_num(sizes).astype(np.int64)
    return np.asarray(np.log2(np.minimum(whole & -whole, 1 << 10) + (whole == 0)))
