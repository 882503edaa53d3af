"""Baselines that look labels up: the most frequent labels of the device, and those of the most similar problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from seqtune.integrations.miopen.predictor.chains import Floats
from seqtune.integrations.miopen.predictor.labels import Labels, Queries
from seqtune.integrations.miopen.predictor.learning import ValueIndices
from seqtune.integrations.miopen.predictor.source_columns import fact_columns
from seqtune.kernels.operations.convnd import OPERATION

from .validity import device_rows

_Group = tuple[str, str]  # names of device and kernel
_SIZED = ("batch", "read channels", "written channels", "read image", "written image", "filter")
_NEAR = tuple(name for position in _SIZED for name in OPERATION.sentence[position])


def _by_device(fitting: Mapping[str, Labels]) -> dict[_Group, Labels]:
    """The labels of each kernel by device."""
    return {(device, name): part for name, own in fitting.items() for device, part in own.by_device().items()}


class Majority:
    """Predicts the most frequent labels of the device and kernel."""

    def __init__(self, fitting: Mapping[str, Labels]) -> None:
        self._counts: dict[_Group, Counter[tuple[int, ...]]] = {
            group: Counter(map(tuple, labels.value_indices.tolist())) for group, labels in _by_device(fitting).items()}

    def propose(self, labels: Labels, count: int) -> ValueIndices:
        """Propose `count` labels for each."""
        proposed = np.full((len(labels), count, labels.value_indices.shape[1]), -1, np.int16)
        for device, rows in device_rows(labels).items():
            counts = self._counts.get((device, labels.kernel.name), Counter())
            for rank, (label, _) in enumerate(counts.most_common(count)):
                proposed[rows, rank] = label
        return proposed


class NearestLabels:
    """Predicts the labels of the nearest problems on the same device.

    The distance is the sum of squared differences of log sizes, each divided by its standard deviation. Problems with
    another direction, data type or layout come after all others.
    """

    block = 512  # labels compared at once
    word_distance = 1e6  # added to the squared distance for another direction, data type or layout

    def __init__(self, fitting: Mapping[str, Labels]) -> None:
        self._groups = {}
        for group, labels in _by_device(fitting).items():
            points = plain_columns(labels)
            scale = points.std(axis=0)
            scale[scale == 0] = 1.0
            self._groups[group] = (points / scale, scale, _words(labels), labels.value_indices)

    def _neighbours(self, labels: Labels, device: str, rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """The row numbers of the nearest training labels on the device, nearest first: (row, min(most, labels))."""
        points, scale, words, _ = self._groups[device, labels.kernel.name]
        part = labels.take(rows)
        queries, query_words = plain_columns(part) / scale, _words(part)
        square = (points**2).sum(axis=1)
        neighbours = []
        for begin in range(0, len(rows), self.block):
            block = queries[begin:begin + self.block]
            distance = square - 2 * block @ points.T + (block**2).sum(axis=1, keepdims=True)
            distance += self.word_distance * (query_words[begin:begin + self.block, None] != words[None])
            near = np.argpartition(distance, min(most, len(points)) - 1, axis=1)[:, :most]
            order = np.argsort(np.take_along_axis(distance, near, axis=1), axis=1, kind="stable")
            neighbours.append(np.take_along_axis(near, order, axis=1))
        return np.concatenate(neighbours)

    def propose(self, labels: Labels, count: int) -> ValueIndices:
        """Propose the labels of `count` near problems for each."""
        proposed = np.full((len(labels), count, labels.value_indices.shape[1]), -1, np.int16)
        for device, rows in device_rows(labels).items():
            if (device, labels.kernel.name) not in self._groups:
                continue
            training = self._groups[device, labels.kernel.name][3]
            for row, near in zip(rows, self._neighbours(labels, device, rows, 4 * count), strict=True):
                distinct = list(dict.fromkeys(map(tuple, training[near].tolist())))[:count]
                proposed[row, :len(distinct)] = distinct
        return proposed


def plain_columns(queries: Queries) -> Floats:
    """Logarithms of the sizes of queries, (query, feature), from which the distance of problems is computed."""
    facts = fact_columns(queries.pairs())
    return np.stack([np.log2(np.nan_to_num(facts[name]) + 1) for name in _NEAR], axis=1).astype(np.float32)


def _words(labels: Labels) -> NDArray[np.int64]:
    """Encode the direction, data type and layout of each label as one number, (label,)."""
    facts, number = fact_columns(labels.pairs()), np.zeros(len(labels), np.int64)
    for name in ("direction", "dtype", "layout"):
        choices = OPERATION.by_name[name].choices
        number = number * len(choices) + np.array([choices.index(word) for word in facts[name].tolist()])
    return number
