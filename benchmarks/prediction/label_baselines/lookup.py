"""Baselines that look labels up: the most frequent labels of the device, and those of the most similar problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from seqtune.data.labels import Labels
from seqtune.predictor.choices.inputs import plain_columns
from seqtune.predictor.learning.choices.mixture_weights import by_device
from seqtune.predictor.learning.choices.predictors import LabelPredictions

_Group = tuple[str, str]  # names of device and kernel


class Majority:
    """Predicts the most frequent labels of the device and kernel; after true values, the most frequent next value."""

    def __init__(self, fitting: Mapping[str, Labels]) -> None:
        self._counts: dict[_Group, Counter[tuple[int, ...]]] = {
            group: Counter(map(tuple, labels.value_indices.tolist())) for group, labels in by_device(fitting).items()}

    def predict(self, labels: Labels, count: int) -> LabelPredictions:
        proposed = np.full((len(labels), count, labels.value_indices.shape[1]), -1, np.int16)
        correct = np.zeros(labels.value_indices.shape, np.bool_)
        for number, device in enumerate(labels.queries.devices):
            rows = np.flatnonzero(labels.queries.device == number)
            counts = self._counts.get((device.name, labels.kernel.name), Counter())
            for rank, (label, _) in enumerate(counts.most_common(count)):
                proposed[rows, rank] = label
            following: dict[tuple[int, ...], Counter[int]] = {}
            for label, times in counts.items():
                for column, value in enumerate(label):
                    following.setdefault(label[:column], Counter())[value] += times
            most_frequent = {prefix: values.most_common(1)[0][0] for prefix, values in following.items()}
            for row in rows:
                label = tuple(labels.value_indices[row].tolist())
                correct[row] = [most_frequent.get(label[:column]) == value for column, value in enumerate(label)]
        return LabelPredictions(proposed, correct)


class NearestLabels:
    """Predicts the labels of the nearest problems on the same device.

    The distance is the sum of squared differences of log sizes, each divided by its standard deviation. Problems with
    another direction, data type or layout come after all others.
    """

    block = 512  # labels compared at once
    word_distance = 1e6  # added to the squared distance for another direction, data type or layout

    def __init__(self, fitting: Mapping[str, Labels]) -> None:
        self._groups = {}
        for group, labels in by_device(fitting).items():
            points = plain_columns(labels.queries)
            scale = points.std(axis=0)
            scale[scale == 0] = 1.0
            self._groups[group] = (points / scale, scale, _words(labels), labels.value_indices)

    def _neighbours(self, labels: Labels, device: str, rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """The row numbers of the nearest training labels on the device, nearest first: (row, min(most, labels))."""
        points, scale, words, _ = self._groups[device, labels.kernel.name]
        part = labels.take(rows)
        queries, query_words = plain_columns(part.queries) / scale, _words(part)
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

    def predict(self, labels: Labels, count: int) -> LabelPredictions:
        proposed = np.full((len(labels), count, labels.value_indices.shape[1]), -1, np.int16)
        for number, device in enumerate(labels.queries.devices):
            rows = np.flatnonzero(labels.queries.device == number)
            if not len(rows) or (device.name, labels.kernel.name) not in self._groups:
                continue
            training = self._groups[device.name, labels.kernel.name][3]
            for row, near in zip(rows, self._neighbours(labels, device.name, rows, 4 * count), strict=True):
                distinct = list(dict.fromkeys(map(tuple, training[near].tolist())))[:count]
                proposed[row, :len(distinct)] = distinct
        return LabelPredictions(proposed, None)


def _words(labels: Labels) -> NDArray[np.int64]:
    """Encode the direction, data type and layout of each label as one number, (label,)."""
    queries = labels.queries.compact()
    values, features = queries.problems.columns.values, queries.problems.columns.operation.by_name
    number = np.zeros(len(queries.problems.problems), np.int64)
    for name in ("direction", "dtype", "layout"):
        choices = features[name].choices
        number = number * len(choices) + np.array([choices.index(word) for word in values[name].tolist()])
    return number[queries.problem]
