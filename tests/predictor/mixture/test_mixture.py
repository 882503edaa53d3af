"""Tests of the mixture: without a learned one the fixed mean counts, and a learned one comes back from a checkpoint."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.mixture.mixture import ANALYTIC, UNLEARNED, Candidates, Mixture, fastest_of
from seqtune.predictor.mixture.weights import PRIOR
from seqtune.predictor.mixture.winners import Entry, Winners
from seqtune.predictor.model import SHIPPED, load_model
from tests.support.learning.short_training import QUICK, train
from tests.support.synthetic import MIDDLE, data, problems, registered

pytestmark = pytest.mark.usefixtures("fake_kernel")

DATA = data(14, held_out=4, sampled=60)
with registered():
    TRAINING, TEST = (measured_tasks(DATA, held_out=held_out) for held_out in (False, True))


@pytest.fixture(name="checkpoint", scope="module")
def _checkpoint() -> Checkpoint:
    with registered():
        return train(DATA, replace(QUICK, epochs=2, confidence=False))[0]


def mixed(judge: list[float], members: list[list[float]] | None) -> tuple[list[float], tuple[int, ...]]:
    """The slowness and the shape of the members that the unlearned mixture gives to two candidates."""
    answer = UNLEARNED.mixed(Candidates(TEST[0].task, np.arange(2), np.log([0.5, 0.3]), None,
                                        None if members is None else np.array(members), np.array(judge)))
    np.testing.assert_array_equal(answer.log_probabilities, np.log([0.5, 0.3]))
    assert answer.members is not None
    return answer.slowness.tolist(), answer.members.shape


def test_without_a_learned_mixture_trees_and_judge_count_equally_whatever_constant_the_judge_adds() -> None:
    slowness, shape = mixed([7.4, 7.0], [[0.0, 0.0], [0.1, 0.3]])
    assert slowness == pytest.approx([0.15, 0.05])
    assert shape == (2, 3)


def test_the_judge_alone_calls_its_first_the_best() -> None:
    assert mixed([7.4, 7.0], None)[0] == pytest.approx([0.4, 0.0])
    assert mixed([7.4, 7.0], [[np.nan, np.nan], [0.1, 0.3]])[0] == pytest.approx([0.4, 0.0])


def test_without_any_expert_the_slowness_is_unknown() -> None:
    answer = UNLEARNED.mixed(Candidates(TEST[0].task, np.arange(2), np.log([0.5, 0.3])))
    assert np.isnan(answer.slowness).all()


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_checkpoints_answer_by_the_fixed_mean_until_they_are_trained_again(name: str) -> None:
    model = load_model(name)
    assert not isinstance(model, Checkpoint) or model.mixture is UNLEARNED or model.mixture.is_learned


def test_experts_add_valid_and_distinct_candidates(checkpoint: Checkpoint) -> None:
    assert checkpoint.mixture.is_learned
    proposer = checkpoint.proposer()
    for measured in TEST:
        (candidates,) = proposer.consulted([measured.task], 4)
        numbers = candidates.numbers
        assert len(set(numbers.tolist())) == len(numbers) > 4
        assert ((numbers >= 0) & (numbers < len(measured.task))).all()
        assert np.exp(candidates.log_probabilities).sum() <= 1 + 1e-6
        assert {*checkpoint.mixture.opinions(candidates)} == {
            "trees", "judge", "nearest", "fixed", "gaussian_process"}
        default = measured.task.number(measured.task.default)
        assert default in numbers


def test_learned_weights_for_new_devices_count_beyond_the_training_problems_too(checkpoint: Checkpoint) -> None:
    inside = TRAINING[0].task
    larger = {**dict(inside.problem.features), "k": 4096}
    beyond = Task.of(Problem.make(inside.problem.type, **larger), inside.device)
    nearest = PRIOR.model_copy(update={"base": {**PRIOR.base, "nearest": 20.0}})
    other = replace(checkpoint, mixture=replace(checkpoint.mixture, unseen=nearest))
    neighbours = [checkpoint.mixture.neighbours(task) for task in (inside, beyond)]
    assert [each is not None and each.covered for each in neighbours] == [True, False]
    assert other.propose([inside], 5) == checkpoint.propose([inside], 5)
    assert other.propose([beyond], 5) != checkpoint.propose([beyond], 5)
    (candidates,) = checkpoint.proposer().consulted([beyond], 4)
    assert checkpoint.mixture.mixed(candidates).weights != other.mixture.mixed(candidates).weights


def test_a_new_device_gets_the_priors_weights(checkpoint: Checkpoint) -> None:
    (problem,) = problems(1, seed=5)
    task = Task.of(problem, replace(MIDDLE, name="fake:other"))
    extreme = replace(checkpoint, mixture=replace(
        checkpoint.mixture, weights=PRIOR.model_copy(update={"base": {**PRIOR.base, "nearest": 20.0}})))
    assert extreme.propose([task], 5) == checkpoint.propose([task], 5)
    assert extreme.propose([TEST[0].task], 5) != checkpoint.propose([TEST[0].task], 5)


def test_a_learned_mixture_comes_back_and_a_damaged_one_is_refused(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path / "checkpoint")
    again = Checkpoint.load(folder)
    assert again.mixture.about == checkpoint.mixture.about
    tasks = [measured.task for measured in TEST]
    assert again.propose(tasks, 5) == checkpoint.propose(tasks, 5)
    with_none = replace(checkpoint, mixture=UNLEARNED).save(tmp_path / "without")
    assert not (with_none / "mixture.safetensors").exists()
    os.truncate(folder / "mixture.safetensors", 100)
    with pytest.raises(CheckpointError, match=r"mixture\.safetensors"):
        Checkpoint.load(folder)


def test_the_nearest_problems_alone_find_a_good_configuration() -> None:
    winners = Winners.of(map(Entry.of, TRAINING))
    mixture = Mixture.learned(winners)
    shares = [_share(measured, mixture) for measured in TEST]
    chance = [float(np.exp(np.nanmean(np.log(np.maximum(measured.shares(), 0.01))))) for measured in TEST]
    assert np.mean(shares) > np.mean(chance)


def _share(measured: MeasuredTask, mixture: Mixture) -> float:
    numbers = np.arange(len(measured.task))
    candidates = Candidates(measured.task, numbers, np.zeros(len(numbers)), mixture.neighbours(measured.task))
    first = int(np.argmin(mixture.opinions(candidates)["nearest"]))
    return float(np.nan_to_num(measured.shares())[first])


def test_the_fastest_estimates_are_those_of_a_stable_sort() -> None:
    generator = np.random.default_rng(0)
    for count in (0, 1, 3, 4, 5, 60):
        for _ in range(20):
            seconds = generator.choice([1.0, 2.0, 3.0, np.inf, np.nan], count)
            fastest = np.argsort(seconds, kind="stable")[:ANALYTIC].tolist()
            assert fastest_of(seconds) == [number for number in fastest if np.isfinite(seconds[number])]
