"""A device's rates are measured again and again until the best values agree."""

from __future__ import annotations

from collections.abc import Sequence

from seqtune.tuner.backends.measured_rates import Values, best_agree, repeat_until_agreement


def test_measuring_is_repeated_until_the_best_agree_or_the_time_is_over() -> None:
    values, now = iter([5.0, 9.0, 4.0, 6.0, 4.1, 4.0]), [0.0]

    def measure() -> Values:
        now[0] += 1.0
        return {"kernel": next(values)}

    def agree(measured: Sequence[Values]) -> bool:
        return best_agree([seconds["kernel"] for seconds in measured], 0.05)

    def repetitions(seconds: float) -> int:
        return len(repeat_until_agreement(measure, agree, 3, seconds, lambda: now[0], lambda pause: None))

    assert repetitions(60.0) == 5
    values = iter([5.0, 9.0, 4.0, 6.0, 8.0])
    assert repetitions(3.5) == 4
    assert best_agree([5.0, 9.8, 10.0], 0.05, largest=True)
