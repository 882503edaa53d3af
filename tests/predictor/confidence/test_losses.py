"""Loss trees: what a first proposal is expected to lose, and how they are fitted, stored and cross-fitted."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.confidence import fitting
from seqtune.predictor.confidence.fitting import (
    CrossFitting,
    fit_confidence,
    observe,
    parts_by_machine,
    parts_by_problem,
)
from seqtune.predictor.confidence.losses import COLUMNS, LossTrees
from seqtune.predictor.confidence.model import SIGNALS, ConfidenceModel, fit_regret
from seqtune.predictor.proposing import Candidates
from seqtune.predictor.trees.cost_trees import TreesOptions
from tests.support import untrained
from tests.support.synthetic import data, registered

OPTIONS = TreesOptions(rounds=15, models=2, threads=1)


def drawn(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Columns of tasks, and losses that grow with the second one."""
    generator = np.random.default_rng(seed)
    columns = generator.uniform(0, 1, (count, len(COLUMNS)))
    return columns, np.minimum(generator.exponential(0.02 + 0.2 * (columns[:, 1] > 0.7)), 1.0)


def test_they_find_the_proposals_that_lose_more_and_the_devices_where_more_is_lost() -> None:
    columns, losses = drawn(600)
    devices = ["quiet", "noisy"] * 300
    trees = LossTrees.fit(columns, losses * np.tile([0.5, 1.5], 300), devices)
    fresh, _ = drawn(300, 1)
    expected = trees.expected(fresh, "quiet")
    assert expected[fresh[:, 1] > 0.75].mean() > 2 * expected[fresh[:, 1] < 0.65].mean()
    assert trees.devices["quiet"] < trees.usual < trees.devices["noisy"]
    assert trees.expected(fresh, "noisy").mean() > expected.mean()
    assert 0 < trees.expected(fresh, "elsewhere").mean() < 1
    assert LossTrees.fit(columns, losses, devices) == LossTrees.fit(columns, losses, devices), "the same trees"


@pytest.mark.usefixtures("fake_kernel")
def test_no_loss_that_counts_was_expected_by_trees_that_saw_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    with registered():
        tasks = measured_tasks(data(14, held_out=2, sampled=60), held_out=False)
    parts, groups = parts_by_problem(tasks, 0), parts_by_machine(tasks)
    unseen = observe(tasks, parts, OPTIONS)
    crossing = CrossFitting(unseen, parts, groups, 0)
    for task, before in zip(crossing.known(unseen), unseen, strict=True):
        (part,) = (part for part in parts if part(before.task))
        assert task.signals[:, -1].tolist() == crossing.fit(part).expected(
            before.columns, before.task.device.identity).tolist()
    for task in crossing.new(unseen):
        (group,), (part,) = ([one for one in several if one(task.task)] for several in (groups, parts))
        trees = crossing.fit(group, part)
        assert task.signals[0, -1] == trees.expected(task.columns, task.task.device.identity)[0]
    model = fit_confidence(tasks, OPTIONS, least=8)
    assert model is not None
    assert model.losses is None, "few problems"
    assert len(model.first.weights) == len(SIGNALS) - 1
    monkeypatch.setattr(fitting, "LEAST_LEARNED", 8)
    model = fit_confidence(tasks, OPTIONS, least=8)
    assert model is not None
    assert model.losses is not None
    assert len(model.first.weights) == len(SIGNALS)
    proposals = Candidates(tasks[0].task, np.arange(4), np.log(np.full(4, 0.2)), np.array([0.0, 0.1, 0.2, 0.3]))
    confidences = model.confidences(proposals)
    assert confidences is not None
    assert all(later.share <= earlier.share + 0.2 for earlier, later in pairwise(confidences))


def test_a_checkpoint_keeps_them_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    columns, losses = drawn(200)
    trees = LossTrees.fit(columns, losses, ["a device"] * 200)
    signals = np.column_stack([np.zeros((200, len(SIGNALS) - 1)), trees.expected(columns, "a device")])
    regret = fit_regret([(row[None], np.array([loss])) for row, loss in zip(signals, losses, strict=True)], [])
    model = ConfidenceModel(first=regret, other=regret, losses=trees, devices=("a device",))
    plain = Checkpoint.load(untrained.save(tmp_path / "plain"))
    folder = replace(plain, estimator=model).save(tmp_path / "sure")
    kept = Checkpoint.load(folder).estimator
    assert isinstance(kept, ConfidenceModel)
    assert kept.losses is not None
    assert kept.losses.expected(columns, "a device").tolist() == trees.expected(columns, "a device").tolist()
    assert (folder / "seqtune.json").stat().st_size - (tmp_path / "plain" / "seqtune.json").stat().st_size < 100_000
    content = json.loads((folder / "seqtune.json").read_text())
    damages: list[dict[str, object]] = [
        {"left": content["estimator"]["losses"]["left"][::-1]}, {"roots": []}, {"usual": 2.0},
        {"feature": [200] * len(trees.feature)}, {"coded": [65535] * len(trees.coded)}, {"thresholds": [1e39]},
        {"devices": {"a device": -1.0}}]
    for damage in damages:
        bad = json.loads(json.dumps(content))
        bad["estimator"]["losses"].update(damage)
        (folder / "seqtune.json").write_text(json.dumps(bad))
        with pytest.raises(CheckpointError):
            Checkpoint.load(folder)
    bad = json.loads(json.dumps(content))
    bad["estimator"]["losses"] = None
    (folder / "seqtune.json").write_text(json.dumps(bad))
    with pytest.raises(CheckpointError):
        Checkpoint.load(folder)
