"""Forest: boosted trees as plain arrays, evaluated with NumPy, so that a checkpoint can hold them.

A node is inner where `left` is positive: rows whose feature is below `value` go to `left`, others to `left + 1`. Else
it is a leaf, and `value` is what the tree says, to 11 bits. Tree t speaks for class t % classes.
A file keeps four bytes per node: its feature, `left`, and 16 bits that are a leaf's value or number a threshold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from seqtune.errors import CheckpointError

Floats = NDArray[np.float32]
MOST_NODES = 50_000_000
LARGEST_FILE = 500_000_000  # bytes
DEEPEST = 64
UNREADABLE = (AttributeError, KeyError, TypeError)  # what safetensors raises for types that NumPy lacks


@dataclass(frozen=True, eq=False)
class Forest:
    """Node arrays of all trees one after the other; `left` counts from the tree's own first node."""

    classes: int
    roots: NDArray[np.int32]  # (tree,) first node
    feature: NDArray[np.uint8]  # (node,)
    value: Floats  # (node,) threshold or leaf
    left: NDArray[np.uint16]  # (node,) 0 at a leaf

    @cached_property
    def _descent(self) -> tuple[NDArray[np.int32], Floats]:
        """Per node the left one of its two heirs and the threshold from which on it's the other; a leaf is its own heir
        from NaN on, so never."""
        place = np.arange(len(self.value), dtype=np.int32)
        tree = np.repeat(self.roots, np.diff(np.append(self.roots, len(place))))
        inner = self.left > 0
        return (np.where(inner, tree + self.left.astype(np.int32), place),
                np.where(inner, self.value, np.float32(np.nan)))

    @classmethod
    def of(cls, booster: Any, classes: int) -> Forest:
        """From an xgboost Booster without categories, trained on columns without missing values."""
        model = json.loads(bytes(booster.save_raw("json")))
        roots, parts = [0], []
        for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
            parts.append(_tree(tree))
            roots.append(roots[-1] + len(parts[-1][0]))
        feature, value, left = (np.concatenate(column) for column in zip(*parts, strict=True))
        value[left == 0] = value[left == 0].astype(np.float16)
        return cls(classes, np.array(roots[:-1], np.int32), feature, value, left)

    def margins(self, rows: Floats) -> Floats:
        """(row, feature) -> (row, class): scores before the softmax, up to a constant per row."""
        following, threshold = self._descent
        values = np.ascontiguousarray(rows).ravel()
        first = np.arange(len(rows))[:, None] * rows.shape[1]  # place of a row's first value
        node = np.broadcast_to(self.roots.astype(np.int64), (len(rows), len(self.roots)))
        for _ in range(DEEPEST):
            before, node = node, np.add(following[node], values[first + self.feature[node]] >= threshold[node],
                                        dtype=np.int64)
            if np.array_equal(before, node):
                break
        found: Floats = self.value[node].reshape(len(rows), -1, self.classes).sum(axis=1)
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `read` reads. Trees are at most seven deep."""
        inner = self.left > 0
        thresholds, numbers = np.unique(self.value[inner], return_inverse=True)
        assert self.left.max() < 1 << 8  # what a file's types hold
        assert len(thresholds) <= 1 << 16
        coded = np.where(inner, 0, self.value).astype(np.float16).view(np.uint16)
        coded[inner] = numbers
        return {"roots": self.roots, "feature": self.feature, "coded": coded, "left": self.left.astype(np.uint8),
                "thresholds": thresholds}

    @classmethod
    def read(cls, found: Mapping[str, NDArray[Any]], classes: int, features: int) -> Forest:
        """From foreign arrays. Raises CheckpointError where they are no trees over so many features."""
        wanted = {"roots": np.int32, "feature": np.uint8, "coded": np.uint16, "left": np.uint8,
                  "thresholds": np.float32}
        if set(found) != set(wanted) or any(found[name].dtype != kind or found[name].ndim != 1
                                            for name, kind in wanted.items()):
            raise CheckpointError("its trees are not the arrays that trees need")
        coded, left, thresholds = found["coded"], found["left"].astype(np.uint16), found["thresholds"]
        inner = left > 0
        if len(coded) != len(left) or (inner.any() and int(coded[inner].max()) >= len(thresholds)):
            raise CheckpointError("its trees are no trees")
        value = coded.view(np.float16).astype(np.float32)
        value[inner] = thresholds[coded[inner]]
        forest = cls(classes, found["roots"], found["feature"], value, left)
        nodes, trees = len(forest.value), len(forest.roots)
        sound = 0 < nodes <= MOST_NODES and {len(forest.feature), len(forest.left)} == {nodes} and trees > 0
        sound = sound and classes > 0 and trees % classes == 0 and forest.roots[0] == 0
        sound = sound and bool((np.diff(forest.roots) > 0).all()) and int(forest.roots[-1]) < nodes
        sound = sound and bool(np.isfinite(forest.value).all()) and int(forest.feature.max()) < features
        if sound:  # children follow their parents within the tree, so every descent ends
            sizes = np.diff(np.append(forest.roots, nodes))
            tree = np.repeat(np.arange(trees), sizes)
            place, size = np.arange(nodes) - forest.roots[tree], sizes[tree]
            sound = bool(((forest.left > place) & (forest.left + 1 < size))[inner].all())
        if not sound:
            raise CheckpointError("its trees are no trees")
        return forest


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Those of a safetensors file of trees. Raises CheckpointError."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise CheckpointError(f"{path} has {path.stat().st_size} bytes, more than any checkpoint's trees")
        return load_file(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} is no checkpoint: {path.name} is missing") from None
    except (SafetensorError, OSError, ValueError, *UNREADABLE) as error:
        raise CheckpointError(f"{path} is no safetensors file ({error!s:.100}); nothing else is read") from None


def read_forest(path: Path, arrays: Mapping[str, NDArray[Any]], prefix: str, classes: int, features: int) -> Forest:
    """The Forest whose arrays' names begin so among a file's. Raises CheckpointError, naming the file."""
    mine = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
    try:
        return Forest.read(mine, classes, features)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _tree(tree: Mapping[str, Any]) -> tuple[NDArray[np.uint8], Floats, NDArray[np.uint16]]:
    """Nodes in breadth-first order, so that siblings lie side by side."""
    left, right = tree["left_children"], tree["right_children"]
    order, place = [0], 0
    first: dict[int, int] = {}
    while place < len(order):
        node = order[place]
        place += 1
        if left[node] >= 0:
            first[node] = len(order)
            order += [left[node], right[node]]
    feature = np.array([tree["split_indices"][node] for node in order], np.uint8)
    value = np.array([tree["split_conditions"][node] for node in order], np.float32)
    return feature, value, np.array([first.get(node, 0) for node in order], np.uint16)
