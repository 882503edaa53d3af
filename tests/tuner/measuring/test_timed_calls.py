"""Plain calls in rounds."""

from __future__ import annotations

from functools import partial

from seqtune.tuner.measuring.timed_calls import time_calls


def test_every_call_is_warmed_up_and_sampled_once_in_each_round() -> None:
    calls: list[str] = []
    taken = time_calls({"a": partial(calls.append, "a"), "b": partial(calls.append, "b")}, rounds=3,
                       sample_seconds=1e-9)
    assert {name: len(samples) for name, samples in taken.items()} == {"a": 3, "b": 3}
    assert all(sorted(calls[2 + 4 * turn:6 + 4 * turn]) == ["a", "a", "b", "b"] for turn in range(3))


def test_the_rounds_have_different_orders() -> None:
    calls: list[str] = []
    time_calls({name: partial(calls.append, name) for name in "abc"}, rounds=8, sample_seconds=1e-9)
    orders = {tuple(dict.fromkeys(calls[3 + 6 * turn:9 + 6 * turn])) for turn in range(8)}
    assert len(orders) > 1


def test_the_program_rests_before_each_sample_if_it_is_asked_to() -> None:
    rests: list[float] = []
    time_calls({"a": int, "b": int}, rounds=2, sample_seconds=1e-9, rest=0.5, sleep=rests.append)
    assert rests == [0.5] * 4
