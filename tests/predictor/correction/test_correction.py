"""Corrections by measurements of a device: they help on a new device, and shrink to nothing without evidence."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.predictor.correction.correction import Correction
from seqtune.predictor.correction.observations import MAX_ROWS, observe, spread_rows
from seqtune.predictor.proposing import Candidates
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import Ranker
from tests.support.synthetic import DIRECT, NARROW, WIDE, problems, seconds
from tests.support.tasks import task_of

PROBLEMS = problems(72)
# An odd machine, whose times the trees of WIDE mispredict: large unrolling is what makes kernels fast on it.
ODD = replace(WIDE, name="fake:odd", architecture="toy2")


def measured(problem: Problem, device: Device, count: int = 60) -> MeasuredTask:
    space = SearchSpace(DIRECT, problem, device)
    times = seconds(space)
    if device is ODD:
        times = times * np.where(space.columns()["unroll"] == 4, 0.5, 1.0)
    chosen = np.random.default_rng(len(space)).permutation(len(space))[:count]
    partial = np.full(len(space), np.nan)
    partial[chosen] = times[chosen]
    return MeasuredTask(task_of(space), partial)


def share_of(correction: Correction | None, task: MeasuredTask) -> float:
    """The share of the best speed that the first of all configurations that run reaches."""
    numbers = np.flatnonzero(np.isfinite(task.seconds))
    slowness = ranker().slowness(task.task, numbers)
    if correction is not None:
        slowness = slowness + correction.changes(task.task, numbers)
    return float(np.log(task.shares()[numbers[np.argmin(slowness)]]))


@cache
def ranker() -> Ranker:
    fitting = [measured(problem, device, 120) for problem in PROBLEMS[:14] for device in (WIDE, NARROW)]
    return Ranker.of(Trees(fitting, TreesOptions(rounds=60, models=2, depth=5, threads=1)))


@cache
def corrected(device: Device) -> Correction:
    correction, _ = Correction.fit(ranker(), [measured(problem, device) for problem in PROBLEMS[14:28]])
    return correction


def mean_shares(device: Device) -> tuple[float, float]:
    held_out = [measured(problem, device, 10_000) for problem in PROBLEMS[28:]]
    before, after = (float(np.exp(np.mean([share_of(correction, task) for task in held_out])))
                     for correction in (None, corrected(device)))
    return before, after


def test_measurements_of_some_problems_make_others_faster_on_a_device_unlike_the_old_ones() -> None:
    before, after = mean_shares(ODD)
    assert after > before + 0.02


def test_without_measurements_nothing_changes() -> None:
    task = measured(PROBLEMS[0], ODD).task
    proposals = Candidates(task, np.arange(4), np.zeros(4), np.arange(4.0))
    correction, report = Correction.fit(ranker(), [])
    assert report.measurements == 0
    assert np.array_equal(correction.correct(proposals).slowness, proposals.slowness)


def test_noise_that_no_other_problem_shares_changes_little() -> None:
    generator = np.random.default_rng(0)
    noisy = [MeasuredTask(task.task, task.seconds * np.exp(generator.normal(0, 0.5, len(task.seconds))))
             for task in (measured(problem, WIDE) for problem in PROBLEMS[14:28])]
    correction, _ = Correction.fit(ranker(), noisy)
    task = measured(PROBLEMS[30], WIDE).task
    changes = correction.changes(task, np.arange(len(task)))
    assert float(np.std(changes)) < 0.15


def test_corrections_survive_a_file_and_refuse_other_trees() -> None:
    correction = corrected(ODD)
    again = Correction.of_arrays(ranker(), correction.arrays(), correction.own_times)
    task = measured(PROBLEMS[30], ODD).task
    numbers = np.arange(len(task))
    assert again.changes(task, numbers) == pytest.approx(correction.changes(task, numbers), abs=1e-5)
    arrays = correction.arrays()
    feature = next(name for name in arrays if name.endswith("/feature"))
    for strange in ({**arrays, feature: arrays[feature][1:]}, {**arrays, feature: arrays[feature] | 255},
                    {name.replace(DIRECT.name, "llvm.direct"): array for name, array in arrays.items()}):
        with pytest.raises(FormatError, match="do not fit"):
            Correction.of_arrays(ranker(), strange, correction.own_times)


def test_the_fastest_measured_configuration_of_the_problem_comes_first_even_if_the_beam_lacks_it() -> None:
    complete = measured(PROBLEMS[33], ODD, 10_000)
    best = int(np.argmin(complete.seconds))
    numbers = np.array([number for number in range(40) if number != best])
    slowness = ranker().slowness(complete.task, numbers)

    def own(task: Task) -> Floats:
        return complete.seconds

    correction = replace(corrected(ODD), own_times=own)
    proposals = correction.correct(Candidates(complete.task, numbers, np.log(np.full(len(numbers), 0.01)), slowness))
    assert proposals.ordered().numbers[0] == best
    assert len(set(proposals.numbers.tolist())) == len(proposals)
    assert len(proposals) > len(numbers), "further measured configurations join"
    assert np.exp(proposals.ordered().posterior()).sum() == pytest.approx(0.01 * len(numbers))


def test_experts_disagree_less_about_measured_configurations_of_the_problem() -> None:
    complete = measured(PROBLEMS[33], ODD, 10_000)
    numbers = np.arange(20)
    seconds = np.where(np.arange(len(complete.task)) < 40, complete.seconds, np.nan)
    seconds[5:20] = np.nan
    correction = replace(corrected(ODD), own_times=lambda task: seconds)
    slowness = ranker().slowness(complete.task, numbers)
    members = slowness[:, None] + np.array([-0.1, 0.1])
    proposals = correction.correct(Candidates(complete.task, numbers, np.log(np.full(20, 0.01)), slowness, members))
    assert proposals.members is not None
    known = np.isfinite(seconds[proposals.numbers])
    assert proposals.members.shape == (len(proposals), 2)
    assert len(proposals) > 20
    apart = np.ptp(proposals.members, axis=1)
    assert apart[known].max() == pytest.approx(0.02)
    assert apart[~known] == pytest.approx(0.2)


def test_a_configuration_that_failed_on_the_device_comes_last() -> None:
    task = measured(PROBLEMS[33], ODD).task
    times = np.full(len(task), np.nan)
    times[3] = np.inf
    correction = replace(corrected(ODD), own_times=lambda task: times)
    proposals = Candidates(task, np.arange(6), np.zeros(6), np.zeros(6))
    assert correction.correct(proposals).ordered().numbers[-1] == 3


def test_the_evidence_is_bounded_and_holds_the_fastest() -> None:
    tasks = [measured(problem, ODD, 10_000) for problem in PROBLEMS]
    observations = observe(ranker(), tasks)
    assert len(observations) <= MAX_ROWS
    assert all(observations.observed[rows].min() == 0.0 for rows in observations.problems())
    assert spread_rows(np.array([3.0, np.nan, 1.0, np.inf, 2.0, 5.0]), 3).tolist() == [2, 4, 5]
