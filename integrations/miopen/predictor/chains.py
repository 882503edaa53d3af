"""Chain: boosted trees that predict the parameters of a kernel in order, with one classifier for each parameter.

A chain learns from one device, or from all together, whose facts it sees. Kernels with few labels and the same
parameters share classifiers, which then see the kernel's number in the group (`member`) as one more feature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.operations.convnd import OPERATION
from seqtune.predictor.trees.forest import Forest

from .source_columns import Pair, fact_columns

if TYPE_CHECKING:
    from seqtune.tuner.cost_models.boosting import Boosting

    from .labels import Labels

Floats = NDArray[np.float32]
ANY = ""  # the device name of a chain that has learned from all devices
UNSEEN = -12.0  # log-probability of a value that training never saw
SMALL = 1500  # labels: with fewer, kernels with equal parameters share a chain
WIDE = 64  # values of one parameter: with more, few shallow trees predict better
_SIZED = ("batch", "read channels", "written channels", "read image", "written image", "products", "filter")
_NUMBERS = tuple(name for position in _SIZED for name in OPERATION.sentence[position])
_MAGNITUDES = ("points", "weights", "input", "output", "flop", "ambiguous", "shape", "aspect", "element_bytes")
_WORDS = ("direction", "dtype", "layout", "bias")
_FACTS = tuple(OPERATION.sentence["device"])
_MODULI = {"n": (3, 5), "from_c": (3, 5, 7, 12, 24), "to_c": (3, 5, 7, 12, 20, 24, 28), "read_w": (4, 14, 16, 64),
           "read_pixels": (4, 16, 32, 64), "write_pixels": (4, 16, 32, 64), "write_w": (4, 14, 16, 64)}
_TWOS = ("n", "from_c_group", "to_c_group", "read_w", "read_pixels", "write_pixels", *OPERATION.sentence["products"])
TREE_FEATURES = sum(map(len, (_NUMBERS, *_MODULI.values(), _TWOS, _MAGNITUDES, _WORDS, _FACTS)))


@dataclass(frozen=True, eq=False)
class ParameterClassifier:
    """A classifier of one parameter's values, in the order of the values that training has seen."""

    seen: NDArray[np.int64]  # (class,) indices of those values, ascending
    trees: Forest | None  # None if there is only one class

    @classmethod
    def fit(cls, rows: Floats, indices: NDArray[Any], boosting: Boosting) -> ParameterClassifier:
        """Fit a classifier to the indices (row,) of the values that rows (row, feature) have."""
        seen, wanted = np.unique(indices, return_inverse=True)
        classes = {"num_class": len(seen), "base_score": 0.5}
        return cls(seen.astype(np.int64), None if len(seen) == 1 else Forest.of(
            replace(boosting, objective="multi:softprob", more=classes).grow(rows, wanted), len(seen)))

    def logs(self, rows: Floats, values: int) -> Floats:
        """The log-probabilities of all values of the parameter for rows (row, feature): (row, value)."""
        margins = np.zeros((len(rows), 1)) if self.trees is None else self.trees.margins(rows)
        margins = np.ascontiguousarray(margins, np.float64)  # in another order, sums differ
        margins -= margins.max(axis=1, keepdims=True)
        result = np.full((len(rows), values), UNSEEN, np.float32)
        result[:, self.seen] = np.maximum(margins - np.log(np.exp(margins).sum(axis=1, keepdims=True)), UNSEEN)
        return result


@dataclass(frozen=True, eq=False)
class Chain:
    """The classifiers of one kernel's parameters, in their order."""

    kernel: Kernel
    classifiers: tuple[ParameterClassifier, ...]
    member: int | None = None

    @classmethod
    def fit(cls, group: Sequence[Labels], boosting: Boosting) -> list[Chain]:
        """Fit a chain for each kernel of a group to labels whose values are all known."""
        kernel, members = group[0].kernel, range(len(group)) if len(group) > 1 else [None]
        columns = np.concatenate([_with_member(tree_columns(labels.pairs()), member)
                                  for labels, member in zip(group, members, strict=True)])
        indices = np.concatenate([labels.value_indices for labels in group])
        classifiers = tuple(ParameterClassifier.fit(with_values(columns, kernel, indices[:, :column]), chosen, boosting)
                            for column, chosen in enumerate(indices.T))
        return [cls(labels.kernel, classifiers, member) for labels, member in zip(group, members, strict=True)]

    def logs(self, columns: Floats, before: NDArray[Any]) -> Floats:
        """The log-probabilities of the next parameter's values after the values with indices `before` (row, parameter),
        for queries with features `columns`: (row, value)."""
        rows = with_values(_with_member(columns, self.member), self.kernel, before)
        return self.classifiers[before.shape[1]].logs(rows, len(self.kernel.parameters[before.shape[1]].values))


