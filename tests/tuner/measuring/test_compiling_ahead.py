"""A runner has several kernels compiled before its worker measures them, and gives up what takes too long."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

import pytest

from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.compilers import COMPILERS_AHEAD, compiler_ahead
from seqtune.tuner.backends.cuda.cubins_ahead import CubinsAhead
from seqtune.tuner.measuring import runner as runners
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support import planted

OPTIONS = Options(samples=1)


class AheadRecorder:
    """Stands in for a compiler ahead: it keeps what the runner gives it, and answers with these futures."""

    def __init__(self, futures: Sequence[Future[bool]] = ()) -> None:
        self.futures = list(futures)
        self.batches: list[list[Configuration]] = []
        self.stopped = 0

    def start(self, problem: Problem, configurations: Sequence[Configuration]) -> list[Future[bool]]:
        self.batches.append(list(configurations))
        return self.futures

    def stop(self) -> None:
        self.stopped += 1


def test_a_batch_is_compiled_ahead_and_a_single_kernel_is_not() -> None:
    done: Future[bool] = Future()
    done.set_result(False)
    batch = [planted.deed("good"), planted.deed("compile"), planted.deed("good", 1)]
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
        runner._ahead = recorder = AheadRecorder([done])
        assert [answered for answered, _ in runner.measure(planted.PROBLEM, batch, OPTIONS)] == batch
        list(runner.measure(planted.PROBLEM, batch[:1], OPTIONS))  # the worker compiles it as fast
        assert (recorder.batches, recorder.stopped) == ([batch], 0)
    assert recorder.stopped == 1


def test_what_is_not_compiled_within_its_allowance_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "processors", lambda: 2)
    monkeypatch.setattr(Runner, "open", lambda runner, seconds: 0.02)
    recorder = AheadRecorder([Future() for _ in range(5)])
    runner = Runner(planted.DEVICE, planted.BACKEND)
    runner._ahead = recorder
    began = time.monotonic()
    runner._compile(planted.PROBLEM, [planted.deed("good")] * 5, replace(OPTIONS, build_seconds=0.01), Deadline())
    assert time.monotonic() - began >= 0.06  # three sources on each of two cores
    assert recorder.stopped == 1


def test_a_worker_is_not_awaited_where_nothing_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(runner: Runner, seconds: float) -> float:
        raise AssertionError("opened")

    monkeypatch.setattr(Runner, "open", opened)
    runner = Runner(planted.DEVICE, planted.BACKEND)
    for runner._ahead in (None, AheadRecorder()):
        runner._compile(planted.PROBLEM, [planted.deed("good")] * 2, OPTIONS, Deadline())


def test_nothing_is_awaited_beyond_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "open", lambda runner, seconds: 1000.0)
    recorder = AheadRecorder([Future()])
    runner = Runner(planted.DEVICE, planted.BACKEND)
    runner._ahead = recorder
    runner._compile(planted.PROBLEM, [planted.deed("good")] * 2, OPTIONS, Deadline(0.01))
    assert recorder.stopped == 1


def test_only_backends_of_this_package_have_a_compiler_ahead() -> None:
    device = described("cuda", "h100")
    assert device is not None
    assert isinstance(Runner(device)._ahead, CubinsAhead)
    assert Runner(device, "stranger:Backend")._ahead is None
    assert Runner(planted.DEVICE)._ahead is compiler_ahead(planted.DEVICE) is None
    assert all(callable(resolve(reference)) for reference in COMPILERS_AHEAD.values())
