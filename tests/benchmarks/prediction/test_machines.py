"""Leaving machines and runtimes out, on answers of a toy; and the pages of such results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.prediction.left_out import groups, left_out
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.task import Task
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions
from tests.support.measuring.instant import DEVICE, Instant

OTHER = replace(DEVICE, architecture="stone", l2_bytes=2 << 20)
OPENCL = replace(DEVICE, name="opencl:a", backend="opencl", toolchain="a")
PROBLEMS = [Problem.make("gemm", m=3 * 2 ** (index % 6), n=32 * 2 ** (index // 6), k=8 + index) for index in range(36)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Four trials of every problem on two machines."""
    def measured() -> Iterator[Dataset]:
        for device in (DEVICE, OTHER):
            path = tmp_path_factory.mktemp("toy") / "journal.sqlite"
            with Journal(path) as journal:
                for problem in PROBLEMS:
                    tune(Task.of(problem, device), journal, Instant(device), Budget(trials=4),
                         TuningOptions("random", finals=Finals(count=0)))
                yield Dataset.from_journal(journal)
    first, second = measured()
    return first.merge(second)


def test_machines_and_runtimes_can_be_left_out() -> None:
    runtime = replace(OPENCL, name="opencl:b", toolchain="b")
    here, there = (DEVICE, OPENCL), (OTHER,)
    assert groups(here) == {}
    assert groups((*here, *there)) == {"znver5": (DEVICE.key, OPENCL.key), "stone": (OTHER.key,)}
    assert groups((*here, runtime)) == {"opencl:a": (OPENCL.key,), "opencl:b": (runtime.key,)}
    elsewhere = replace(OPENCL, architecture="stone", l2_bytes=2 << 20)
    assert groups((*here, runtime, *there, elsewhere))["opencl:a"] == (OPENCL.key, elsewhere.key)


def test_an_evaluated_problem_is_on_no_other_device_and_nothing_near_it(data: Dataset) -> None:
    split = left_out(data, "stone", seed=1)
    assert split.devices == (OTHER.key,)
    assert set(split.without.devices) == {DEVICE.key}
    assert len(split.evaluated) == 18
    evaluated = [data.known_problems[key] for key in split.evaluated]
    for part in (split.without, split.with_few(2, seed=0)):
        training = [problem for problem in part.problems() if problem.key not in split.evaluated]
        assert training
        assert not any(near(problem, other) for problem in training for other in evaluated)
    assert not set(split.without.rows["problem"]) & split.evaluated
    assert len(split.with_few(2, seed=0).problems()) == 18 + 2
    with pytest.raises(MisuseError, match="problems to learn from; --few asks for 99"):
        split.with_few(99, seed=0)
    with pytest.raises(MisuseError, match="nothing to leave out is called 'moon'; there are stone, znver5"):
        left_out(data, "moon")