Chains = dict[tuple[str, str], Chain]  # by the names of device (or ANY) and kernel


def grow(labels: Sequence[Labels], threads: int = 2, seed: int = 0) -> Chains:
    """Fit chains to the labels of several kernels, whose values must all be known.

    A kernel has a chain for each device; one with few labels, or many values, has one for ANY.
    """
    from seqtune.tuner.cost_models.boosting import Boosting

    groups: dict[object, list[Labels]] = {}
    for own in filter(len, labels):
        groups.setdefault(own.kernel.parameters if len(own) < SMALL else own.kernel.name, []).append(own)
    # 225 rounds, or deeper trees, gain nothing; 150 gain 0.01, and a checkpoint is larger
    usual = Boosting("", rounds=90, depth=6, rate=0.11, columns=0.55, threads=threads, seed=seed)
    shallow = replace(usual, rounds=50, depth=4, rate=0.15)
    chains: Chains = {}
    for group in groups.values():
        first = group[0]
        is_wide = max(len(np.unique(column)) for column in first.value_indices.T) > WIDE
        if is_wide or len(first) < SMALL:
            chains |= {(ANY, own.kernel.name): own for own in Chain.fit(group, shallow if is_wide else usual)}
        else:
            chains |= {(device, first.kernel.name): Chain.fit([part], usual)[0]
                       for device, part in first.by_device().items()}
    return chains


def _with_member(columns: Floats, member: int | None) -> Floats:
    return columns if member is None else np.column_stack([columns, np.full(len(columns), member, np.float32)])


def with_values(columns: Floats, kernel: Kernel, indices: NDArray[Any]) -> Floats:
    """Append the values of the first parameters, given as indices (row, parameter), to the features of queries."""
    values = [_numbers(parameter)[chosen] for parameter, chosen in zip(kernel.parameters, indices.T, strict=False)]
    return np.column_stack([columns, *values])


@lru_cache(maxsize=1024)
def _numbers(parameter: Parameter) -> Floats:
    """The values of a parameter as numbers, (value,); words are numbered in their order."""
    return np.array(parameter.values if parameter.is_numeric else range(len(parameter.values)), np.float32)


def tree_columns(pairs: Sequence[Pair]) -> Floats:
    """The features of queries, (query, feature): facts as in MIOpen's keys; words as numbers, unknown numbers as -1."""
    facts = fact_columns(pairs)

    def known(names: Sequence[str], change: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[np.float64]:
        """Changed facts (name, query); -1 for unknown ones."""
        values = np.array([facts[name] for name in names])
        return np.where(np.isnan(values), -1, change(values))

    divided = [(name, modulus) for name, moduli in _MODULI.items() for modulus in moduli]
    divisors = np.array([modulus for _, modulus in divided], np.float64)[:, None]
    whole = np.nan_to_num(np.array([facts[name] for name in _TWOS])).astype(np.int64)
    words = [[float(OPERATION.by_name[name].choices.index(text)) for text in facts[name].tolist()] for name in _WORDS]
    columns = [
        known(_NUMBERS, lambda values: values), known([name for name, _ in divided], lambda values: values % divisors),
        np.log2(np.minimum(whole & -whole, 1 << 10) + (whole == 0)),  # how often two divides, at most ten times
        known(_MAGNITUDES, lambda values: np.log2(np.maximum(values, 2.0**-20))), np.array(words),
        np.nan_to_num(np.array([facts[name] for name in _FACTS]))]
    return np.ascontiguousarray(np.concatenate(columns).T, np.float32)
