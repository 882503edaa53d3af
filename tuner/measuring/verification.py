"""Verification: measure the proposed configurations beside the safe default, and name a winner that can be trusted.

Two stages within a time budget. First each configuration is checked and timed alone; failures drop out, and so does
what takes more than HOPELESS times the best. Then the survivors and the default are run in rounds, every one of them
once a round, so that a change of the machine's speed meets all alike; the rounds' samples are paired. The rounds come
in BATCHES, each with newly made kernels and buffers, so that no candidate wins by a lucky address. Batches build in a
random order, and every round runs in one: nobody has the same predecessor throughout.

The winner is the default unless a candidate beats it significantly: for each candidate a one-sided Wilcoxon signed-rank
test of log(default / candidate) - log(1 + MARGIN) over the rounds, exact, with Holm's correction over the candidates at
ERROR_LEVEL; and its median lead must exceed MARGIN in every batch, and its least time must be less. Ranks make single
outliers harmless. So the chance that any candidate which is not more than MARGIN faster wins is at most ERROR_LEVEL,
where noise differs from round to round. Luck that lasts a batch defeats the test, but seldom all batches: where each
build is 2 % faster or slower by luck, one of five candidates as fast as the default wins in 0.4 % of simulations (with
3 batches in 5 %, with 3 % of luck in 1.4 %).
Among those that beat the default the least time wins; its lead over the other candidates is not tested. The verdict
depends on the measurements alone, so it can be drawn again from a journal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqtune.data.record import Measurement, Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from .budget import SECONDS
from .runner import Measurer
from .timing import Options

ERROR_LEVEL = 0.01  # of a false win, over all candidates of one verification
MARGIN = 0.01  # what counts as a tie: not worth leaving the default for
HOPELESS = 1.3  # times the best of stage one; noise between stages is far smaller
BATCHES = 6  # building anew takes some tens of milliseconds per finalist
FEWEST_ROUNDS = 3  # a batch: one outlier moves no median, and 2**-18 leaves room for any number of candidates
MOST_ROUNDS = 25  # a batch: enough to see a lead of 3 % on a busy machine; more only costs time


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found."""

    measurements: Mapping[Configuration, Measurement]  # every candidate and the default
    default: Configuration
    winner: Configuration | None  # None where nothing ran correctly
    speedup: float | None  # default / winner, in least times; None where the default did not run
    significant: bool  # the winner is faster than the default, beyond doubt
    together: tuple[Configuration, ...] = ()  # those whose samples are paired, round by round


def verify(measurer: Measurer, problem: Problem, candidates: Sequence[Configuration], default: Configuration,
           seconds: float = SECONDS, progress: Callable[[str], None] = lambda step: None,
           clock: Callable[[], float] = time.monotonic) -> Verdict:
    """Measure the candidates and the default within `seconds`.

    Where not even FEWEST_ROUNDS a batch fit for all, the slowest candidates of stage one are left out of the rounds.
    The reference, stage one and the rounds of one candidate are always made, whatever they take.

    What building, loading and checking anew cost, the first batch shows: where it takes more than its part of the
    budget, the others have fewer rounds, and of the first as many count.
    """
    started = clock()
    distinct = list(dict.fromkeys([default, *candidates]))
    options = Options()
    found: dict[Configuration, Measurement] = {}
    progress(f"measuring 1/{len(distinct)}")
    for configuration, measurement in measurer.measure(problem, distinct, options):
        found[configuration] = measurement
        progress(f"measuring {min(len(found) + 1, len(distinct))}/{len(distinct)}")
    best = min(measurement.seconds for measurement in found.values())
    finalists = [configuration for configuration in distinct if found[configuration].status is Status.CORRECT
                 and (configuration == default or found[configuration].seconds <= HOPELESS * best)]
    cost = {configuration: max(1.5 * options.sample_seconds, found[configuration].seconds)
            for configuration in finalists}
    finalists = affordable(cost, default, seconds - (clock() - started))
    samples: dict[Configuration, list[float]] = {configuration: [] for configuration in finalists}
    for batch in range(BATCHES):
        if len(finalists) < 2 or default not in finalists:
            break
        progress(f"comparing {len(finalists)}, batch {batch + 1}/{BATCHES}")
        began = clock()
        if not batch:  # all batches have equally many rounds, so that the journal need not say where one ends
            left = (seconds - (began - started)) / BATCHES
            once = sum(cost[configuration] for configuration in finalists)
            rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, int(left / once)))
        order = [finalists[index] for index in np.random.default_rng(batch).permutation(len(finalists))]
        compared = measurer.compare(problem, order, rounds, replace(options, order_seed=batch))
        for configuration, measurement in zip(order, compared, strict=True):
            if measurement.status is Status.CORRECT:
                samples[configuration] += measurement.samples
            else:
                found[configuration] = measurement
                finalists.remove(configuration)
        if not batch:
            ended = clock()
            late = (ended - began) - (seconds - (ended - started)) / (BATCHES - 1)
            rounds = max(FEWEST_ROUNDS, rounds - math.ceil(max(0.0, late) / once))
            samples = {configuration: times[:rounds] for configuration, times in samples.items()}
    together = [configuration for configuration in finalists if samples[configuration]]
    for configuration in together:
        found[configuration] = replace(found[configuration], samples=tuple(samples[configuration]))
    return decide(found, default, together)


