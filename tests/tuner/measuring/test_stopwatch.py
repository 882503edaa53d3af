"""A deadline that is paused, by a clock that runs in some blocks only, and the parts of one."""

from __future__ import annotations

import pytest

from seqtune.tuner.measuring.deadline import Deadline, Stopwatch


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The seconds now."""
        return self.now


def test_a_deadline_is_paused_outside_the_blocks() -> None:
    clock = Clock()
    stopwatch = Stopwatch(clock)
    deadline = Deadline(10.0, stopwatch)
    twice = deadline.scaled(2.0)
    clock.now = 5.0
    assert deadline.left == 10.0
    with stopwatch.running():
        clock.now = 7.0
        assert (deadline.elapsed, deadline.left, twice.left) == (2.0, 8.0, 18.0)
    clock.now = 50.0
    assert deadline.left == 8.0

    def interrupted() -> None:
        with stopwatch.running():
            clock.now = 61.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (deadline.elapsed, deadline.left, twice.left) == (13.0, 0.0, 7.0)


def test_each_part_has_a_share_of_what_the_earlier_ones_left() -> None:
    clock = Clock()
    stopwatch = Stopwatch(clock)
    whole = Deadline(60.0, stopwatch)
    first = whole.part(0.5)
    assert first.seconds == 30.0
    with stopwatch.running():
        clock.now += 20.0  # 10 of its seconds are left for the others
    second = whole.part(1 / 3)
    assert second.seconds == pytest.approx(40.0 / 3)
    assert second.elapsed == 0.0
    with stopwatch.running():
        clock.now += 30.0
    assert (second.elapsed, second.left, whole.left) == (30.0, 0.0, 10.0)
    assert whole.part(1.0).seconds == 10.0
