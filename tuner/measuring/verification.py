"""Verification: measure the proposed configurations together with the safe default, and name a trustworthy winner.

A verification has two stages within a time budget. First each configuration is checked and timed alone. Failures drop
out, and so does every configuration that takes more than HOPELESS times the best. Then the survivors and the default
run in rounds, each of them once per round, so that a change of the machine's speed affects all equally; the samples of
a round are paired. The rounds come in BATCHES, each with newly built kernels and new buffers, so that no candidate wins
because of a lucky address. Every batch builds in a random order and every round runs in a random order, so that no
candidate always has the same predecessor.

The winner is the default unless a candidate beats it significantly. Each candidate gets a one-sided Wilcoxon
signed-rank test of log(default / candidate) - log(1 + MARGIN) over the rounds, exact, with Holm's correction over the
candidates at ERROR_LEVEL. In addition, its median lead must exceed MARGIN in every batch, and its least time must be
less than the default's. Ranks make single outliers harmless. If the noise of the rounds is independent, the probability
that any candidate wins that is not more than MARGIN faster is at most ERROR_LEVEL. Luck that lasts a batch defeats the
test, but it rarely lasts in all batches: if each build is 2 % faster or slower by luck, one of five candidates as fast
as the default wins in 0.4 % of simulations (with 3 batches in 5 %, with 3 % of luck in 1.4 %). Among the candidates
that beat the default, the one with the least time wins; its lead over the others is not tested. The verdict depends on
the measurements alone, so it can be computed again from a journal.

The load of the machine is measured meanwhile. A verdict that was reached under heavy load is marked: its samples were
disturbed more often, and not independently of each other. It demands more of a winner, LOADED_MARGIN and LOADED_LEVEL
instead of MARGIN and ERROR_LEVEL.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from seqtune.data.record import Measurement, Status
from seqtune.errors import SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..load import LoadMeter
from .budget import SECONDS
from .runner import Measurer
from .timing import Options

ERROR_LEVEL = 0.01  # probability of a false win, over all candidates of one verification
MARGIN = 0.01  # relative lead that counts as a tie: not worth leaving the default for
LOADED_LEVEL, LOADED_MARGIN = 0.001, 0.03  # the same under load; 18 rounds, the fewest, can reach a p-value of 4e-6
HOPELESS = 1.3  # factor on the best time of stage one; the noise between the stages is far smaller
BATCHES = 6  # rebuilding takes some tens of milliseconds per finalist
OVERRUN = 2.0  # factor on the budget that the fewest measurements may take; else nothing is verified
PATIENCE = 10.0  # seconds, or the budget if it is more: a worker that takes longer for operands or a kernel is killed
FEWEST_ROUNDS = 3  # per batch: one outlier does not move a median, and p-values of 2**-18 suffice for many candidates
MOST_ROUNDS = 25  # per batch: enough to detect a lead of 3 % on a busy machine; more only take time
FEWEST_LAUNCHES = 2 + BATCHES * (1 + 2 * FEWEST_ROUNDS)  # of one configuration: check and sample alone; in each batch
#                                                           a check, then a launch that warms up and a sample per round

StandIns = Callable[[], Iterable[Configuration]]  # what is compared with where the default fails, in order


class OverBudget(Exception):
    """A verification cannot be made within its budget; `seconds` is about what the fewest measurements take."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the fewest measurements take about {seconds:.1f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification."""

    measurements: Mapping[Configuration, Measurement]  # of the default and the candidates for which there was time
    default: Configuration  # or the stand-in that ran in its place
    winner: Configuration | None  # None if nothing ran correctly
    speedup: float | None  # least time of the default / of the winner; None if the default did not run
    significant: bool  # whether the winner is significantly faster than the default
    together: tuple[Configuration, ...] = ()  # the configurations whose samples are paired, round by round
    loaded: bool = False  # whether other work had much of the machine meanwhile


