"""Random search: configurations drawn uniformly, without replacement, from the union of the spaces."""

from __future__ import annotations

from collections.abc import Sequence

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.union import numbered, shuffled


class Random:
    """The baseline that every other strategy must beat at the same budget; without a budget, all configurations."""

    def __init__(self, spaces: Sequence[SearchSpace], seed: int, trials: int | None = None) -> None:
        self.spaces = spaces
        self._left = shuffled(spaces, seed)[::-1]

    def ask(self, count: int) -> list[Configuration]:
        return [numbered(self.spaces, self._left.pop()) for _ in range(min(count, len(self._left)))]

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        """Nothing is learned."""
