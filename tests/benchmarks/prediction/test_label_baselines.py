"""The baselines that models of choices are compared with."""

from __future__ import annotations

from benchmarks.prediction.label_baselines.ranker import TreeRankerOptions
from benchmarks.prediction.label_baselines.solver_trees import TreeChoice
from benchmarks.prediction.label_baselines.table import BASELINES, BaselineOptions
from seqtune.data.dataset import Dataset
from seqtune.integrations.miopen.predictor.labels import read_solver_timings
from seqtune.integrations.miopen.predictor.learning import score_labels, score_solvers
from tests.support.label_toys import TREES, Parts

OPTIONS = BaselineOptions(TREES, TreeRankerOptions(rounds=10, threads=1))


def test_every_baseline_learns_the_rule_to_some_degree(label_parts: Parts) -> None:
    scores = {name: score_labels(fit(label_parts[0], OPTIONS), label_parts[1])
              for name, fit in BASELINES.items()}
    for name in ("nearest", "trees", "tree_ranker"):
        better = [score.exact > least.exact for score, least in zip(scores[name], scores["majority"], strict=True)]
        assert sum(better) >= 2, name


def test_trees_choose_the_fastest_solver_too(label_data: Dataset) -> None:
    timings = read_solver_timings(label_data)
    training, held_out = (timings.take(side) for side in (~timings.held_out, timings.held_out))
    row, = score_solvers(held_out, TreeChoice(training, len(training), rounds=10, threads=1).choose)
    assert row.share > 0.95 > row.default_share
