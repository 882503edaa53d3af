"""PairedTimes: the times of our code and of PyTorch's, which take turns, and which of them is clearly faster."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median

from seqtune.tuner.backends.backend import wall_clock
from seqtune.tuner.measuring.timing import sample
from seqtune.tuner.measuring.verification import signed_rank_p_value

ROUNDS = 11  # the least p-value of the signed-rank test is 2**-11
SAMPLE_SECONDS = 5e-4
ERROR_LEVEL = 0.01  # probability that equal times look clearly different, if the noise of the rounds is independent


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """Seconds of one call in each round; the two of a round are neighbours, so that a slow machine slows both."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    def theirs_is_faster(self, margin: float) -> bool:
        """Whether theirs is clearly faster by more than the margin, a share of its time.

        The rounds say so in a one-sided signed-rank test, and the median of their ratios and the least times do, too:
        a test alone would also find a lead that only noise has.
        """
        ratios = [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]
        return (min(median(ratios), min(self.ours) / min(self.theirs)) > 1 + margin
                and signed_rank_p_value(self.ours, self.theirs, margin) < ERROR_LEVEL)


def in_turns(runs: Mapping[str, Callable[[], object]], rounds: int = ROUNDS,
             sample_seconds: float = SAMPLE_SECONDS) -> dict[str, tuple[float, ...]]:
    """The seconds of each call, by round. The order within a round is random, with a fixed seed.

    Each is called once at first, to warm up, and once before each sample, because the call before it used the caches.
    """
    calls = {name: sample(partial(wall_clock, run), sample_seconds, 1)[1] for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    generator = random.Random(rounds)
    for _ in range(rounds):
        for name, run in generator.sample(list(runs.items()), len(runs)):
            run()
            seconds, calls[name] = sample(partial(wall_clock, run), sample_seconds, calls[name])
            samples[name].append(seconds)
    return {name: tuple(taken) for name, taken in samples.items()}
