"""NumpyJudge: the translator's judge of whole configurations, with NumPy alone.

The function is that of `seqtune.predictor.times.judge.Judge`. It reads what the beam search has encoded.
"""

from __future__ import annotations

import numpy as np

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Task

from ...networks.numpy_layers import Floats, Linear, Tensors, gelu
from ...sequence.derived_quantities import ResolvedByRow
from ...sequence.vocabulary import Vocabulary
from .numpy_translator import NumpyTranslator
from .word_vectors import resolved_numbers

LARGEST_PART = 4096  # configurations judged at once: 10 MB of codes


class NumpyJudge:
    """Estimates log(time / best time) of a task's configurations, up to a constant of the task."""

    def __init__(self, tensors: Tensors, translator: NumpyTranslator) -> None:
        self._translator = translator
        self._quantity, self._problem = Linear.of(tensors, "judge.quantity"), Linear.of(tensors, "judge.problem")
        self._words = np.ascontiguousarray(tensors["judge.words.weight"].T)
        self._inner, self._outer = Linear.of(tensors, "judge.inner"), Linear.of(tensors, "judge.outer")
        self._slowness = Linear.of(tensors, "judge.slowness")

    def slowness(self, task: Task, numbers: Numbers) -> Floats:
        """The estimates for configurations given by their numbers: (configuration,)."""
        vectors, mean = self._translator.encoded(task.problem, task.device)
        first, second = np.split(self._problem(mean), 2)
        estimates = np.empty(len(numbers), np.float32)
        for begin in range(0, len(numbers), LARGEST_PART):
            part = numbers[begin:begin + LARGEST_PART]
            sums, quantities = self._configurations(task, part, vectors)
            x = gelu(self._quantity(resolved_numbers(quantities)) + sums @ self._words + first)
            x += gelu(self._inner(x) + second)
            x += gelu(self._outer(x))
            estimates[begin:begin + len(part)] = self._slowness(x)[:, 0]
        return estimates

    def _configurations(self, task: Task, numbers: Numbers, vectors: Floats) -> tuple[Floats, Floats]:
        """The sums of the words' vectors (configuration, W), and all derived quantities (configuration, D)."""
        vocabulary: Vocabulary = self._translator.vocabulary
        sums = np.empty((len(numbers), vectors.shape[1]), np.float32)
        quantities = np.full((len(numbers), len(vocabulary.derived)), np.nan, np.float32)
        for space, part in task.parts():
            chosen = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
            if not len(chosen):
                continue
            name, rows = space.kernel.name, numbers[chosen] - part.start
            words = [values[space.rows[rows, column]] for column, values in enumerate(vocabulary.value_words(name))]
            sums[chosen] = vectors[vocabulary.kernel(name)] + sum(vectors[word] for word in words)
            resolved, full = ResolvedByRow(space, vocabulary), quantities[chosen]
            for column in range(-1, len(words)):
                resolved.resolve(rows, column, full)
            quantities[chosen] = full
        return sums, quantities
