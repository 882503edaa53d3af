"""NetworkBudget: the seconds that the verification of one network may take, and how its layers share them.

Only what verification adds to an optimisation counts: measurements, Inductor's compilation, and programs that are built
to be compared. The export and the prediction come before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

NETWORK_SECONDS = 60.0  # by default; enough for some 20 layers
SLACK = 0.15  # share of the budget after its end in which a measurement of the network is still taken
HALVINGS = 60  # of an interval of factors; more than a double's digits


class OutOfTimeError(Exception):
    """A measurement would end too long after the budget; raised and caught within one verification."""


class NetworkBudget:
    """Seconds that are used while `running`. A network that is optimised in parts has a budget for each part."""

    def __init__(self, seconds: float, weight: float = 1.0, clock: Callable[[], float] = time.monotonic,
                 whole: NetworkBudget | None = None) -> None:
        """Start with nothing used. `weight` is that of all parts together; what a part uses, the `whole` uses, too."""
        self.seconds = seconds
        self._weight = weight
        self._clock = clock
        self._whole = whole
        self._used = 0.0
        self._began: float | None = None

    def part(self, weight: float) -> NetworkBudget:
        """The budget of one part: its share of what is left, by its weight among the parts that have none yet."""
        share = min(1.0, weight / self._weight) if self._weight > 0 else 1.0
        self._weight -= weight
        return NetworkBudget(share * max(0.0, self.left()), weight, self._clock, self)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of a block as used."""
        self._began = self._clock()
        try:
            yield
        finally:
            elapsed, self._began = self._clock() - self._began, None
            budget: NetworkBudget | None = self
            while budget is not None:
                budget._used += elapsed
                budget = budget._whole

    def used(self) -> float:
        """The seconds used so far."""
        return self._used + (0.0 if self._began is None else self._clock() - self._began)

    def left(self) -> float:
        """The seconds left; below 0 after an overrun."""
        return self.seconds - self.used()

    def guarded(self, run: Callable[[], object], reserve: float | None = None) -> Callable[[], object]:
        """A call that raises OutOfTimeError instead, once fewer than `reserve` seconds are left.

        Without a reserve, it does so once SLACK of the budget has passed after its end.
        """
        least = -SLACK * self.seconds if reserve is None else reserve

        def call() -> object:
            if self.left() < least:
                raise OutOfTimeError
            return run()

        return call


def divide(gains: Sequence[float], seconds: float, least: float, most: float) -> list[float]:
    """The seconds of each layer's verification, in proportion to what it may gain, from `least` to `most`; 0: none.

    Layers without a gain get none. Where the seconds are too few for `least` of each, the layers with the smallest
    gains get none, because a shorter verification chooses by luck.
    """
    order = sorted((index for index, gain in enumerate(gains) if gain > 0), key=lambda index: -gains[index])
    verified = order[:max(0, int(seconds / least))]
    shares = [0.0] * len(gains)
    if not verified:
        return shares
    wanted = min(seconds, len(verified) * most)
    low, high = 0.0, most / gains[verified[-1]]  # factors on the gain: the least of all, and the most of all

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
    return max(fewest, int(min(most, seconds / max(round_seconds, 1e-9))))
