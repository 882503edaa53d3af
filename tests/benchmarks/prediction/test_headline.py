"""The headline: the shipped checkpoint reaches its documented shares on a fixed sample of the shipped data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.common.page import RESULTS
from benchmarks.common.report import Row
from benchmarks.prediction.headline import CASES, TOLERANCE, changes, evaluated_cases, means, sample
from seqtune.data.dataset import Dataset
from seqtune.kernels.task import Task
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.checkpoint import Checkpoint
from tests.support.paths import ROOT

DOCUMENTED: list[Row] = json.loads((ROOT / "docs" / RESULTS / "headline.json").read_text())["cases"]
FEW = 12  # cases that suffice to notice a broken checkpoint
AGAIN = ("the shipped checkpoint or data changed: if on purpose, run `python -m benchmarks headline --out docs` and "
         "`python -m benchmarks results --out docs`, which also writes what README.md and docs/index.md quote")


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return Checkpoint.load("default")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return sample(Dataset.shipped())


class Shuffled:
    """The beam's proposals of a checkpoint in random order."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.generator = np.random.default_rng(0)

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        proposals = self.checkpoint.propose(tasks, 16)
        return [[candidates[index] for index in self.generator.permutation(len(candidates))[:count]]
                for candidates in proposals]


def agrees(cases: Sequence[Row]) -> bool:
    """Whether the cases have the documented shares."""
    keys = {(case["device"], case["problem"]) for case in cases}
    documented = [case for case in DOCUMENTED if (case["device"], case["problem"]) in keys]
    return max(changes(documented, cases).values()) <= TOLERANCE


def test_the_shipped_checkpoint_reaches_its_documented_shares(checkpoint: Checkpoint, data: Dataset) -> None:
    cases = evaluated_cases(data, checkpoint)
    assert len(cases) == CASES
    assert agrees(cases), f"{AGAIN}; documented {means(DOCUMENTED)}, now {means(cases)}"


def test_a_shuffled_beam_or_missing_trees_do_not_reach_them(checkpoint: Checkpoint, data: Dataset) -> None:
    few = sample(data, FEW)
    assert not agrees(evaluated_cases(few, Shuffled(checkpoint)))
    assert not agrees(evaluated_cases(few, replace(checkpoint, ranker=None, estimator=None)))
