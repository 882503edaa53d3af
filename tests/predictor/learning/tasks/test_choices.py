"""Choices without times: trees and a translator learn what another tuner would choose, and copies count once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seqtune.data.chosen_tasks import chosen_tasks
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.predictor.learning.tasks.sampled_problems import SampledProblems, drawn_gpu
from seqtune.predictor.learning.tasks.training import train_model
from seqtune.predictor.trees.choice_rows import choice_rows
from seqtune.predictor.trees.cost_trees import Trees
from tests.support.learning.chosen import KERNEL, OPTIONS, TOKENS, TREES, choice_of, chosen_dataset

TASKS = chosen_tasks(chosen_dataset())


def test_equal_choices_on_gpus_of_one_chip_count_once() -> None:
    assert len(TASKS) == 2 * 2 * len(TOKENS)
    assert {float(task.weights.sum()) for task in TASKS} == {1.0}
    same = chosen_tasks(chosen_dataset(["a100", "a800"]))
    assert {float(task.weights.sum()) for task in same} == {0.5}


def test_the_agreement_is_the_share_of_parameters_with_the_chosen_value() -> None:
    task = TASKS[0]
    (chosen,) = task.numbers.tolist()
    differing = task.task.differences(chosen, np.arange(len(task.task)))
    agreed = task.agreement(np.arange(len(task.task)))
    free = round(1 / (1 - agreed[differing == 1].max()))
    assert agreed[chosen] == 1.0
    assert np.allclose(agreed, 1 - differing / free)


def test_rejected_rows_are_drawn_around_the_analytic_models_best_and_drawing_is_corrected_for() -> None:
    (part,) = choice_rows(TASKS[0], seed=0)
    assert part.rows[0] == TASKS[0].numbers[0]
    assert part.share.tolist() == [1.0, *[0.0] * (len(part) - 1)]
    assert len({*np.round(part.log_draws, 6).tolist()}) == 2  # fast ones are drawn more often
    assert part.log_draws.max() > 0 > part.log_draws.min()


def test_trees_rank_the_choices_of_problems_that_they_have_not_seen() -> None:
    unseen = [task for task in TASKS if task.problem.size("m") == 32]
    trees = Trees([task for task in TASKS if task.problem.size("m") != 32], TREES)
    ranks = []
    for task in unseen:
        slowness = trees.predict(task.task.spaces)
        ranks.append(float((slowness < slowness[task.numbers[0]]).mean()))
    assert np.median(ranks) < 0.05


def test_sampled_problems_of_gpus_are_on_gpus_that_nobody_built() -> None:
    models = [(task.problem, task.device) for task in TASKS]
    problems = SampledProblems(models, [], {KERNEL}, seed=0)
    tasks = [problems.task(number) for number in range(40)]
    assert {task.problem for task in tasks} <= {problem for problem, _ in models}
    assert len({task.device for task in tasks}) == 40
    assert {task.device.local_memory for task in tasks} == {device.local_memory for _, device in models}
    assert 0 < sum(task.device.peak_gflops == 0 for task in tasks) < 20  # unknown
    assert problems.task(3).device == tasks[3].device
    cpu = Device("llvm:avx2:2", "llvm", "znver5", "avx2")
    generator = np.random.default_rng(0)
    before = generator.bit_generator.state
    assert drawn_gpu(cpu, generator) is cpu
    assert generator.bit_generator.state == before


def test_a_training_on_choices_alone_gives_a_checkpoint_that_proposes_them() -> None:
    checkpoint, report = train_model(TASKS, [], replace(OPTIONS, seed=1))
    assert checkpoint.ranker is not None
    assert checkpoint.estimator is None
    assert report["cases"] + report["validation_cases"] == len(TASKS)
    problem = Problem.make("scaled_gemm", m=64, n=2048, k=2048)
    task = checkpoint.task(problem, TASKS[0].device)
    (candidates,) = checkpoint.propose([task], 3)
    wanted = dict(choice_of(problem).settings)
    assert max(sum(dict(candidate.configuration.settings)[name] == value for name, value in wanted.items())
               for candidate in candidates) >= 8
