"""The budget of a network's verification: how the layers share it, and calls that stop at its end.

Only what verification adds to an optimisation counts: measurements, Inductor's compilation, and programs that are built
to be compared. The export and the prediction come before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seqtune.tuner.measuring.deadline import Deadline, OutOfTime

HALVINGS = 60  # the search for a factor halves its interval more often than a double has binary digits


def guarded(run: Callable[[], object], deadline: Deadline, reserve: float = 0.0) -> Callable[[], object]:
    """A call that raises OutOfTime instead of running where at most `reserve` seconds are left before the deadline."""
    def call() -> object:
        if deadline.left <= reserve:
            raise OutOfTime(f"{deadline.seconds - reserve:.3g} s are over")
        return run()

    return call


def divide(gains: Sequence[float], seconds: float, least: float, most: float) -> list[float]:
    """The seconds of each layer's verification, in proportion to its possible gain, from `least` to `most`.

    Layers without a gain get 0. Where there are fewer than `least` seconds for each, the layers with the smallest
    gains get 0, because a shorter verification chooses by luck.
    """
    order = sorted((index for index, gain in enumerate(gains) if gain > 0), key=lambda index: -gains[index])
    verified = order[:max(0, int(seconds / least))]
    shares = [0.0] * len(gains)
    if not verified:
        return shares
    wanted = min(seconds, len(verified) * most)
    low, high = 0.0, most / gains[verified[-1]]  # factors on the gains: the smallest and the largest possible one

    def limited(factor: float) -> list[float]:
        return [min(most, max(least, factor * gains[index])) for index in verified]

    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(limited(middle)) <= wanted else (low, middle)
    for index, share in zip(verified, limited(low), strict=True):
        shares[index] = share
    return shares


def rounds_within(seconds: float, round_seconds: float, fewest: int, most: int) -> int:
    """The number of rounds that fit into `seconds`, from `fewest` to `most`."""
    return max(fewest, int(min(most, seconds / max(round_seconds, 1e-9))))  # a clock may be too coarse for a round
