"""The probe repeats a round until the two fastest agree, and knows what it cannot measure."""

from __future__ import annotations

import pytest

from seqtune.kernels.devices.device import MEASURED
from seqtune.tuner.backends.llvm.compiler import instruction_sets
from seqtune.tuner.backends.llvm.probe import ROUNDS, SECONDS, fastest_round, probe
from tests.support.llvm import needs_llvm


def rounds_of(*durations: float) -> tuple[float, int]:
    """The result of `fastest_round`, and the number of rounds: each takes these seconds, further ones the last."""
    now, count = [0.0], [0]

    def work() -> None:
        now[0] += durations[min(count[0], len(durations) - 1)]
        count[0] += 1

    return fastest_round(work, clock=lambda: now[0]), count[0]


def test_interrupted_rounds_do_not_count() -> None:
    fastest, count = rounds_of(5e-4, 9e-4, 8e-4, 7e-4, 6e-4, 5.05e-4)
    assert fastest == pytest.approx(5e-4)
    assert count == 6, "until another round agrees with the fastest"


def test_equal_rounds_end_soon_and_noise_ends_in_time() -> None:
    assert rounds_of(1e-3)[1] == ROUNDS[0]
    falling = [1e-2 * 0.9**index for index in range(100)]
    fastest, count = rounds_of(*falling)
    assert fastest == pytest.approx(falling[count - 1])
    assert sum(falling[:count - 1]) <= SECONDS + falling[0]


@needs_llvm
def test_caches_that_are_not_known_have_no_rate() -> None:
    rates = probe(instruction_sets()[-1], 1, {1: 32 << 10, 2: 1 << 20, 3: 0})
    assert set(rates) == set(MEASURED)
    assert rates["l3_gbs"] == 0
    assert rates["wake_microseconds"] == 0, "one thread wakes no other"
    assert min(rates[name] for name in ("peak_gflops", "bandwidth_gbs", "l1_gbs", "gather_nanoseconds")) > 0
