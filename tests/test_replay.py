"""Replay answers from records, as if it measured."""

from __future__ import annotations

from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measure import Options
from seqtune.tuner.replay import Replay

DEVICE = Device("test:1", "test", "paper", "none")
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)
ONE, TWO = (Configuration.of("test.k", {"tile": tile}) for tile in (1, 2))


def record(configuration: Configuration, seconds: float, device: str = DEVICE.key) -> Record:
    return Record(PROBLEM, device, 1, configuration, "t", Measurement(Status.CORRECT, (seconds,)))


def test_what_was_recorded_comes_back_and_the_later_record_counts() -> None:
    replay = Replay(DEVICE, [record(ONE, 3.0), record(ONE, 2.0), record(TWO, 1.0, "another device")])
    assert len(replay) == 1
    assert (PROBLEM, ONE) in replay
    assert (PROBLEM, TWO) not in replay
    found = dict(replay.measure(PROBLEM, [TWO, ONE], Options()))
    assert found[ONE].seconds == 2.0
    assert found[TWO].status is Status.RUNTIME
    assert found[TWO].message == "not recorded on test:1"
    assert replay.compare(PROBLEM, [TWO, ONE], 3, Options()) == [found[TWO], found[ONE]]


def test_another_problem_is_not_recorded() -> None:
    replay = Replay(DEVICE, [record(ONE, 3.0)])
    ((_, found),) = replay.measure(Problem.make("gemm", m=9, n=4, k=5), [ONE], Options())
    assert found.status is Status.RUNTIME
