"""NumpyJudge: the translator's judge of whole configurations, without PyTorch.

The function is that of `judge.Judge`. It reads what the beam search has encoded. The vectors of
a configuration's words are summed before they are projected, and only the quantities of its kernel are read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Task

from ..sequence.grammar import ResolvedByRow
from ..sequence.vocabulary import Words
from .numpy_layers import Linear, Tensors
from .numpy_translator import NumpyTranslator
from .rows import Floats, Matrix, gelu
from .word_vectors import RESOLVED_SIZE, resolved_numbers

LARGEST_PART = 1024  # configurations read at once: 7 MB of vectors


class NumpyJudge:
    """Estimates log(time / best time) of a task's configurations, up to a constant of the task: an expert."""

    name = "judge"
    is_relative = True

    def __init__(self, tensors: Tensors, translator: NumpyTranslator) -> None:
        self._translator = translator
        quantity = Linear.of(tensors, "judge.quantity")
        self._quantity = quantity.weight.reshape(-1, RESOLVED_SIZE, quantity.weight.shape[1])  # (D, numbers, hidden)
        self._bias = quantity.bias
        self._problem = Linear.of(tensors, "judge.problem")
        self._words = Matrix(tensors["judge.words.weight"].T)
        self._known: dict[str, tuple[Words, tuple[int, ...], Matrix]] = {}
        self._inner, self._outer = Linear.of(tensors, "judge.inner"), Linear.of(tensors, "judge.outer")
        self._slowness = Linear.of(tensors, "judge.slowness")

    def slowness(self, task: Task, numbers: Numbers) -> Floats:
        """The estimates for configurations given by their numbers: (configuration,)."""
        vectors, mean = self._translator.encoded(
            task.problem, task.device, [space.kernel.name for space in task.spaces])
        first, second = np.split(self._problem(mean[None])[0], 2)
        estimates = np.empty(len(numbers), np.float32)
        for begin in range(0, len(numbers), LARGEST_PART):
            part = numbers[begin:begin + LARGEST_PART]
            x = gelu(self._combined(task, part, vectors) + (self._bias + first))
            x += gelu(self._inner(x) + second)
            x += self._outer(x, gelu=True)
            estimates[begin:begin + len(part)] = self._slowness(x)[:, 0]
        return estimates

    def opinion(self, task: Task, numbers: Numbers) -> NDArray[np.float64]:
        """The estimates with one member, as an `Expert` gives them."""
        return self.slowness(task, numbers).astype(np.float64)[:, None]

    def _combined(self, task: Task, numbers: Numbers, vectors: Floats) -> Floats:
        """The sums of words and quantities in the first layer, (configuration, hidden); `vectors` is (V, W)."""
        vocabulary = self._translator.vocabulary
        sums = np.empty((len(numbers), vectors.shape[1]), np.float32)
        added = np.empty((len(numbers), len(self._bias)), np.float32)
        for space, chosen, rows in task.by_space(numbers):
            name = space.kernel.name
            indices, quantities = ResolvedByRow(space, vocabulary).complete(rows)
            words, weight = self._of_kernel(name, tuple(indices))
            chosen_words = words[np.arange(words.shape[0]), space.rows[rows]]  # (configuration, parameter)
            sums[chosen] = np.add.reduce(vectors[chosen_words], axis=1) + vectors[vocabulary.kernel(name)]
            added[chosen] = weight.multiply(resolved_numbers(quantities))
        self._words.add_to(added, sums)
        return added

    def _of_kernel(self, name: str, indices: tuple[int, ...]) -> tuple[Words, Matrix]:
        """The words of a kernel's values (parameter, value), padded with 0, and the weights of its quantities.

        `indices` are those of the quantities that are numbers; they are the same for nearly all problems.
        """
        words, remembered, weight = self._known.get(name, (None, None, None))
        if words is None or weight is None or remembered != indices:
            listed = self._translator.vocabulary.value_words(name)
            words = np.zeros((len(listed), max(map(len, listed), default=0)), np.int64)
            for row, values in zip(words, listed, strict=True):
                row[:len(values)] = values
            weight = Matrix(self._quantity[list(indices)].reshape(-1, self._quantity.shape[2]))
            self._known[name] = words, indices, weight
        return words, weight