def affordable(cost: Mapping[Configuration, float], default: Configuration, seconds: float) -> list[Configuration]:
    """Who of these, with the seconds of one round each, can be compared in time: the default and the fastest
    candidates, at least one."""
    candidates = sorted((one for one in cost if one != default), key=lambda one: cost[one])
    chosen = [one for one in cost if one == default or one in candidates[:1]]
    for one in candidates[1:]:
        if BATCHES * FEWEST_ROUNDS * sum(cost[each] for each in [*chosen, one]) > seconds:
            break
        chosen.append(one)
    return chosen


def decide(measurements: Mapping[Configuration, Measurement], default: Configuration,
           together: Collection[Configuration]) -> Verdict:
    """The verdict that these measurements support. Samples are paired of those measured `together`, round by round."""
    correct = {configuration: measurement for configuration, measurement in measurements.items()
               if measurement.status is Status.CORRECT and measurement.samples}
    paired = tuple(configuration for configuration in measurements if configuration in together)
    reference = correct.get(default)
    if reference is None:
        winner = min(correct, key=lambda configuration: correct[configuration].seconds, default=None)
        return Verdict(measurements, default, winner, None, False, paired)
    chances = {configuration: chance_not_faster(reference.samples, measurement.samples)
               for configuration, measurement in correct.items()
               if configuration != default and configuration in together and default in together
               and len(measurement.samples) == len(reference.samples)}
    faster = [configuration for configuration in holm(chances, ERROR_LEVEL)
              if correct[configuration].seconds < reference.seconds
              and leads_always(reference.samples, correct[configuration].samples)]
    winner = min(faster, key=lambda configuration: correct[configuration].seconds, default=default)
    return Verdict(measurements, default, winner, reference.seconds / correct[winner].seconds, winner != default,
                   paired)


def holm(chances: Mapping[Configuration, float], level: float) -> list[Configuration]:
    """Holm's step-down: the hypotheses that are rejected with a family-wise error of at most `level`."""
    rejected: list[Configuration] = []
    for configuration, chance in sorted(chances.items(), key=lambda item: item[1]):
        if chance > level / (len(chances) - len(rejected)):
            break
        rejected.append(configuration)
    return rejected


def leads_always(default: Sequence[float], candidate: Sequence[float]) -> bool:
    """Whether the median lead exceeds MARGIN in every batch."""
    leads = np.asarray(default) / np.asarray(candidate)
    return all(np.median(part) > 1 + MARGIN for part in np.array_split(leads, min(BATCHES, len(leads))))


def chance_not_faster(default: Sequence[float], candidate: Sequence[float]) -> float:
    """Exact one-sided p-value of the signed-rank test that the candidate is not more than MARGIN faster.

    >>> chance_not_faster([1.3] * 12, [1.0] * 12) == 2.0 ** -12
    True
    """
    lead = np.log(np.asarray(default) / np.asarray(candidate)) - math.log1p(MARGIN)
    lead = lead[lead != 0]
    if not len(lead):
        return 1.0
    _, places, counts = np.unique(np.abs(lead), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (2 * ends - counts + 1)[places]  # twice the mean rank, whole numbers even with ties
    # distribution of the sum of positive ranks when every sign is a fair coin
    share = np.zeros(int(ranks.sum()) + 1)
    share[0] = 1.0
    for rank in ranks:
        share[rank:] = (share[rank:] + share[:-rank]) / 2
        share[:rank] /= 2
    return float(share[int(ranks[lead > 0].sum()):].sum())
