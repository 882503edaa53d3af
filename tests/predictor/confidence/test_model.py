"""Confidence: shares and intervals that hold on problems that were not fitted to, stored in a checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError, SeqtuneWarning
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats, Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.confidence.fitting import FOLDS, fit_confidence, observe, observe_with, parts_by_problem
from seqtune.predictor.confidence.model import ConfidenceModel, RegretModel, fit_regret, signals_of
from seqtune.predictor.proposing import Candidates
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from tests.support import untrained
from tests.support.synthetic import WIDE, data, registered

OPTIONS = TreesOptions(rounds=15, models=2, threads=1)
KERNEL = Kernel("toy.plain", "gemm", ("fake",), (Parameter("tile", (1, 2, 4)),), (), ())
TASK = Task.of(Problem.make("gemm", m=8, n=8, k=8), WIDE, (KERNEL,))
Pairs = list[tuple[Floats, Floats]]


def drawn(count: int, seed: int, factor: float = 1.0) -> Pairs:
    """Tasks whose regret is exponential around 0.01 + half of the predicted slowness."""
    generator = np.random.default_rng(seed)
    pairs: Pairs = []
    for _ in range(count):
        slowness = generator.uniform(0, 0.3, 4)
        regret = factor * generator.exponential(0.01 + 0.5 * slowness)
        pairs.append((signals_of(slowness, slowness[:, None].repeat(2, axis=1)), regret))
    return pairs


def coverage(model: RegretModel, pairs: Pairs, known: bool) -> tuple[float, float]:
    """The share of cases within the interval, and the mean of expected minus observed share."""
    inside, error = [], []
    for signals, regret in pairs:
        for confidence, share in zip(model.confidences(signals, known), np.exp(-regret).tolist(), strict=True):
            assert 0 <= confidence.low <= confidence.share <= confidence.high <= 1
            inside.append(confidence.low <= share <= confidence.high)
            error.append(confidence.share - share)
    return float(np.mean(inside)), float(np.mean(error))


def test_intervals_hold_eight_of_ten_shares_and_the_expected_share_is_the_mean() -> None:
    model = fit_regret(drawn(400, 0), drawn(400, 1, factor=3.0))
    for known, factor in ((True, 1.0), (False, 3.0)):
        inside, error = coverage(model, drawn(1000, 2, factor), known)
        assert inside == pytest.approx(0.8, abs=0.04)
        assert error == pytest.approx(0.0, abs=0.02)


def test_members_that_prefer_another_proposal_are_a_regret() -> None:
    slowness = np.array([0.10, 0.10])
    members = np.array([[0.05, 0.15], [0.15, 0.05]])
    agreed, split = signals_of(slowness, None), signals_of(slowness, members)
    assert agreed[:, 1:3].tolist() == [[0, 0], [0, 0]]
    assert split[:, 1] == pytest.approx([0.05, 0.05])
    assert split[:, 2] == pytest.approx([0.05, 0.05])


def test_the_doubt_is_how_much_the_beam_search_prefers_another_proposal() -> None:
    searched, slowness = np.log([0.5, 0.2, 0.1]), np.array([0.2, 0.1, 0.0])
    ordered = Candidates(TASK, np.arange(3), searched, slowness).ordered()
    doubt = signals_of(ordered.slowness, ordered.members, ordered.log_probabilities)[:, 3]
    assert ordered.numbers.tolist() == [2, 1, 0]
    assert doubt == pytest.approx(np.log([5, 2.5, 1]))
    assert np.isnan(signals_of(slowness, None)[:, 3]).all()


def test_a_device_where_more_is_lost_is_expected_to_lose_more_but_not_all_that_few_tasks_show() -> None:
    pairs = drawn(300, 8) + drawn(300, 9, factor=3.0) + drawn(5, 9, factor=3.0)
    model = fit_regret(pairs, drawn(100, 1), ["quiet"] * 300 + ["noisy"] * 300 + ["seldom"] * 5)
    assert model.scales["noisy"] / model.scales["quiet"] == pytest.approx(3.0, rel=0.3)
    assert 1.0 < model.scales["seldom"] < 0.8 * model.scales["noisy"]
    signals = drawn(1, 10)[0][0]
    shares = {name: model.confidences(signals, True, name)[0].share for name in ("quiet", "elsewhere", "noisy")}
    assert shares["quiet"] > shares["elsewhere"] > shares["noisy"]


@pytest.mark.usefixtures("fake_kernel")
def test_confidence_is_fitted_to_problems_that_the_trees_have_not_seen() -> None:
    with registered():
        tasks = measured_tasks(data(12, held_out=2, sampled=60), held_out=False)
    assert fit_confidence(tasks[:5], OPTIONS) is None  # too few
    parts = parts_by_problem(tasks, 0)
    assert len(parts) == FOLDS
    for part, observed in zip(parts, (observe(tasks, [part], OPTIONS) for part in parts), strict=True):
        left_out, fitting = ([task for task in tasks if part(task) == is_left_out] for is_left_out in (True, False))
        assert not {task.problem for task in left_out} & {task.problem for task in fitting}
        for ours, theirs in zip(observed, observe_with(Trees(fitting, OPTIONS), left_out), strict=True):
            np.testing.assert_array_equal(ours.regrets, theirs.regrets)
    model = fit_confidence(tasks, OPTIONS, least=8)
    assert model is not None
    assert model.knows(tasks[0].device)
    stranger = replace(tasks[0].device, l2_bytes=12345)
    assert not model.knows(stranger)
    moved = [replace(measured, task=replace(measured.task, device=stranger)) for measured in tasks[:1]]
    assert model.with_tasks(moved).knows(stranger)
    assert model.kernels == model.with_tasks(moved).kernels == tuple(sorted(
        {kernel.name for measured in tasks for kernel in measured.task.kernels}))


def model_of(device: str = "") -> ConfidenceModel:
    """A model of made-up regrets that knows one device."""
    return ConfidenceModel(first=fit_regret(drawn(60, 5), drawn(60, 6, 2.0)), other=fit_regret(drawn(60, 7), []),
                           devices=(device,))


@pytest.mark.usefixtures("fake_kernel")
def test_proposals_have_confidences_where_trees_know_their_kernels() -> None:
    with registered():
        (measured, *_) = measured_tasks(data(2, held_out=1, sampled=40), held_out=False)
    numbers = np.arange(4)
    proposals = Candidates(measured.task, numbers, np.log(np.full(4, 0.2)), np.array([0.0, 0.1, 0.2, 0.3]))
    known, unknown = model_of(measured.device.identity), model_of()
    sure, unsure = known.confidences(proposals), unknown.confidences(proposals)
    assert sure is not None
    assert unsure is not None
    assert len(sure) == 4
    assert known.confidences(proposals, 2) == sure[:2]
    assert unsure[0].share < sure[0].share
    assert known.confidences(replace(proposals, slowness=np.full(4, np.nan))) is None
    (kernel,) = measured.task.kernels
    assert known.model_copy(update={"kernels": (kernel.name,)}).confidences(proposals) == sure
    assert known.model_copy(update={"kernels": ("of another",)}).confidences(proposals) is None


@pytest.mark.parametrize("worst", [0.3, 3.0])
def test_on_a_new_device_no_interval_is_narrower_than_that_of_a_proposal_before_it(worst: float) -> None:
    device = replace(WIDE, l2_bytes=12345)
    model = ConfidenceModel(first=fit_regret(drawn(100, 5, worst * 10), []), other=fit_regret(drawn(100, 7), []),
                            devices=(WIDE.identity,))
    slowness = np.array([0.0, 0.01, 0.2, 0.02, 0.4])
    signals = signals_of(slowness, slowness[:, None].repeat(2, axis=1))
    apart = model.confidences_of(signals, WIDE)
    assert apart[1].high - apart[1].low < apart[0].high - apart[0].low, "this test needs a narrower interval"
    given = [*model.first.confidences(signals[:1], False), *model.other.confidences(signals[1:], False)]
    extended = model.confidences_of(signals, device)
    widths = [confidence.high - confidence.low for confidence in extended]
    assert np.diff(widths).min() > -1e-12
    for before, after in zip(given, extended, strict=True):
        assert after.share == before.share
        assert 0 <= after.low <= before.low <= before.high <= after.high <= 1
    assert extended[0] == given[0]
    assert model.confidences_of(signals[:3], device) == extended[:3], "later proposals change nothing"


def test_a_checkpoint_keeps_its_confidence_and_older_ones_have_none(tmp_path: Path) -> None:
    folder = untrained.save(tmp_path / "plain")
    plain = Checkpoint.load(folder)
    assert plain.estimator is None
    saved = Checkpoint.load(replace(plain, estimator=model_of("a device")).save(tmp_path / "sure"))
    assert saved.estimator == model_of("a device")
    content = json.loads((tmp_path / "sure" / "seqtune.json").read_text())
    for damage in ({"known": content["estimator"]["first"]["known"][::-1]}, {"weights": [1.0]}, {"constant": -1.0},
                   {"new": [1e9] * 101}, {"constant": "x"}, {"usual_doubt": -1.0}, {"scales": {"a device": 1e9}},
                   {"scales": {"x" * 2000: 1.0}}):
        bad = json.loads(json.dumps(content))
        bad["estimator"]["first"].update(damage)
        (tmp_path / "sure" / "seqtune.json").write_text(json.dumps(bad))
        with pytest.raises(CheckpointError):
            Checkpoint.load(tmp_path / "sure")
    older = content["estimator"]
    for model in (older["first"], older["other"]):
        model["weights"] = model["weights"][:3]
        del model["usual_doubt"], model["scales"]
    (tmp_path / "sure" / "seqtune.json").write_text(json.dumps(content))
    estimator = Checkpoint.load(tmp_path / "sure").estimator
    assert isinstance(estimator, ConfidenceModel), "checkpoints from before the doubt and the scales are read"
    assert estimator.first.expected(np.full((1, 4), 0.5)) == pytest.approx(
        older["first"]["constant"] + 0.5 * sum(older["first"]["weights"]))
    content |= {"confidence": content.pop("estimator"), "mixture": {"weights": {"base": {"trees": 0.5}}}}
    (tmp_path / "sure" / "seqtune.json").write_text(json.dumps(content))
    with pytest.warns(SeqtuneWarning, match="was trained by an earlier version") as notes:
        assert Checkpoint.load(tmp_path / "sure").estimator is None, "it was fitted to the answers of a mixture"
    assert len(notes) == 1
