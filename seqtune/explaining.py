"""Explaining: the explanation of a proposal, with the shipped data set's problems as the known ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from seqtune.predictor.confidence.explanation import Explanation, KnownProblem, explain

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.task import Task
    from seqtune.predictor.model import TaskPredictor


def explanation_of(predictor: TaskPredictor, task: Task, proposals: Sequence[Configuration]) -> Explanation:
    """Explain the first proposal of a predictor. Only a checkpoint of measured times has trees to ask for costs."""
    from seqtune.predictor.times.model import TimesModel

    answering = predictor.on(task.device, task.kernels)
    ranker = answering.ranker if isinstance(answering, TimesModel) else None
    return explain(task, proposals, ranker, shipped_winners())


@lru_cache(maxsize=1)
def shipped_winners() -> tuple[KnownProblem, ...]:
    """The training problems of the shipped data set on each device, with their fastest configurations."""
    from seqtune.data.dataset import Dataset

    return tuple(winners(Dataset.shipped()))


def winners(data: Dataset) -> list[KnownProblem]:
    """The training problems of a data set on each device, with their fastest configurations."""
    from seqtune.data.dataset import configuration

    rows = data.rows[(data.rows["status"] == "correct") & ~data.rows["problem"].isin(data.held_out)]
    fastest = rows.loc[rows.groupby(["problem", "device"], observed=True)["seconds"].idxmin()]
    columns = [fastest[name].tolist() for name in ("problem", "device", "kernel", "configuration", "seconds")]
    return [KnownProblem(data.known_problems[problem], data.devices[device], configuration(kernel, text), seconds)
            for problem, device, kernel, text, seconds in zip(*columns, strict=True)]
