"""Comparison: which of several kernels or programs is faster, by samples that were taken in rounds.

Each round takes one sample of every kernel, in a new random order, so that a change of the machine's speed affects all
alike and none always follows the same predecessor. The samples of a round are paired. Rounds may come in batches, each
with newly built kernels and new buffers, because luck of addresses lasts as long as a build.

Where one must be chosen, the least `typical` time counts, the median of the levelled rounds. A claim that a kernel is
faster than a reference (`faster_than`) demands a signed-rank test with Holm's correction, a median lead of more than a
margin in every batch, and a smaller least time. Ranks make single outliers harmless. If the noise of the rounds is
independent, the probability of any false claim is at most the level. Luck that lasts a batch defeats the test, but it
rarely lasts in all batches.

This table is for five candidates, six batches of eight rounds and simulated noise (1,000 comparisons of each kind, as
in `tests/tuner/measuring/test_rules_of_comparison.py`). A false win is a claim about any of five candidates that are as
fast as the reference. A miss is no claim about a candidate that is 5 % faster:

    noise                                      false wins  misses  false wins without the demand on every batch
    quiet, builds differ by 1 %                     0.4 %    2 %    0.6 %
    builds differ by 2 % by luck                    1.2 %   41 %    9.2 %
    launches that vary by 20 %                      0.8 %   97 %    1.3 %
    a shared host, launches of 1 ms                 0.1 %   55 %    0.1 %
    a shared host, launches of 20 ms                1.0 %   89 %    2.2 %

The least time as the only rule has 50 to 80 % false wins there, means with Welch's test up to 3.6 % and 45 to 99 %
misses. Real configurations that were compared with themselves on two busy cores (1,080 comparisons, from 180
measurements of which 178 were under heavy load) won in 0.5 %, and 29 % of planted leads of 5 % were missed.

A disturbance that meets one kernel more often than the others in all batches defeats the rule: of 200 such simulations,
5.5 % had a false win for launches that vary by 20 %, and 7.0 % for launches of 20 ms on a shared host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from seqtune.data.builds import levelled

Name = TypeVar("Name", bound=Hashable)
Samples = Mapping[Name, Sequence[float]]  # name -> its seconds, by round


@dataclass(frozen=True, slots=True)
class Rule:
    """The demands on a claim that a kernel or program is faster than the reference."""

    margin: float = 0.01  # relative lead that counts as a tie
    level: float = 0.01  # probability of any false claim, over all candidates together
    batches: int = 1  # parts of the rounds, equally long, in each of which the median lead must exceed the margin


def sample_in_rounds(take: Callable[[int], float | None], count: int, rounds: int, seed: int,
                     goes_on: Callable[[int], bool] = lambda whole: True) -> list[tuple[float, ...]]:
    """Sample each index below `count` once in a round, in a new random order; return the samples by index and round.

    `take` is called with an index and returns seconds, or None where the kernel does not run, or no longer. `goes_on`
    is called before every sample with the number of whole rounds so far. Where it returns False, the rounds end, and
    the samples of a round that has begun are dropped.
    """
    samples: list[list[float]] = [[] for _ in range(count)]
    generator = np.random.default_rng(seed)
    for whole in range(rounds):
        taken: dict[int, float] = {}
        for index in generator.permutation(count).tolist():
            if not goes_on(whole):
                return [tuple(own) for own in samples]
            seconds = take(index)
            if seconds is not None:
                taken[index] = seconds
        for index, seconds in taken.items():
            samples[index].append(seconds)
    return [tuple(own) for own in samples]


def level_rounds(samples: Samples[Name]) -> dict[Name, NDArray[np.float64]]:
    """The samples with all rounds on one level: a round in which the machine was slower, for all alike, is scaled.

    Where the numbers of rounds differ, the samples stay as they are, because nothing tells which belong to one round.
    """
    taken = {name: np.asarray(seconds, float) for name, seconds in samples.items()}
    if len(set(map(len, taken.values()))) != 1:
        return taken
    return dict(zip(taken, levelled(np.array(list(taken.values())).T).T, strict=True))


def typical(samples: Samples[Name]) -> dict[Name, float]:
    """The seconds by which names are ranked: the median of the levelled rounds; infinite without samples."""
    return {name: float(np.median(rounds)) if len(rounds) else math.inf
            for name, rounds in level_rounds(samples).items()}


def faster_than(reference: Name, samples: Samples[Name], rule: Rule) -> list[Name]:
    """List the names that are clearly faster than the reference, the fastest first by `typical`.

    A name with another number of rounds than the reference is left out: its samples are no pairs.
    """
    paired = {name: taken for name, taken in samples.items() if len(taken) == len(samples[reference]) > 0}
    if len(paired) < 2:
        return []
    p_values = {name: p_value(paired[reference], taken, rule.margin)
                for name, taken in paired.items() if name != reference}
    seconds = typical(paired)
    return sorted((name for name in holm(p_values, rule.level)
                   if leads_in_every_batch(paired[reference], paired[name], rule)
                   and min(paired[name]) < min(paired[reference])), key=seconds.__getitem__)


def leads_in_every_batch(reference: Sequence[float], samples: Sequence[float], rule: Rule) -> bool:
    """Whether the median lead over the reference exceeds the rule's margin in every batch."""
    leads = np.asarray(reference) / np.asarray(samples)
    return all(np.median(part) > 1 + rule.margin for part in np.array_split(leads, min(rule.batches, len(leads))))


def holm(p_values: Mapping[Name, float], level: float) -> list[Name]:
    """Holm's step-down procedure: the names whose hypotheses are rejected, smallest p-value first.

    The probability that any true hypothesis is rejected is at most `level`.
    """
    rejected: list[Name] = []
    for name, probability in sorted(p_values.items(), key=lambda item: item[1]):
        if probability > level / (len(p_values) - len(rejected)):
            break
        rejected.append(name)
    return rejected


def p_value(reference: Sequence[float], samples: Sequence[float], margin: float = 0.0) -> float:
    """The exact one-sided p-value of Wilcoxon's signed-rank test that `samples` do not lead by more than the margin.

    >>> p_value([1.3] * 12, [1.0] * 12) == 2.0 ** -12
    True
    """
    lead = np.log(np.asarray(reference) / np.asarray(samples)) - math.log1p(margin)
    lead = lead[lead != 0]
    if not len(lead):
        return 1.0
    _, indices, counts = np.unique(np.abs(lead), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (2 * ends - counts + 1)[indices]  # twice the mean rank, whole numbers even with ties
    # the distribution of the sum of positive ranks when every sign is a fair coin
    share = np.zeros(int(ranks.sum()) + 1)
    share[0] = 1.0
    for rank in ranks:
        share[rank:] = (share[rank:] + share[:-rank]) / 2
        share[:rank] /= 2
    return float(share[int(ranks[lead > 0].sum()):].sum())
