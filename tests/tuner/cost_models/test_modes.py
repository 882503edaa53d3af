"""Modes of computing: the best estimate first, then other modes that are near."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.cost_models.analytic import estimates
from seqtune.tuner.cost_models.modes import NEAR, modes, order
from seqtune.tuner.cost_models.product_tiles import CONTRACT
from seqtune.tuner.cost_models.transfer import sources
from seqtune.tuner.strategies.portfolio import Portfolio
from tests.support.devices import described_gpu
from tests.support.tasks import context


def task() -> Task:
    """A task with 12 configurations of two numbers of stages, in two modes."""
    gpu = described_gpu("cuda", "h200")
    given = {"block_m": "tile", "block_n": "64", "block_k": "32", "gemm_m": "m", "gemm_n": "n", "gemm_k": "k",
             "element_bytes": "4", "blocks": "ceil_div(m, tile) * ceil_div(n, 64)", "block_threads": "128",
             "tensor": "0", "shared_bytes": "tile * 256", "stages": "ring", "thread_registers_estimate": "100"}
    kernel = Kernel.of(
        name="cuda.planted", operation="gemm", meaning="",
        parameters=[Parameter("ring", (1, 3, 4)), Parameter("tile", (16, 32, 64, 128))],
        derived=[(name, given.get(name, "1")) for name in CONTRACT], default={"ring": 1, "tile": 16})
    return Task.of(Problem.make("gemm", m=512, n=512, k=512), gpu, [kernel])


def test_rings_of_any_length_are_one_mode() -> None:
    labels = modes(task(), np.arange(12)).reshape(3, 4)
    assert len(np.unique(labels[0])) == 1
    assert len(np.unique(labels[1:])) == 1
    assert labels[0, 0] != labels[1, 0]


@pytest.mark.parametrize("apart", [1.0, NEAR * 1.01])
def test_the_best_of_a_near_mode_comes_second(apart: float) -> None:
    slower = [number * apart for number in (1.01, 1.02, 1.03, 1.04)]
    seconds = np.array([*slower, 1.0, 1.001, 1.002, 1.003, 2.0, 2.1, 2.2, 2.3])
    ordered = order(task(), seconds, 12).tolist()
    assert ordered[:3] == ([4, 0, 5] if apart == 1.0 else [4, 5, 6])
    assert sorted(ordered) == list(range(12))


def test_without_a_history_the_estimates_are_the_source_of_a_search() -> None:
    planted = task()
    source = sources(planted, ())
    assert source is not None
    assert source.prior.min() == 0
    assert int(source.prior.argmin()) == int(estimates(planted).argmin())
    (first,) = Portfolio(context(planted.spaces)).ask(1)
    assert planted.number(first) == int(estimates(planted).argmin())
