"""A runner has several kernels compiled before its worker measures them, and gives up what takes too long."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.compilers import compile_all
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


def batch_of(count: int) -> list[Configuration]:
    return [planted.deed("good")] * count


def test_a_batch_is_compiled_ahead_and_a_single_kernel_is_not() -> None:
    done: Future[bool] = Future()
    done.set_result(False)
    batch, recorder = [planted.deed("good"), planted.deed("compile"), planted.deed("good", 1)], AheadRecorder([done])
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH, recorder) as runner:
        assert [answered for answered, _ in runner.measure(planted.PROBLEM, batch, OPTIONS)] == batch
        list(runner.measure(planted.PROBLEM, batch[:1], OPTIONS))  # the worker compiles it as fast
        assert (recorder.batches, recorder.stopped) == ([batch], 0)
    assert recorder.stopped == 1


def test_what_is_not_compiled_within_its_allowance_is_given_up() -> None:
    recorder, began = AheadRecorder([Future() for _ in range(5)]), time.monotonic()
    compile_all(recorder, planted.PROBLEM, batch_of(5), lambda: 0.02, math.inf, cores=2)
    assert time.monotonic() - began >= 0.06  # three sources on each of two cores
    assert recorder.stopped == 1


def test_nothing_is_awaited_beyond_the_deadline() -> None:
    recorder = AheadRecorder([Future()])
    compile_all(recorder, planted.PROBLEM, batch_of(2), lambda: 1000.0, 0.01)
    assert recorder.stopped == 1
