"""Forest: boosted trees as plain arrays, so that a checkpoint can hold them.

A node with a positive `left` is an inner node: rows whose feature is below `value` go to node `left`, others to
`left + 1`. Any other node is a leaf, and `value` is the tree's prediction with 11 significant bits. Tree t belongs to
class t % classes. A file has four bytes for each node: the feature, `left`, and 16 bits that are the value of a leaf or
the index of a threshold.
How rows go down the trees is compiled for this CPU on the first call. The predictions of a row's trees are added in the
order of the trees, whatever other rows there are.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, load_file

from seqtune.errors import CheckpointError
from seqtune.kernels.llvm.text.writer import Writer, declarations
from seqtune.tuner.backends.llvm.compiled import Functions, address, compiled

Floats = NDArray[np.float32]
WORST = 2.5  # larger log ratios of times count as this: differences among slow configurations do not matter
MAX_NODES = 50_000_000
LARGEST_FILE = 500_000_000  # bytes
MAX_DEPTH = 64
UNREADABLE = (AttributeError, KeyError, TypeError)  # raised by safetensors for types that NumPy lacks
# Of an inner node: its threshold, its left child (counted from the tree's first node; the right one follows it) and its
# feature (counted from 1). A leaf has its value, is its own left child, and has feature 0.
NODE = np.dtype([("value", np.float32), ("left", np.uint16), ("feature", np.uint16)])
Nodes = NDArray[np.void]  # (node,) of NODE
BLOCK = 64  # rows that descend a tree together while its nodes are in the first-level cache
_LINE = 64  # bytes of a cache line
_SIGNATURES = {"descend": "ptr %x, i64 %rows, i64 %features, ptr %nodes, ptr %roots, i64 %trees, i64 %depth, "
                          "i64 %classes, ptr %y"}


@dataclass(frozen=True, eq=False)
class Forest:
    """The nodes of all trees, one tree after the other; `left` counts from the first node of its tree."""

    classes: int
    roots: NDArray[np.int32]  # (tree,) index of the first node
    feature: NDArray[np.uint8]  # (node,)
    value: Floats  # (node,) threshold, or the prediction of a leaf
    left: NDArray[np.uint16]  # (node,) 0 at a leaf

    @cached_property
    def _descent(self) -> tuple[Nodes, NDArray[np.int64], int]:
        """The nodes and roots as `add_trees` reads them, and the depth: the most steps from a root to a leaf."""
        index = np.arange(len(self.value), dtype=np.int64)
        roots = np.append(self.roots, len(index)).astype(np.int64)
        tree, inner = np.repeat(roots[:-1], np.diff(roots)), self.left > 0
        nodes = np.empty(len(index), NODE)
        nodes["value"], nodes["left"] = self.value, np.where(inner, self.left, index - tree)
        nodes["feature"] = np.where(inner, self.feature.astype(np.uint16) + 1, 0)
        depth, level = 0, roots[:-1]
        while depth < MAX_DEPTH and len(level := level[inner[level]]):
            depth += 1
            left = tree[level] + self.left[level]
            level = distinct(len(index), left, left + 1)
        return nodes, roots, depth

    @classmethod
    def of(cls, booster: Any, classes: int) -> Forest:
        """Convert an xgboost Booster, trained without categories and without missing values."""
        model = json.loads(bytes(booster.save_raw("json")))
        roots, parts = [0], []
        for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
            parts.append(_tree(tree))
            roots.append(roots[-1] + len(parts[-1][0]))
        feature, value, left = (np.concatenate(column) for column in zip(*parts, strict=True))
        value[left == 0] = value[left == 0].astype(np.float16)
        return cls(classes, np.array(roots[:-1], np.int32), feature, value, left)

    @cached_property
    def _features(self) -> int:
        """The number of features that the nodes name: compiled code reads them without a check."""
        return int(self.feature.max()) + 1

    def margins(self, rows: Floats) -> Floats:
        """Score rows (row, feature): (row, class), before the softmax and up to a constant in each row."""
        assert rows.shape[1] >= self._features, f"{rows.shape[1]} features, and the trees read {self._features}"
        return add_trees(rows, *self._descent, self.classes)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays for `read`. Trees must have a depth of at most seven."""
        inner = self.left > 0
        thresholds, numbers = np.unique(self.value[inner], return_inverse=True)
        assert self.left.max() < 1 << 8  # the types in a file hold no more
        assert len(thresholds) <= 1 << 16
        coded = np.where(inner, 0, self.value).astype(np.float16).view(np.uint16)
        coded[inner] = numbers
        return {"roots": self.roots, "feature": self.feature, "coded": coded, "left": self.left.astype(np.uint8),
                "thresholds": thresholds}

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]], classes: int, features: int) -> Forest:
        """Check arrays and make a forest. Raises CheckpointError unless they are trees over `features` columns."""
        wanted = {"roots": np.int32, "feature": np.uint8, "coded": np.uint16, "left": np.uint8,
                  "thresholds": np.float32}
        if set(arrays) != set(wanted) or any(arrays[name].dtype != kind or arrays[name].ndim != 1
                                             for name, kind in wanted.items()):
            raise CheckpointError(f"its trees are not the arrays {', '.join(wanted)} of their types")
        coded, left, thresholds = arrays["coded"], arrays["left"].astype(np.uint16), arrays["thresholds"]
        inner = left > 0
        if len(coded) != len(left) or (inner.any() and int(coded[inner].max()) >= len(thresholds)):
            raise CheckpointError("its tree arrays are inconsistent (threshold index out of range)")
        value = coded.view(np.float16).astype(np.float32)
        value[inner] = thresholds[coded[inner]]
        forest = cls(classes, arrays["roots"], arrays["feature"], value, left)
        nodes, trees = len(forest.value), len(forest.roots)
        sound = 0 < nodes <= MAX_NODES and {len(forest.feature), len(forest.left)} == {nodes} and trees > 0
        sound = sound and classes > 0 and trees % classes == 0 and forest.roots[0] == 0
        sound = sound and bool((np.diff(forest.roots) > 0).all()) and int(forest.roots[-1]) < nodes
        sound = sound and bool(np.isfinite(forest.value).all()) and int(forest.feature.max()) < features
        if sound:  # children follow their parents within the tree, so every descent ends
            sizes = np.diff(np.append(forest.roots, nodes))
            tree = np.repeat(np.arange(trees), sizes)
            index, size = np.arange(nodes) - forest.roots[tree], sizes[tree]
            sound = bool(((forest.left > index) & (forest.left + 1 < size))[inner].all())
        if not sound:
            raise CheckpointError("its tree arrays are inconsistent (a child, feature, root or value is out of range)")
        return forest