def verify(measurer: Measurer, problem: Problem, candidates: Sequence[Configuration], default: Configuration,
           seconds: float = SECONDS, progress: Callable[[str], None] = lambda text: None,
           clock: Callable[[], float] = time.monotonic, stand_ins: StandIns = tuple) -> Verdict:
    """Measure the candidates and the default within `seconds`.

    Where the default fails, the first of `stand_ins()` that runs takes its place. One is always tried; a further one
    only before OVERRUN times the budget has passed.

    If the budget does not suffice for FEWEST_ROUNDS per batch of all, the slowest candidates of stage one are left out
    of the rounds. The fewest measurements, stage one and the rounds of one candidate, may take OVERRUN times the
    budget. Raises OverBudget if they take longer: by an estimate before anything runs, or by the time of the default,
    which is measured first. Candidates of stage one for which no time is left stay without a measurement.

    The first batch reveals the cost of building, loading and checking again. If it exceeds its share of the budget, the
    later batches have fewer rounds, and the first is cut to as many.
    """
    started, meter = clock(), LoadMeter()
    distinct = list(dict.fromkeys([default, *candidates]))
    options = Options(patience=max(PATIENCE, seconds))
    least = launch_seconds(problem, measurer.device)
    if 2 * FEWEST_LAUNCHES * least > OVERRUN * seconds:
        raise OverBudget(2 * FEWEST_LAUNCHES * least)
    measurements = _alone(measurer, problem, distinct, options, seconds, least, progress, clock)
    default = _stand_in(measurer, problem, default, stand_ins, measurements, options,
                        lambda: clock() - started < OVERRUN * seconds)
    best = min(measurement.seconds for measurement in measurements.values())
    finalists = [configuration for configuration, measurement in measurements.items()
                 if measurement.status is Status.CORRECT
                 and (configuration == default or measurement.seconds <= HOPELESS * best)]
    cost = {configuration: max(1.5 * options.sample_seconds, measurements[configuration].seconds)
            for configuration in finalists}
    finalists = affordable(cost, default, seconds - (clock() - started))
    samples: dict[Configuration, list[float]] = {configuration: [] for configuration in finalists}
    for batch in range(BATCHES):
        if len(finalists) < 2 or default not in finalists:
            break
        progress(f"comparing {len(finalists)}, batch {batch + 1}/{BATCHES}")
        batch_started = clock()
        if not batch:  # all batches have the same number of rounds, so a journal need not store where each ends
            left = (seconds - (batch_started - started)) / BATCHES
            round_seconds = sum(cost[configuration] for configuration in finalists)
            rounds = min(MOST_ROUNDS, max(FEWEST_ROUNDS, int(left / round_seconds)))
        order = [finalists[index] for index in np.random.default_rng(batch).permutation(len(finalists))]
        compared = measurer.compare(problem, order, rounds, replace(options, order_seed=batch))
        for configuration, measurement in zip(order, compared, strict=True):
            if measurement.status is Status.CORRECT:
                samples[configuration] += measurement.samples
            else:
                measurements[configuration] = measurement
                finalists.remove(configuration)
        if not batch:
            batch_ended = clock()
            excess = (batch_ended - batch_started) - (seconds - (batch_ended - started)) / (BATCHES - 1)
            rounds = max(FEWEST_ROUNDS, rounds - math.ceil(max(0.0, excess) / round_seconds))
            samples = {configuration: times[:rounds] for configuration, times in samples.items()}
    together = [configuration for configuration in finalists if samples[configuration]]
    for configuration in together:
        measurements[configuration] = replace(measurements[configuration], samples=tuple(samples[configuration]))
    return decide(measurements, default, together, meter.load().heavy)


def launch_seconds(problem: Problem, device: Device) -> float:
    """A lower bound of the seconds of one launch: the problem's FLOP at the device's peak rate; 0 if one is unknown."""
    flop = problem.names().get("flop")
    return flop / (device.peak_gflops * 1e9) if isinstance(flop, int) and device.peak_gflops else 0.0


def _alone(measurer: Measurer, problem: Problem, distinct: Sequence[Configuration], options: Options, seconds: float,
           least: float, progress: Callable[[str], None],
           clock: Callable[[], float]) -> dict[Configuration, Measurement]:
    """Check and time each configuration alone, the default first, as long as there is time. Raises OverBudget.

    `least` is the lower bound of a launch. The time until the first measurement does not count: the worker starts.
    """
    started = clock()
    begin = started
    measurements: dict[Configuration, Measurement] = {}
    progress(f"measuring 1/{len(distinct)}")
    try:
        with closing(measurer.measure(problem, distinct, options)) as measuring:
            for configuration, measurement in measuring:
                if not measurements:
                    begin = clock()
                measurements[configuration] = measurement
                progress(f"measuring {min(len(measurements) + 1, len(distinct))}/{len(distinct)}")
                default, *others = (known.seconds for known in measurements.values())
                if math.isinf(default):
                    continue
                candidate = min(default, *others) if others else least  # a slower one needs no rounds
                needed = FEWEST_LAUNCHES * (default + candidate) + clock() - begin
                if needed > OVERRUN * seconds:
                    if not others:
                        raise OverBudget(needed)
                    if math.isfinite(min(others)):
                        break
    except SeqtuneError:
        if not measurements and clock() - started >= options.patience:  # operands or reference take too long
            raise OverBudget(clock() - started) from None
        raise
    return measurements


