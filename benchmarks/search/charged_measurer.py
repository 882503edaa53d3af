"""ChargedMeasurer: searches share a cache of compiled kernels, and each pays for its builds as if it were alone.

PoCL stores what it compiled, so a configuration that an earlier search tried is built in milliseconds. This saves most
of a comparison's time. The elapsed time of a search is then its own time and its debt: the seconds that these builds
took when they were made first.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.measuring.timing import Options

FROM_CACHE = 0.5  # a build that takes less than this share of the first one's seconds was answered by the cache


class ChargedMeasurer:
    """A Measurer that passes requests on to another one and adds up its debt, in seconds.

    `first` are the seconds in which configurations were built first, by an earlier search.
    """

    def __init__(self, measurer: Measurer, first: Mapping[Configuration, float]) -> None:
        self.measurer, self.first = measurer, first
        self.device = measurer.device
        self.debt = 0.0

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Yield each configuration with its measurement, and charge its build."""
        with closing(self.measurer.measure(problem, configurations, options, best)) as measuring:
            for configuration, measurement in measuring:
                first = self.first.get(configuration, 0.0)
                if measurement.build_seconds < FROM_CACHE * first:
                    self.debt += first - measurement.build_seconds
                yield configuration, measurement

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """Compare without a charge: a search has built what it compares."""
        return self.measurer.compare(problem, configurations, rounds, options)
