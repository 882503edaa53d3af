"""ChargedMeasurer: searches share a cache of compiled kernels, and each pays for its builds as if it were alone.

PoCL stores what it compiled, so a configuration that an earlier search tried is built in milliseconds. This saves most
of a comparison's time. The elapsed time of a search is then its own time and its debt: the seconds that these builds
took when they were made first. They are written down at once (`BuildSeconds`), so that a search which was interrupted
and begins again pays for them, too.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

from seqtune.data.record import Measurement
from seqtune.errors import FormatError
from seqtune.kernels.files import read_bounded
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.measuring.timing import Options

LARGEST_FILE = 10_000_000  # bytes of a file of builds
FROM_CACHE = 0.5  # a build that takes less than this share of the first one's seconds was answered by the cache


class BuildSeconds:
    """The seconds in which each configuration of a task was built first, in a file with a line for each build."""

    def __init__(self, path: Path, task: Task) -> None:
        """Read the file, if it exists. Raises FormatError."""
        self._path, self._task = path, task
        self._seconds: dict[Configuration, float] = {}
        lines = read_bounded(path, LARGEST_FILE).splitlines() if path.is_file() else []
        try:
            for number, seconds in (line.split() for line in lines):
                self._keep(task[int(number)], float(seconds))
        except (IndexError, ValueError):
            raise FormatError(f"{path} does not hold builds; remove it") from None

    def __getitem__(self, configuration: Configuration) -> float:
        return self._seconds.get(configuration, 0.0)

    def add(self, configuration: Configuration, seconds: float) -> None:
        """Write down a build, unless an earlier one of this configuration took longer."""
        if seconds > self[configuration]:
            self._keep(configuration, seconds)
            with self._path.open("a") as file:
                file.write(f"{self._task.number(configuration)} {seconds!r}\n")

    def _keep(self, configuration: Configuration, seconds: float) -> None:
        self._seconds[configuration] = max(seconds, self[configuration])


class ChargedMeasurer:
    """A Measurer that passes requests on to another one and adds up its debt, in seconds."""

    def __init__(self, measurer: Measurer, builds: BuildSeconds) -> None:
        self.measurer, self.builds = measurer, builds
        self.device = measurer.device
        self.debt = 0.0

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Yield each configuration with its measurement, and charge its build."""
        with closing(self.measurer.measure(problem, configurations, options, best)) as measuring:
            for configuration, measurement in measuring:
                first = self.builds[configuration]
                if measurement.build_seconds < FROM_CACHE * first:
                    self.debt += first - measurement.build_seconds
                self.builds.add(configuration, measurement.build_seconds)
                yield configuration, measurement

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """Compare without a charge: a search has built what it compares."""
        return self.measurer.compare(problem, configurations, rounds, options)
