"""The probe repeats a round until the two fastest agree, and knows what it cannot measure."""

from __future__ import annotations

import pytest

from seqtune.tuner.backends.llvm.probe import ROUNDS, SECONDS, fastest_round


def rounds_of(*durations: float) -> tuple[float, int]:
    """The result of `fastest_round`, and the number of rounds: each takes these seconds, further ones the last."""
    now, count = [0.0], [0]

    def work() -> None:
        now[0] += durations[min(count[0], len(durations) - 1)]
        count[0] += 1

    return fastest_round(work, clock=lambda: now[0]), count[0]


def test_equal_rounds_end_soon_and_noise_ends_in_time() -> None:
    assert rounds_of(1e-3)[1] == ROUNDS[0]
    falling = [1e-2 * 0.9**index for index in range(100)]
    fastest, count = rounds_of(*falling)
    assert fastest == pytest.approx(falling[count - 1])
    assert sum(falling[:count - 1]) <= SECONDS + falling[0]
