"""CTrees: the boosted trees of a checkpoint in C, with the features of a configuration that they read.

A forest is written as its splits, sorted by feature and threshold, and a string for each tree: its nodes from the root
on, each followed by its left subtree and then its right one. A node has three digits of base 92: below LEAVES the value
of a leaf in 16 bits; else the split and the size of the left subtree. A threshold has five digits, so nothing is
rounded.
`runtime/trees.c` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from seqtune.tuner.cost_models.encoding import declared_words, fact_names, word_code
from seqtune.tuner.cost_models.features import (
    MOST_THREADS,
    REGISTERS,
    TASKS,
    FeatureList,
    parameter_kinds,
    working_sets,
)
from seqtune.tuner.cost_models.machine_ratios import CACHES, RATIOS
from seqtune.tuner.cost_models.product_tiles import describes_tiles

from ..trees.forest import Forest
from ..trees.ranker import Ranker
from .kernel import CKernel
from .library import CLibrary
from .names import RATE_FACTS, NameTable, OperationNames
from .weights import BASE, digits, string_literal, whole_numbers

MOST_NODES = 2_000_000  # of a file: 6 MB; of larger ensembles the first forests of each kernel are written
LEAVES = 1 << 16  # codes of leaves: 16 bits
SUBTREES = 64  # sizes of a left subtree, which are odd: trees have a depth of at most seven
_IN_STRING = 800  # thresholds in one string literal
# Kinds of columns, as `sq_read_column` knows them
(_VALUE, _INDEX, _WORD, _PADDED, _TILES, _FEATURE, _CHOICE, _SHARE, _TASK, _RATIO, _THREADS, _UNKNOWN) = range(12)

Column = tuple[int, int, int]  # a kind and two numbers, such as a slot


def ranker_in_c(ranker: Ranker, kernels: Sequence[CKernel]) -> Ranker | None:
    """The part of a ranker that C can hold: the forests of these kernels, as many of each as MOST_NODES allow.

    Kernels whose features have no form in C are left out: the terms of the analytic model, and words that the
    declaration does not name, such as one of the device. None if no kernel remains.
    """
    forests = {kernel.kernel.name: ranker.forests[kernel.kernel.name] for kernel in kernels
               if kernel.kernel.name in ranker.forests and not describes_tiles(kernel.kernel)
               and not _has_other_words(kernel) and all(map(_fits, ranker.forests[kernel.kernel.name]))}
    count = max(map(len, forests.values()), default=0)
    while count > 1 and sum(len(forest.value) for several in forests.values() for forest in several[:count]
                            ) > MOST_NODES:
        count -= 1
    return replace(ranker, features={name: ranker.features[name] for name in forests},
                   forests={name: several[:count] for name, several in forests.items()}) if forests else None


def _fits(forest: Forest) -> bool:
    largest = int(np.diff(np.append(forest.roots, len(forest.value))).max())
    return LEAVES + len(_splits(forest)[0]) * SUBTREES <= BASE**3 and largest < 2 * SUBTREES + 2


def _has_other_words(kernel: CKernel) -> bool:
    words = declared_words(kernel.kernel)
    return any(kernel.table.names[name].kind == "w" and name not in words for name, _ in kernel.kernel.derived)


@dataclass
class CTrees:
    """The trees of some kernels, and what C needs to know of the features."""

    lines: list[str] = field(default_factory=list)
    columns: int = 1  # of the kernel that has most
    splits: int = 1  # of the largest forest

    @classmethod
    def of(cls, ranker: Ranker, library: CLibrary) -> CTrees:
        """Write the trees of kernels; of those that the ranker does not know, none."""
        trees, entries, declared, device = cls(), [], list[int](), library.device
        for kernel in library.kernels:
            forests = ranker.forests.get(kernel.kernel.name, ())
            entries.append(f"{{sq_columns_{kernel.number}, sq_forests_{kernel.number}}}" if forests else "{0, 0}")
            if forests:
                columns = _columns(kernel, library.works[kernel.kernel.operation], device, ranker.listed,
                                   declared)
                assert len(columns) == ranker.features[kernel.kernel.name]
                trees._add(kernel.number, columns, forests)
        trees.lines += [whole_numbers("int64_t", "sq_declared", [*declared, -2]),
                        whole_numbers("uint16_t", "sq_word_codes", list(map(word_code, library.words.numbers)))]
        trees.lines.append(f"static const sq_trees sq_kernel_trees[] = {{{', '.join(entries)}}};")
        return trees

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that C code needs as constants, by their names without the prefix."""
        return {"TREES": int(bool(self.lines)), "COLUMNS": self.columns, "SPLITS": self.splits,
                "MOST_THREADS": MOST_THREADS, "PEAK_MICROSECONDS": RATIOS.index("peak_microseconds")}

    def _add(self, number: int, columns: Sequence[Column], forests: Sequence[Forest]) -> None:
        self.columns = max(self.columns, len(columns))
        listed = ",".join(f"{{{kind},{first},{second}}}" for kind, first, second in (*columns, (-1, 0, 0)))
        self.lines.append(f"static const sq_column sq_columns_{number}[] = {{{listed}}};")
        entries = []
        for index, forest in enumerate(forests):
            name = f"{number}_{index}"
            features, thresholds, numbers = _splits(forest)
            self.splits = max(self.splits, len(features))
            rows = []
            for feature in np.unique(features).tolist():
                written = digits(thresholds[features == feature].view(np.uint32).astype(np.int64), 5)
                rows += [f"{{{feature}, {len(part)}, {string_literal(part)}}}" for part
                         in (written[begin:begin + _IN_STRING] for begin in range(0, len(written), _IN_STRING))]
            self.lines.append(f"static const sq_split sq_splits_{name}[] = {{\n" + ",\n".join([*rows, "{0, 0, 0}"])
                              + "\n};")
            nodes = [string_literal(digits(codes, 3)) for codes in _tree_codes(forest, numbers)]
            self.lines.append(f"static const char *const sq_trees_{name}[] = {{\n" + ",\n".join([*nodes, "0"]) + "\n};")
            entries.append(f"{{sq_splits_{name}, sq_trees_{name}}}")
        self.lines.append(f"static const sq_forest sq_forests_{number}[] = {{{', '.join([*entries, '{0, 0}'])}}};")


