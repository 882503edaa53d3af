"""CLBlast's data: which products are tuned, and which configurations are planned for them."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.data.clblast_collect import fast
from benchmarks.data.clblast_plan import Plan, drawn, promising
from benchmarks.data.clblast_problems import FURTHER, HELD_OUT, TUNED, held_out, training, tuned
from benchmarks.kernels.clblast import halves, row_of, summary
from seqtune.data.record import Measurement, Status
from seqtune.kernels.clblast import xgemm, xgemm_direct
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from tests.support.oddities import CPU

FAMILIES = (xgemm_direct.KERNEL, xgemm.KERNEL)
PRODUCT = Problem.make("gemm", m=64, n=64, k=64)


def test_no_held_out_product_is_near_a_tuned_one() -> None:
    assert len(held_out()) == HELD_OUT >= 20
    assert len(tuned()) == TUNED >= 60
    assert not any(near(one, other) for one in held_out() for other in training())
    assert training()[:TUNED] == tuned()
    assert len(training()) == TUNED + FURTHER
    assert held_out() == held_out()


def test_a_plan_keeps_its_order_and_marks_what_is_for_held_out_products(tmp_path: Path) -> None:
    plan = Plan(tmp_path / "plan.jsonl")
    chosen = drawn(xgemm.KERNEL, CPU, 12, seed=0)
    assert chosen[0] == SearchSpace(xgemm.KERNEL, PRODUCT, CPU).default
    assert plan.add(chosen[:8]) == 8
    assert plan.add(chosen, held_out=True) == 4
    assert plan.configurations() == chosen
    assert plan.for_held_out() == set(chosen[8:])
    values = [len({configuration[name] for configuration in chosen}) for name in ("GEMMK", "MWG", "VWM")]
    assert min(values) > 1


def test_trees_propose_configurations_that_were_not_tried() -> None:
    task = Task.of(PRODUCT, CPU, FAMILIES)
    tried = [configuration for family in FAMILIES for configuration in drawn(family, CPU, 20, seed=1)]
    times = {PRODUCT: {configuration: 1e-3 + 1e-5 * index for index, configuration in enumerate(tried)}}
    chosen = promising(times, CPU, FAMILIES, 3, 2, seed=0)
    assert chosen
    assert not set(chosen) & set(tried)
    assert all(task.find(configuration) is not None for configuration in chosen)


def test_further_products_get_what_was_fast_on_a_tuned_one() -> None:
    one, two, three = (Configuration.of("k.k", {"x": value}) for value in (1, 2, 3))
    other = Problem.make("gemm", m=32, n=64, k=64)
    compared = {PRODUCT: {one: [2.0, 2.0, 2.0], two: [2.1, 2.1, 9.0], three: [1.0, 3.0, 3.0]}, other: {two: [1.0]}}
    assert fast(compared, [PRODUCT, other]) == [two, one]


def test_a_method_that_measures_chooses_by_other_rounds_than_those_that_judge_it() -> None:
    one, two, three = (Configuration.of("k.k", {"x": value}) for value in (1, 2, 3))
    measured = {one: correct(4.0, 1.0, 4.0, 1.0), two: correct(*4 * [2.0]), three: correct(*4 * [3.0])}
    methods = {"default": [two], "zero-shot": [one], "five proposals": [one, two], "nearest": [two],
               "nearest five": [two], "random five": [two]}
    row = row_of(PRODUCT, methods, measured, 7)
    assert row["seconds"]["five proposals"] == row["seconds"]["oracle"] == 4.0
    assert row["best"] == 2.0
    means = summary([row])
    assert means["zero-shot"]["over_default"] == 0.5
    assert math.isclose(means["default"]["share"], 1.0)


def test_a_round_in_which_all_were_slow_changes_no_time_and_a_failure_is_never_chosen() -> None:
    one, two, three = (Configuration.of("k.k", {"x": value}) for value in (1, 2, 3))
    measured = {one: correct(1.0, 5.0, 1.0, 1.0), two: correct(2.0, 10.0, 2.0, 2.0), three: Measurement(Status.RUNTIME)}
    assert halves(measured) == {one: (1.0, 1.0), two: (2.0, 2.0), three: (math.inf, math.inf)}


def correct(*samples: float) -> Measurement:
    """Make a measurement with these seconds."""
    return Measurement(Status.CORRECT, samples)
