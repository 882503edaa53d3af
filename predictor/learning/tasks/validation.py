"""Validation: how good the proposals of a translator in training are, on problems that it does not learn from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqtune.data.measured_tasks import counted
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import ChosenTask, Floats, KnownTask

from ...sequence.beam import search_numbers_many
from ...sequence.vocabulary import Vocabulary
from ...translator.numpy_translator import NumpyTranslator

if TYPE_CHECKING:
    from ...translator.translator import Translator

NOTHING = 0.05  # the share of a configuration that has nothing in common with a choice; its logarithm is finite
COUNT = 5  # proposals of a task, and the width of their beam; predictions use a wider one
TASKS = 64  # that are searched at once


def validate(model: Translator, vocabulary: Vocabulary, tasks: Sequence[KnownTask]) -> tuple[float, float]:
    """The mean log shares of the best measured speed that the proposals of predictions reach on the tasks.

    The proposals are those of the current weights, found by the words and the beam of predictions. The tasks contain
    only measured rows. The first number is the mean of COUNT proposals, weighted by their probability. The second is
    that of the first proposal, which users get, but which is noisy if there are few problems.
    """
    words = NumpyTranslator(model.size, model.arrays(), vocabulary)
    scores: list[tuple[float, float]] = []
    for begin in range(0, len(tasks), TASKS):
        part = tasks[begin:begin + TASKS]
        proposals = search_numbers_many(words, [known.task for known in part], COUNT, COUNT)
        for known, (numbers, log_probabilities) in zip(part, proposals, strict=True):
            logs = [log_share(known, number) for number in numbers.tolist()]
            scores.append((float(np.average(logs, weights=np.exp(log_probabilities) + 1e-12)), logs[0]))
    score, first = np.mean(scores, axis=0)
    return float(score), float(first)


def log_share(known: KnownTask, number: int) -> float:
    """The log of the share of the best measured speed that the configuration with this number reaches.

    Where only choices are known, it is the log of the share of parameters with the chosen value (`log_agreement`).
    """
    if isinstance(known, ChosenTask):
        return float(log_agreement(known, np.array([number]))[0])
    default = known.time(known.task.default)
    return math.log(known.best / float(counted(known.seconds[number], default, known.seconds)))


def log_agreement(chosen: ChosenTask, numbers: Numbers) -> Floats:
    """The log of the share of parameters with the chosen value, at least that of NOTHING: (configuration,).

    It stands for the log share of the best speed where only choices are known.
    """
    return np.log(np.maximum(chosen.agreement(numbers), NOTHING))