def distinct(count: int, *indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct ones of indices below `count`, ascending: for many indices far quicker than sorting."""
    present = np.zeros(count, np.bool_)
    for part in indices:
        present[part] = True
    return np.flatnonzero(present)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a safetensors file of trees. Raises CheckpointError."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes, more than any checkpoint's trees")
        return of_numpy(load_file(path))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} is no checkpoint: {path.name} is missing") from None
    except (SafetensorError, OSError, ValueError, *UNREADABLE) as error:
        raise CheckpointError(f"{path} is no safetensors file ({error!s:.100}); nothing else is read") from None


def read_packed(path: Path, most: int = LARGEST_FILE) -> dict[str, NDArray[Any]]:
    """Read the arrays of a compressed safetensors file, of at most `most` bytes unpacked. Raises CheckpointError."""
    try:
        if path.stat().st_size > most:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes, more than any checkpoint's trees")
        packed = zlib.decompressobj()
        content = packed.decompress(path.read_bytes(), most)
        if packed.unconsumed_tail:
            raise CheckpointError(f"{path} unpacks to more than {most} bytes, more than any checkpoint's trees")
        return of_numpy(load(content))
    except (SafetensorError, OSError, ValueError, *UNREADABLE, zlib.error) as error:
        raise CheckpointError(f"{path} is no compressed safetensors file ({error!s:.100})") from None


def of_numpy(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays themselves. Raises TypeError for numbers that are not NumPy's own, such as bfloat16.

    Whether safetensors reads those depends on the packages that the process has imported.
    """
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise TypeError(f"{name:.40} is of type {array.dtype}")
    return arrays


def read_forest(path: Path, arrays: Mapping[str, NDArray[Any]], prefix: str, classes: int, features: int) -> Forest:
    """Make the forest from those arrays of a file whose names begin with `prefix`.

    Raises CheckpointError with the file's name.
    """
    parts = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    try:
        return Forest.read(parts, classes, features)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _tree(tree: Mapping[str, Any]) -> tuple[NDArray[np.uint8], Floats, NDArray[np.uint16]]:
    """The features, values and left children of a tree's nodes in breadth-first order: siblings are adjacent."""
    left, right = tree["left_children"], tree["right_children"]
    order, index = [0], 0
    first: dict[int, int] = {}
    while index < len(order):
        node = order[index]
        index += 1
        if left[node] >= 0:
            first[node] = len(order)
            order += [left[node], right[node]]
    feature = np.array([tree["split_indices"][node] for node in order], np.uint8)
    value = np.array([tree["split_conditions"][node] for node in order], np.float32)
    return feature, value, np.array([first.get(node, 0) for node in order], np.uint16)


def add_trees(rows: NDArray[np.float32], nodes: Nodes, roots: NDArray[np.int64], depth: int, classes: int
              ) -> NDArray[np.float32]:
    """The sums of what the trees predict for rows (row, feature): (row, class); tree t is of class t % classes.

    A row goes to the right child where its feature is at least the threshold. `roots` has the first node of each tree,
    then the number of nodes; `depth` is the most steps from a root to a leaf.
    """
    padded = np.empty((len(rows), rows.shape[1] + 1), np.float32)
    padded[:, 0] = -np.inf  # below every value, so that a row stays at a leaf
    padded[:, 1:] = rows
    sums, trees = np.zeros((len(rows), classes), np.float32), len(roots) - 1
    _functions()["descend"](address(padded), *padded.shape, address(nodes), address(roots), trees, depth,
                            classes, address(sums))
    return sums


@cache
def _functions() -> Functions:
    return compiled(_text, _SIGNATURES)


def _text(bits: int) -> str:
    """The module, which has no vectors."""
    write = Writer()
    steps = write.i64("umax", "%depth", 1)  # `repeat` runs at least once, which changes nothing at a leaf

    def root(tree: str) -> str:
        index = write.let(f"load i64, ptr {write.at('%roots', tree, 'i64')}, align 8")
        return write.at("%nodes", index, "i64")

    with write.loop(0, "%rows", BLOCK) as first:
        end = write.i64("smin", write.add(first, BLOCK), "%rows")
        with write.loop(0, "%trees") as tree:
            nodes, following = root(tree), root(write.add(tree, 1))
            later = root(write.i64("umin", write.add(tree, 2), "%trees"))
            size = write.i64("sub", *(write.let(f"ptrtoint ptr {pointer} to i64") for pointer in (later, following)))
            with write.loop(0, size, _LINE) as byte:  # each step waits for the memory of the one before
                write.do(f"call void @llvm.prefetch.p0(ptr {write.at(following, byte, 'i8')}, i32 0, i32 3, i32 1)")
            of_class = write.i64("urem", tree, "%classes")
            with write.loop(first, end) as row:
                x = write.at("%x", write.mul(row, "%features"))

                def step(carried: list[str]) -> list[str]:
                    node = write.at(nodes, carried[0], "i64")
                    threshold = write.load("float", node)
                    left, feature = (write.let(f"zext i16 {number} to i64") for number in (
                        write.let(f"load i16, ptr {write.at(node, part, 'i16')}, align 2") for part in (2, 3)))
                    value = write.load("float", write.at(x, feature))
                    right = write.let(f"zext i1 {write.let(f'fcmp oge float {value}, {threshold}')} to i64")
                    return [write.add(left, right)]

                leaf = write.repeat(steps, [("i64", "0")], step)[0]
                to = write.at("%y", write.add(write.mul(row, "%classes"), of_class))
                total = write.let(f"fadd float {write.load('float', to)}, "
                                  f"{write.load('float', write.at(nodes, leaf, 'i64'))}")
                write.store("float", total, to)
    function = write.function(f"void @descend({_SIGNATURES['descend']})")
    return f"{declarations()}\ndeclare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n{function}"
