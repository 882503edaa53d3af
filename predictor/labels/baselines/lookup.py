"""Baselines that look labels up: the commonest of the device, and that of the most similar problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from seqtune.data.labels import Labels

from ..inputs import plain_columns
from ..methods import Answers, Places

_Group = tuple[str, str]  # names of device and kernel


def by_device(fitting: Mapping[str, Labels]) -> dict[_Group, Labels]:
    """The labels of each kernel, apart by device."""
    return {(device.name, name): labels.take(np.flatnonzero(labels.questions.device == number))
            for name, labels in fitting.items() for number, device in enumerate(labels.questions.devices)
            if (labels.questions.device == number).any()}


class Majority:
    """The commonest labels of the device and kernel; after a true prefix, the commonest next value there."""

    def __init__(self, fitting: Mapping[str, Labels]) -> None:
        self._counts: dict[_Group, Counter[tuple[int, ...]]] = {
            group: Counter(map(tuple, labels.places.tolist())) for group, labels in by_device(fitting).items()}

    def answer(self, labels: Labels, count: int) -> Answers:
        proposed = np.full((len(labels), count, labels.places.shape[1]), -1, np.int16)
        told = np.zeros(labels.places.shape, np.bool_)
        for number, device in enumerate(labels.questions.devices):
            rows = np.flatnonzero(labels.questions.device == number)
            counts = self._counts.get((device.name, labels.kernel.name), Counter())
            for rank, (label, _) in enumerate(counts.most_common(count)):
                proposed[rows, rank] = label
            following: dict[tuple[int, ...], Counter[int]] = {}
            for label, times in counts.items():
                for column, value in enumerate(label):
                    following.setdefault(label[:column], Counter())[value] += times
            usual = {prefix: values.most_common(1)[0][0] for prefix, values in following.items()}
            for row in rows:
                label = tuple(labels.places[row].tolist())
                told[row] = [usual.get(label[:column]) == value for column, value in enumerate(label)]
        return Answers(proposed, told)


class Nearest:
    """The labels of the nearest problems on the same device: least squares between logarithms of sizes, each by its
    spread; words must agree before sizes count."""

    block = 512  # labels compared at once
    apart = 1e6  # squared distance of another direction, data type or layout

    def __init__(self, fitting: Mapping[str, Labels]) -> None:
        self._known = {}
        for group, labels in by_device(fitting).items():
            points = plain_columns(labels.questions)
            scale = points.std(axis=0)
            scale[scale == 0] = 1.0
            self._known[group] = (points / scale, scale, _words(labels), labels.places)

    def neighbours(self, labels: Labels, device: str, rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """The places of the nearest training labels of the group, nearest first: (row, `most` or all)."""
        points, scale, words, _ = self._known[device, labels.kernel.name]
        part = labels.take(rows)
        mine, said = plain_columns(part.questions) / scale, _words(part)
        square = (points**2).sum(axis=1)
        found = []
        for begin in range(0, len(rows), self.block):
            few = mine[begin:begin + self.block]
            distance = square - 2 * few @ points.T + (few**2).sum(axis=1, keepdims=True)
            distance += self.apart * (said[begin:begin + self.block, None] != words[None])
            near = np.argpartition(distance, min(most, len(points)) - 1, axis=1)[:, :most]
            order = np.argsort(np.take_along_axis(distance, near, axis=1), axis=1, kind="stable")
            found.append(np.take_along_axis(near, order, axis=1))
        return np.concatenate(found)

    def places(self, device: str, kernel: str) -> Places:
        """The labels of a group, in the order that `neighbours` counts them."""
        return self._known[device, kernel][3]

    def answer(self, labels: Labels, count: int) -> Answers:
        proposed = np.full((len(labels), count, labels.places.shape[1]), -1, np.int16)
        for number, device in enumerate(labels.questions.devices):
            rows = np.flatnonzero(labels.questions.device == number)
            if not len(rows) or (device.name, labels.kernel.name) not in self._known:
                continue
            known = self.places(device.name, labels.kernel.name)
            for row, near in zip(rows, self.neighbours(labels, device.name, rows, 4 * count), strict=True):
                distinct = list(dict.fromkeys(map(tuple, known[near].tolist())))[:count]
                proposed[row, :len(distinct)] = distinct
        return Answers(proposed, None)


def _words(labels: Labels) -> NDArray[np.int64]:
    """One number per label for its direction, data type and layout together."""
    questions = labels.questions.compact()
    values, features = questions.problems.columns.values, questions.problems.columns.operation.by_name
    number = np.zeros(len(questions.problems.problems), np.int64)
    for name in ("direction", "dtype", "layout"):
        choices = features[name].choices
        number = number * len(choices) + np.array([choices.index(word) for word in values[name].tolist()])
    return number[questions.problem]
