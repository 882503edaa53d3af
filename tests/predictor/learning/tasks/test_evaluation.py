"""Tests of evaluation: shares, failing proposals, intervals; with recorded times and live."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError, SeqtuneError, UnavailableError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.checkpoint_parts import TreesAlone
from seqtune.predictor.learning.tasks.baselines import random_log_share
from seqtune.predictor.learning.tasks.evaluation import METHODS, RECORDED, evaluate, fitted, outcomes, replayed
from seqtune.predictor.learning.tasks.examples import vocabulary_of
from seqtune.predictor.learning.tasks.shares import rows
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import Ranker
from seqtune.tuner.measuring.compared_times import ComparedTimes
from tests.support.learning.translators import small_translator
from tests.support.synthetic import Data, data, time_of

pytestmark = pytest.mark.usefixtures("fake_kernel", "few_trees")

DATA = data(10, held_out=4, sampled=80)


def _checkpoint() -> Checkpoint:
    vocabulary = vocabulary_of(measured_tasks(DATA, held_out=False))
    return Checkpoint.of_translator(small_translator(vocabulary, 32, hidden=64).eval(), vocabulary)


def _measure(problem: Problem, device: Device, configurations: Sequence[Configuration]) -> ComparedTimes:
    times = {configuration: time_of(problem, device, configuration) for configuration in configurations}
    builds = {configuration: (Measurement(Status.CORRECT, (time,)),) * 3 for configuration, time in times.items()
              if math.isfinite(time)}
    return ComparedTimes(times, builds, {}, {})


def test_every_device_method_and_number_has_a_row() -> None:
    found = evaluate(DATA, _checkpoint())
    assert len(found) == 2 * len(METHODS) * 3
    assert len({(row.device, row.method, row.measured) for row in found}) == len(found)
    at = {(row.device, row.method, row.measured): row for row in found}
    for row in found:
        assert 0 < row.share_low <= row.share <= row.share_high <= 1
        assert row.ceiling is None
        assert row.problems == 4
        assert row.unmeasured == 0
        assert row.measured == 0 or row.share >= at[row.device, row.method, 0].share
        assert (row.low is None) == (row.method == "seqtune")
        assert row.worse == (row.high is not None and row.high < 0)
        json.dumps(row.to_json())
    for device in DATA.devices:
        ours, fixed = at[device, "seqtune", 0], at[device, "fixed", 0]
        assert ours.regret_ratio == pytest.approx((1 - ours.share) / (1 - fixed.share))
        assert at[device, "trees", 0].share > at[device, "random", 0].share


def test_random_rows_hold_the_exact_expectation() -> None:
    (row,) = (row for row in evaluate(DATA, None, ("random",), (5,)) if row.device == "fake:narrow")
    expected = []
    for measured in measured_tasks(DATA, held_out=True):
        if measured.device.name == row.device:
            default = measured.time(measured.task.default)
            times = np.where(np.isfinite(measured.seconds), measured.seconds, default)
            expected.append(random_log_share(measured.best / times, 5))
    assert row.share == pytest.approx(math.exp(np.mean(expected)))


class _Failing:
    """A predictor that proposes configurations that fail, then the best one."""

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        return [self._proposed(task)[:count] for task in tasks]

    def _proposed(self, task: Task) -> list[Candidate]:
        measured = next(measured for measured in measured_tasks(DATA, held_out=True)
                        if measured.problem == task.problem and measured.device == task.device)
        failing = np.flatnonzero(np.isinf(measured.seconds))[:2]
        return [Candidate(measured.task[int(number)])
                for number in [*failing, int(np.nanargmin(measured.seconds))]]


def test_a_failing_pick_counts_as_the_default() -> None:
    failing = [measured for measured in measured_tasks(DATA, held_out=True) if np.isinf(measured.seconds).sum() >= 2]
    assert failing, "the synthetic kernel fails somewhere"
    for measured in failing:
        found = replayed([measured], {"trees": _Failing()}, ["trees"], (0, 3))[0]
        default = measured.time(measured.task.default)
        assert found.log_shares["trees", 0] == pytest.approx(math.log(measured.best / default))
        assert found.log_shares["trees", 3] == pytest.approx(0.0)


def test_where_a_space_was_not_exhausted_all_methods_choose_among_what_was_measured() -> None:
    frame = DATA.frame[~DATA.frame["held_out"] | (np.arange(len(DATA.frame)) % 2 == 0)]
    found = evaluate(Data(frame, DATA.devices), _checkpoint(), counts=(0,))
    left_out = sum(int((~measured.known).sum())
                   for measured in measured_tasks(Data(frame, DATA.devices), held_out=True))
    assert sum(row.unmeasured for row in found if row.method == "trees") == left_out > 0
    assert all(0 < row.share <= 1 for row in found)


def test_a_live_evaluation_measures_what_the_methods_propose() -> None:
    asked: dict[tuple[str, str], list[Configuration]] = {}

    def measure(problem: Problem, device: Device, configurations: Sequence[Configuration]) -> ComparedTimes:
        assert len(set(configurations)) == len(configurations)
        asked[problem.key, device.name] = list(configurations)
        return _measure(problem, device, configurations)

    queries = [(measured.problem, measured.device) for measured in measured_tasks(DATA, held_out=True)][:3]
    live = outcomes(DATA, None, ("random", "trees", "default"), (0, 5), 40, measure, queries)
    assert [(verdict.problem, verdict.device) for verdict in live] == list(asked)
    for verdict, (problem, device) in zip(live, queries, strict=True):
        times = [time_of(problem, device, configuration) for configuration in asked[verdict.problem, verdict.device]]
        assert verdict.log_shares["default", 0] == pytest.approx(math.log(min(times) / times[0]))
        assert verdict.log_shares["trees", 5] >= verdict.log_shares["trees", 0]
        recorded = next(measured for measured in measured_tasks(DATA, held_out=True)
                        if (measured.problem, measured.device) == (problem, device))
        assert set(recorded.fastest(RECORDED)) <= set(asked[verdict.problem, verdict.device])
    table = rows(live)
    assert {row.problems for row in table} <= {1, 2, 3}
    assert {row.ceiling for row in table} == {1.0}


def test_a_problem_on_which_nothing_runs_is_left_out_of_a_live_evaluation() -> None:
    place = DATA.devices["fake:wide"]
    broken, unprepared, good = [one.problem for one in measured_tasks(DATA, held_out=True) if one.device == place][:3]
    queries = [(problem, place) for problem in (broken, unprepared, good)]

    def measure(problem: Problem, device: Device, configurations: Sequence[Configuration]) -> ComparedTimes:
        if problem == unprepared:
            raise SeqtuneError("the operands cannot be prepared")
        failed = ComparedTimes(dict.fromkeys(configurations, math.inf), {}, {}, {})
        return failed if problem == broken else _measure(problem, device, configurations)

    told: list[tuple[Problem, str]] = []
    found = outcomes(DATA, None, ("random", "default"), (0,), 100, measure, queries,
                     lambda problem, reason: told.append((problem, reason)))
    assert [outcome.problem for outcome in found] == [good.key]
    assert told == [(broken, f"no configuration of {broken.brief()} ran on {place.name}"),
                    (unprepared, "the operands cannot be prepared")]
    with pytest.raises(SeqtuneError, match="operands"):
        evaluate(DATA, None, ("default",), measure=measure, queries=queries[:2])

    def closed(problem: Problem, device: Device, configurations: Sequence[Configuration]) -> ComparedTimes:
        raise UnavailableError("it does not open")

    with pytest.raises(UnavailableError):
        evaluate(DATA, None, ("default",), measure=closed, queries=queries)


def test_live_and_replayed_agree_where_everything_is_measured() -> None:
    methods = ("fixed", "nearest", "trees", "default")
    live = evaluate(DATA, None, methods, measure=_measure, sample=100_000)
    replayed = evaluate(DATA, None, methods)
    assert [row.share for row in live] == pytest.approx([row.share for row in replayed])


def test_the_ceiling_is_that_of_the_recorded_builds() -> None:
    frame = DATA.frame[DATA.frame["held_out"] & (DATA.frame["device"] == "fake:wide")]
    ran = frame[frame["status"] == "correct"]
    noise = np.exp(np.random.default_rng(0).normal(0, 0.05, (3, len(ran))))
    builds = [ran.assign(run="contest", seconds=ran["seconds"] * factors) for factors in noise]
    training = DATA.frame[~DATA.frame["held_out"]]
    for repeats, least, most in ((builds, 0.8, 0.99), (builds[:1] * 3, 1.0, 1.0)):
        found = evaluate(Data(pd.concat([training, frame, *repeats]), DATA.devices), None, ("default",), (0,))
        (ceiling,) = (row.ceiling for row in found)
        assert ceiling is not None
        assert least <= ceiling <= most


def test_the_parts_of_a_checkpoint_are_methods_and_trees_are_fitted_only_where_it_has_none() -> None:
    tasks = measured_tasks(DATA, held_out=False)
    bare = _checkpoint()
    ranker = Ranker.of(Trees(tasks, TreesOptions(rounds=5, models=1)))
    ranked = replace(bare, ranker=ranker)
    both = fitted(tasks[:2], ranked, ("seqtune", "transformer", "trees"))
    assert both["seqtune"] is ranked
    assert isinstance(both["trees"], TreesAlone)
    (found,) = both["transformer"].propose([tasks[0].task], 4)
    assert found == bare.propose([tasks[0].task], 4)[0]
    (best,) = both["trees"].propose([tasks[0].task], 1)
    assert best[0].configuration == tasks[0].task[int(np.argmin(Trees(tasks, TreesOptions(
        rounds=5, models=1)).predict(tasks[0].task.spaces)))]
    assert isinstance(fitted(tasks[:2], bare, ("trees",))["trees"], TreesAlone)
    with pytest.raises(MisuseError, match="transformer needs a checkpoint"):
        fitted(tasks[:2], None, ("transformer",))


def test_misuse_is_one_clear_line() -> None:
    with pytest.raises(MisuseError, match="no method 'oracle'"):
        evaluate(DATA, None, ("oracle",))
    with pytest.raises(MisuseError, match="needs a checkpoint"):
        evaluate(DATA, None, ("seqtune",))
    with pytest.raises(MisuseError, match="holds out no problem"):
        evaluate(Data(DATA.frame[~DATA.frame["held_out"]], DATA.devices), None, ("default",))