def _stand_in(measurer: Measurer, problem: Problem, default: Configuration, stand_ins: StandIns,
              measurements: dict[Configuration, Measurement], options: Options,
              has_time: Callable[[], bool]) -> Configuration:
    """The default if it ran, else the first stand-in that does, else the default. Adds what it measures."""
    if measurements[default].status is Status.CORRECT:
        return default
    tried = False
    for stand_in in stand_ins():
        if stand_in not in measurements:
            if tried and not has_time():
                break
            tried = True
            measurements.update(measurer.measure(problem, [stand_in], options))
        if measurements[stand_in].status is Status.CORRECT:
            return stand_in
    return default


def affordable(cost: Mapping[Configuration, float], default: Configuration, seconds: float) -> list[Configuration]:
    """The configurations that can be compared within `seconds`: the default and the fastest candidates, at least one.

    `cost` holds the seconds of one round of each configuration.
    """
    candidates = sorted((candidate for candidate in cost if candidate != default), key=cost.__getitem__)
    chosen = [configuration for configuration in cost if configuration == default or configuration in candidates[:1]]
    for candidate in candidates[1:]:
        if BATCHES * FEWEST_ROUNDS * sum(cost[configuration] for configuration in [*chosen, candidate]) > seconds:
            break
        chosen.append(candidate)
    return chosen


def decide(measurements: Mapping[Configuration, Measurement], default: Configuration,
           together: Collection[Configuration], loaded: bool = False) -> Verdict:
    """The verdict that these measurements support. Configurations measured `together` have paired samples.

    With `loaded`, they were made under heavy load.
    """
    level, margin = (LOADED_LEVEL, LOADED_MARGIN) if loaded else (ERROR_LEVEL, MARGIN)
    correct = {configuration: measurement for configuration, measurement in measurements.items()
               if measurement.status is Status.CORRECT and measurement.samples}
    paired = tuple(configuration for configuration in measurements if configuration in together)
    reference = correct.get(default)
    if reference is None:
        winner = min(correct, key=lambda configuration: correct[configuration].seconds, default=None)
        return Verdict(measurements, default, winner, None, False, paired, loaded)
    p_values = {configuration: signed_rank_p_value(reference.samples, measurement.samples, margin)
               for configuration, measurement in correct.items()
               if configuration != default and configuration in together and default in together
               and len(measurement.samples) == len(reference.samples)}
    faster = [configuration for configuration in holm(p_values, level)
              if correct[configuration].seconds < reference.seconds
              and leads_always(reference.samples, correct[configuration].samples, margin)]
    winner = min(faster, key=lambda configuration: correct[configuration].seconds, default=default)
    return Verdict(measurements, default, winner, reference.seconds / correct[winner].seconds, winner != default,
                   paired, loaded)


def holm(p_values: Mapping[Configuration, float], level: float) -> list[Configuration]:
    """Holm's step-down procedure: the configurations whose hypotheses are rejected, smallest p-value first.

    The family-wise error is at most `level`.
    """
    rejected: list[Configuration] = []
    for configuration, p_value in sorted(p_values.items(), key=lambda item: item[1]):
        if p_value > level / (len(p_values) - len(rejected)):
            break
        rejected.append(configuration)
    return rejected


def leads_always(default: Sequence[float], candidate: Sequence[float], margin: float = MARGIN) -> bool:
    """Whether the candidate's median lead over the default exceeds the margin in every batch."""
    leads = np.asarray(default) / np.asarray(candidate)
    return all(np.median(part) > 1 + margin for part in np.array_split(leads, min(BATCHES, len(leads))))


def signed_rank_p_value(default: Sequence[float], candidate: Sequence[float], margin: float = MARGIN) -> float:
    """The exact one-sided p-value of the signed-rank test that the candidate is not faster by more than the margin.

    >>> signed_rank_p_value([1.3] * 12, [1.0] * 12) == 2.0 ** -12
    True
    """
    lead = np.log(np.asarray(default) / np.asarray(candidate)) - math.log1p(margin)
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
