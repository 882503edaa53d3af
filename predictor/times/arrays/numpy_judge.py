"""NumpyJudge: the translator's judge of whole configurations, with NumPy alone.

The function is that of `seqtune.predictor.times.judge.Judge`. It reads what the beam search has encoded. The vectors of
words are projected before they are summed, so that a configuration costs a few short sums, and only the quantities of
its kernel are read.
"""

from __future__ import annotations

import numpy as np

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Task

from ...networks.numpy_layers import Floats, Linear, Tensors, gelu
from ...sequence.derived_quantities import ResolvedByRow
from .numpy_translator import NumpyTranslator
from .word_vectors import RESOLVED_SIZE, resolved_numbers

LARGEST_PART = 4096  # configurations judged at once: 10 MB of codes


class NumpyJudge:
    """Estimates log(time / best time) of a task's configurations, up to a constant of the task."""

    def __init__(self, tensors: Tensors, translator: NumpyTranslator) -> None:
        self._translator = translator
        quantity = Linear.of(tensors, "judge.quantity")
        self._quantity = quantity.weight.reshape(-1, RESOLVED_SIZE, quantity.weight.shape[1])  # (D, numbers, hidden)
        self._bias = quantity.bias
        self._problem = Linear.of(tensors, "judge.problem")
        self._words = np.ascontiguousarray(tensors["judge.words.weight"].T)
        self._inner, self._outer = Linear.of(tensors, "judge.inner"), Linear.of(tensors, "judge.outer")
        self._slowness = Linear.of(tensors, "judge.slowness")

    def slowness(self, task: Task, numbers: Numbers) -> Floats:
        """The estimates for configurations given by their numbers: (configuration,)."""
        vectors, mean = self._translator.encoded(task.problem, task.device)
        projected = vectors @ self._words
        first, second = np.split(self._problem(mean), 2)
        estimates = np.empty(len(numbers), np.float32)
        for begin in range(0, len(numbers), LARGEST_PART):
            part = numbers[begin:begin + LARGEST_PART]
            x = gelu(self._combined(task, part, projected) + (self._bias + first))
            x += gelu(self._inner(x) + second)
            x += gelu(self._outer(x))
            estimates[begin:begin + len(part)] = self._slowness(x)[:, 0]
        return estimates

    def _combined(self, task: Task, numbers: Numbers, projected: Floats) -> Floats:
        """The sums of words and quantities in the first layer, (configuration, hidden); `projected` is (V, hidden)."""
        vocabulary = self._translator.vocabulary
        combined = np.empty((len(numbers), projected.shape[1]), np.float32)
        for space, part in task.parts():
            chosen = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
            if len(chosen):
                name, rows = space.kernel.name, numbers[chosen] - part.start
                indices, quantities = ResolvedByRow(space, vocabulary).complete(rows)
                added = resolved_numbers(quantities) @ self._quantity[indices].reshape(-1, projected.shape[1])
                added += projected[vocabulary.kernel(name)]
                for column, words in enumerate(vocabulary.value_words(name)):
                    added += projected[words][space.rows[rows, column]]
                combined[chosen] = added
        return combined