def _splits(forest: Forest) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """The features and thresholds of the distinct splits, (split,), and the split of each node, (node,)."""
    inner = forest.left > 0
    keys = np.empty(int(inner.sum()), [("feature", np.int64), ("threshold", np.float32)])
    keys["feature"], keys["threshold"] = forest.feature[inner], forest.value[inner] + np.float32(0)  # no -0
    distinct, inverse = np.unique(keys, return_inverse=True)
    numbers = np.zeros(len(inner), np.int64)
    numbers[inner] = inverse.ravel()
    return distinct["feature"].copy(), distinct["threshold"].copy(), numbers


def _tree_codes(forest: Forest, splits: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The codes of the nodes of each tree in the order in which they are written."""
    left = forest.left.tolist()
    halves = np.where(forest.left > 0, 0, forest.value).astype(np.float16).view(np.uint16).tolist()
    numbers, trees = splits.tolist(), []
    for root in forest.roots.tolist():
        codes: list[int] = []

        def write(node: int, root: int = root, codes: list[int] = codes) -> int:
            """Write a subtree and return its number of nodes."""
            at = root + node
            if not left[at]:
                codes.append(halves[at])
                return 1
            own = len(codes)
            codes.append(0)
            first = write(left[at])
            codes[own] = LEAVES + numbers[at] * SUBTREES + first // 2
            return 1 + first + write(left[at] + 1)

        write(0)
        trees.append(np.array(codes, np.int64))
    return trees


def _columns(kernel: CKernel, work: OperationNames, device: NameTable, listed: FeatureList,
             declared: list[int]) -> list[Column]:
    """The columns of a kernel's features in their order; `declared` gets the possible words of derived quantities."""
    table, family, kinds, words = kernel.table, kernel.kernel, parameter_kinds(kernel.kernel), declared_words(
        kernel.kernel)
    columns = [(_INDEX, column, 0) if kind == "word" else (_VALUE, source(table, parameter.name), 0)
               for column, (parameter, kind) in enumerate(zip(family.parameters, kinds, strict=True))]
    for name, _ in family.derived:
        if name in words:
            columns.append((_WORD, table.number[name], len(declared)))
            declared += [*map(table.words.number, words[name]), -2]
        else:
            columns.append((_VALUE, source(table, name), 0))
    lengths = [source(table, parameter.name) for parameter, kind in zip(family.parameters, kinds, strict=True)
               if kind == "length"]
    for size in work.operation.tiled_sizes:
        if size in work.listed and work.table.names[size].kind == "i":
            columns += [(kind, work.table.number[size], length) for length in lengths for kind in (_PADDED, _TILES)]
        else:
            columns += [(_UNKNOWN, 0, 0)] * (2 * len(lengths))
    for name in work.listed:
        is_word = work.table.names[name].kind == "w"
        columns.append((_CHOICE, work.table.number[name], 0) if is_word
                       else (_FEATURE, source(work.table, name), work.table.number[name]))
    if listed != "ratios":
        return columns + [(_VALUE, source(device, f"device.{name}" if name in RATE_FACTS else name), 0)
                          for name in fact_names("vector_floats")]
    return columns + _ratios(kernel, device)


def _ratios(kernel: CKernel, device: NameTable) -> list[Column]:
    """The columns of what a configuration needs, divided by what the device has."""
    table, family = kernel.table, kernel.kernel
    numeric = {name: table.names[name].kind != "w" for name in (*family.by_name, *(name for name, _ in family.derived))}
    shares = [(name, f"{cache}_bytes") for name in working_sets(family) for cache in CACHES]
    shares += [(name, "vector_registers") for name in REGISTERS if name in numeric]
    columns = [(_SHARE, source(table, name), device.number[fact]) if numeric.get(name) else (_UNKNOWN, 0, 0)
               for name, fact in (*shares, ("vector", "vector_floats"))]
    tasks = [name for name in TASKS if numeric.get(name)]
    columns.append((_TASK, source(table, tasks[0]), 0) if tasks else (_UNKNOWN, 0, 0))
    columns += [(_RATIO, number, 0) for number in range(len(RATIOS))]
    return [*columns, (_THREADS, device.number["threads"], 0), (_VALUE, source(device, "vector_floats"), 0),
            (_VALUE, source(device, "vector_registers"), 0)]


def source(table: NameTable, name: str) -> int:
    """The place of a number: twice its slot, plus one if it is a double there."""
    known = table.names[name]
    return 2 * table.number[name] + int(known.kind == "d" or bool(known.wide))
