"""Inputs: the features of many queries at once, as label models read them.

A convolution is described as in the keys of MIOpen's perf-db: by what the pass reads and writes. For a strided backward
pass the input size is the smallest one that gives the output, marked as ambiguous, even if the true size is known.
Sizes get a code that shows divisibility, magnitudes (work, bytes) their logarithm, words their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import DistinctProblems, Queries
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import sizes_expression
from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.feature import DTYPE

from ..sequence.numeric_codes import CODE_SIZE, codes

Floats = NDArray[np.float32]

_FORWARD = "direction == 'forward'"
HELPERS = (  # names for the expressions below
    ("in_h", f"x_h if {_FORWARD} else (out_h - 1) * stride_h + dilation_h * (r - 1) + 1 - 2 * pad_h"),
    ("in_w", f"x_w if {_FORWARD} else (out_w - 1) * stride_w + dilation_w * (s - 1) + 1 - 2 * pad_w"),
    ("read_c", f"c if {_FORWARD} else k"), ("write_c", f"k if {_FORWARD} else c"),
    ("read_h", f"in_h if {_FORWARD} else out_h"), ("write_h", f"out_h if {_FORWARD} else in_h"),
    ("read_w", f"in_w if {_FORWARD} else out_w"), ("write_w", f"out_w if {_FORWARD} else in_w"),
    ("elements", sizes_expression(DTYPE.choices)),
)
# token of the source sentence -> its sizes by name. A pass reads one image and writes the other; the weight gradient
# reads both and counts as a backward pass.
SIZES: dict[str, dict[str, str]] = {
    "batch": {"n": "n"},
    "read channels": {"read_c": "read_c", "read_c_group": "read_c // groups"},
    "written channels": {"write_c": "write_c", "write_c_group": "write_c // groups", "groups": "groups"},
    "read image": {"read_h": "read_h", "read_w": "read_w", "read_pixels": "read_h * read_w"},
    "written image": {"write_h": "write_h", "write_w": "write_w", "write_pixels": "write_h * write_w"},
    "products": {"points": "n * out_d * out_h * out_w", "images": "n * in_h * in_w",  # sides of the matrix products
                 "taps": "(c // groups) * t * r * s", "filters": "(k // groups) * t * r * s"},  # that it comes down to
    "filter": {"r": "r", "s": "s", "t": "t", "pad_h": "pad_h", "pad_w": "pad_w", "stride_h": "stride_h",
               "stride_w": "stride_w", "dilation_h": "dilation_h", "dilation_w": "dilation_w", "depth": "out_d"},
}
MAGNITUDES: dict[str, str] = {
    "points": SIZES["products"]["points"], "weights": "k * (c // groups) * t * r * s",
    "input": "n * c * in_h * in_w", "output": "n * k * out_h * out_w",
    "flop": "2 * n * k * out_d * out_h * out_w * (c // groups) * t * r * s",
    "ambiguous": f"0 if {_FORWARD} or (stride_h == 1 and stride_w == 1) else 1",
    "shape": "(read_c * 1.0) / write_c", "aspect": "(read_h * 1.0) / read_w", "bytes": "elements",
}
FACTS = ("compute_units", "wave_size", "vector_registers", "scalar_registers", "local_memory", "l3_bytes",
         "peak_gflops", "bandwidth_gbs", "generation", "dot2", "matrix_units", "legacy")
SHARES = ("flop", "output", "weights", "points")  # magnitudes also seen per compute unit
WORDS = ("direction", "dtype", "layout", "bias")  # of the problem; and the device's architecture
NUMBERS = tuple(name for sizes in SIZES.values() for name in sizes)
TOKENS = (*SIZES, "work", "words")
TWOS = (128, 256, 512, 1024)  # a number's code also shows divisibility by these powers of two
CODE = CODE_SIZE + len(TWOS) + 1  # the last one: how often two divides the number
MAGNITUDE_SIZE = len(MAGNITUDES) + len(FACTS) + len(SHARES)

PARSED = {name: Expression(text) for name, text in  # a helper replaces a size of the same name
           (*((name, text) for sizes in SIZES.values() for name, text in sizes.items()), *MAGNITUDES.items(),
            *HELPERS)}
_MODULI = {"n": (3, 5), "read_c": (3, 5, 7, 12, 24), "write_c": (3, 5, 7, 12, 20, 24, 28), "read_w": (4, 14, 16, 64),
           "read_pixels": (4, 16, 32, 64), "write_pixels": (4, 16, 32, 64), "write_w": (4, 14, 16, 64)}
_TWOS = ("n", "read_c_group", "write_c_group", "read_w", "read_pixels", "write_pixels", *SIZES["products"])
_NEAR = tuple(name for token, sizes in SIZES.items() if token != "products" for name in sizes)
_SHARED = [list(MAGNITUDES).index(name) for name in SHARES]
TREE_FEATURES = (len(NUMBERS) + sum(map(len, _MODULI.values())) + len(_TWOS) + len(MAGNITUDES) + len(WORDS)
                 + len(FACTS))


@dataclass(frozen=True, eq=False)
class Inputs:
    """The features of queries. Problems and devices are stored once, however many queries share them."""

    table: Floats  # (distinct number, CODE)
    numbers: NDArray[np.int64]  # (problem, NUMBERS) rows of `table`
    magnitudes: Floats  # (problem, MAGNITUDES)
    words: NDArray[np.int64]  # (problem, WORDS)
    facts: Floats  # (device, FACTS)
    architecture: NDArray[np.int64]  # (device,)
    problem: NDArray[np.int64]  # (query,)
    device: NDArray[np.int64]  # (query,)

    @classmethod
    def of(cls, queries: Queries, words: Sequence[str]) -> Inputs:
        """Compute the features of queries. `words` are the source words of the model's vocabulary; any other word
        gets the number of <unknown>, which is 1."""
        queries = queries.compact()
        values, known = _evaluated(queries.problems, (*NUMBERS, *MAGNITUDES))
        count = len(NUMBERS)
        filled = np.where(known, values, np.nan)[:, :count]
        distinct, rows = np.unique(filled, return_inverse=True)
        table = _table([None if np.isnan(value) else int(value) for value in distinct.tolist()])
        numbers = {word: number for number, word in enumerate(words)}
        columns = queries.problems.columns
        word_numbers = [[numbers.get(f"{name}={word}", 1) for word in columns.values[name].tolist()] for name in WORDS]
        architecture = [numbers.get(f"architecture={device.architecture}", 1) for device in queries.devices]
        facts = np.array([_facts(device) for device in queries.devices])
        return cls(table, rows.reshape(filled.shape), _logarithms(values[:, count:], known[:, count:]),
                   np.array(word_numbers).T, _logarithms(facts, np.ones_like(facts, bool)), np.array(architecture),
                   queries.problem, queries.device)

    def batch(self, rows: NDArray[np.int64]) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """The features of the queries with these row numbers: codes (query, NUMBERS, CODE), magnitudes
        (query, MAGNITUDE_SIZE) and words (query, WORDS + 1)."""
        problem, device = self.problem[rows], self.device[rows]
        magnitudes, facts = self.magnitudes[problem], self.facts[device]
        shares = magnitudes[:, _SHARED] - facts[:, :1]
        return (self.table[self.numbers[problem]], np.concatenate([magnitudes, facts, shares], axis=1),
                np.concatenate([self.words[problem], self.architecture[device][:, None]], axis=1))


def tree_columns(queries: Queries) -> Floats:
    """The features of queries for boosted trees, (query, feature): words as their number, unknown numbers as -1."""
    queries = queries.compact()
    problems, count = queries.problems, len(NUMBERS)
    numbers, known = _evaluated(problems, (*NUMBERS, *MAGNITUDES))
    features = [np.where(known, numbers, -1)[:, :count]]
    for name, moduli in _MODULI.items():
        index = NUMBERS.index(name)
        features += [np.where(known[:, index], numbers[:, index] % modulus, -1)[:, None] for modulus in moduli]
    for name in _TWOS:
        features.append(_twos(numbers[:, NUMBERS.index(name)].astype(np.int64))[:, None])
    features.append(np.where(known, np.log2(np.maximum(numbers, 2.0**-20)), -1)[:, count:])
    values, declared = problems.columns.values, problems.columns.operation.by_name
    features.append(np.array([[declared[name].choices.index(word) for word in values[name].tolist()]
                              for name in WORDS], float).T)
    facts = np.array([_facts(device) for device in queries.devices])
    columns = np.concatenate(features, axis=1, dtype=np.float32)
    return np.concatenate([columns[queries.problem], facts[queries.device].astype(np.float32)], axis=1)


def plain_columns(queries: Queries) -> Floats:
    """Logarithms of the sizes of queries, (query, feature), from which the distance of problems is computed."""
    queries = queries.compact()
    numbers, known = _evaluated(queries.problems, _NEAR)
    logarithms: Floats = np.log2(np.where(known, numbers, 0) + 1).astype(np.float32)
    return logarithms[queries.problem]


@lru_cache(maxsize=1)  # the transformer and the trees need the same values, one after the other
def _evaluated(problems: DistinctProblems, wanted: tuple[str, ...]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The values of the expressions, and whether all names in them are known. Both (problem, wanted)."""
    columns = problems.columns
    names: dict[str, Any] = dict(columns.values)
    known: dict[str, Any] = dict(columns.known)
    for name in dict.fromkeys((*(name for name, _ in HELPERS), *wanted)):
        if name in columns.operation.by_name:
            continue
        expression = PARSED[name]
        names[name] = np.broadcast_to(np.asarray(expression(names)), len(columns))
        known[name] = np.all([known[used] for used in expression.names], axis=0)
    values = np.stack([np.asarray(names[name], np.float64) for name in wanted], axis=1)
    return values, np.stack([known[name] for name in wanted], axis=1)


def _table(values: Sequence[int | None]) -> Floats:
    sizes = np.array([value or 0 for value in values], np.int64)
    divided = (sizes[:, None] % np.array(TWOS) == 0) & (sizes[:, None] > 0)
    return np.concatenate([codes(values), divided, _twos(sizes)[:, None] / 8], axis=1, dtype=np.float32)


def _twos(sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The number of times that two divides each size, at most ten; 0 for zero."""
    return np.asarray(np.log2(np.minimum(sizes & -sizes, 1 << 10) + (sizes == 0)))


@lru_cache(maxsize=1000)
def _facts(device: Device) -> tuple[float, ...]:
    names = {**device.names(), "peak_gflops": device.peak_gflops, "bandwidth_gbs": device.bandwidth_gbs}
    facts = [names.get(name, 0) for name in FACTS]
    return tuple(float(value) if isinstance(value, int | float) else 0.0 for value in facts)


def _logarithms(values: NDArray[np.float64], known: NDArray[np.bool_]) -> Floats:
    """log2(value) / 8, and -1 where the value is unknown; values below 1/8 count as 1/8."""
    logarithms = np.log2(np.maximum(values, 0.125)) / 8
    return np.where(known, logarithms, -1.0).astype(np.float32)
