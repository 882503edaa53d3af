"""Verification: compare the proposed configurations with the safe default, and name a trustworthy winner.

A verification has two stages within a time budget. First each configuration is checked and timed alone. Failures drop
out, and so does every configuration that takes more than HOPELESS times the best, in two builds where there is time
for a second one. Then the survivors and the default run in rounds (see `comparison`). The rounds come in batches, each
with newly built kernels and new buffers, so that no candidate wins because of a lucky address.

The winner is the default unless a candidate is clearly faster (`comparison.faster_than`, by RULE). Among several, the
one with the least typical time wins; its lead over the others is not tested. The verdict depends on the measurements
alone, so it can be computed again from a journal.

The budget begins with the start of the worker, and measuring is broken off at OVERRUN times the budget (see
`Deadline`). If the fewest measurements do not fit, OverBudget is raised: by an estimate before anything runs or as soon
as the default was measured, and otherwise when the time has ended.

The load of the machine is measured meanwhile. A verdict that was reached under heavy load is marked. Such a verdict
is not wrong more often, but it misses more leads, so that a later verification does not take it over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import median

from seqtune.data.record import Measurement, Status
from seqtune.errors import SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import Say, silent

from ..load import LoadMeter
from .comparison import Rule, faster_than, typical
from .deadline import SECONDS, Deadline, OutOfTime
from .runner import Measurer, compare_batch
from .timing import Options

HOPELESS = 1.3  # factor on the best time of stage one; the noise between the stages is far smaller
REBUILDING = 0.5  # share of the budget after which no hopeless candidate is built again: the rounds need the rest
BATCHES = 6  # of rounds: enough that luck rarely lasts in all; building anew takes some 10 ms for each configuration
PATIENCE = 0.5  # share of the budget that a worker may take for the operands, or for running one kernel
ALONE = 0.05  # share of the budget for the samples of one configuration in stage one: there are six by default
RULE = Rule(margin=0.01, level=0.01, batches=BATCHES)  # a smaller lead is not worth leaving the default for
FEWEST_ROUNDS = 3  # per batch: one outlier does not move a median, and p-values of 2**-18 suffice for many candidates
MOST_ROUNDS = 25  # per batch: enough to detect a lead of 3 % on a busy machine; more only take time
FEWEST_LAUNCHES = BATCHES * (1 + 2 * FEWEST_ROUNDS)  # of one configuration: in each batch a check, then a launch that
#                                                       warms up and a sample per round
LAUNCHES_ALONE = 2  # of one configuration, at least, in stage one: check and sample

StandIns = Callable[[], Iterable[Configuration]]  # the configurations that replace a failed default, in order


class OverBudget(Exception):
    """A verification does not fit into its budget.

    `seconds` is an estimate of what the fewest measurements take. If the time `ended` during them, it is what was
    spent, and they take more.
    """

    def __init__(self, seconds: float, ended: bool = False) -> None:
        super().__init__(f"the fewest measurements take {'more than' if ended else 'about'} "
                         f"{seconds:{'.1f' if seconds >= 0.1 else '.2g'}} s here")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification."""

    measurements: Mapping[Configuration, Measurement]  # of the default and the candidates for which there was time
    default: Configuration  # or the stand-in that ran in its place
    winner: Configuration | None  # None if nothing ran correctly
    speedup: float | None  # typical time of the default / of the winner; None if the default did not run
    significant: bool  # whether the winner is significantly faster than the default
    paired: tuple[Configuration, ...] = ()  # the configurations whose samples are paired, round by round
    loaded: bool = False  # whether other work had much of the machine meanwhile
    hopeless: tuple[Configuration, ...] = ()  # the candidates that stage one dropped for their times
    rebuilt: tuple[Configuration, ...] = ()  # the candidates that were timed alone in two builds

    @property
    def typical(self) -> dict[Configuration, float]:
        """The seconds that decide, of the configurations that ran in rounds: medians of the levelled rounds."""
        return typical({configuration: self.measurements[configuration].samples for configuration in self.paired
                        if self.measurements[configuration].status is Status.CORRECT})

    @property
    def second(self) -> Configuration | None:
        """The fastest one beside the winner among those that ran in rounds; None if there is none."""
        seconds = self.typical
        others = (configuration for configuration in seconds if configuration != self.winner)
        return min(others, key=seconds.__getitem__, default=None) if self.winner in seconds else None

    @property
    def leads_second(self) -> bool:
        """Whether the winner is clearly faster than the second, by the rule that holds for the default."""
        winner, second = self.winner, self.second
        if winner is None or second is None:
            return False
        return bool(faster_than(second, {each: self.measurements[each].samples for each in (winner, second)}, RULE))


def verify(measurer: Measurer, problem: Problem, candidates: Sequence[Configuration], default: Configuration,
           seconds: float = SECONDS, progress: Say = silent,
           clock: Callable[[], float] = time.monotonic, stand_ins: StandIns = tuple,
           open_meter: Callable[[], LoadMeter] = LoadMeter) -> Verdict:
    """Measure the candidates and the default within `seconds`.

    Where the default fails, the first of `stand_ins()` that runs takes its place, if there is time to try it.

    If the budget does not suffice for FEWEST_ROUNDS per batch of all, the slowest candidates of stage one are left out
    of the rounds. Raises OverBudget if the fewest measurements, stage one and the rounds of one candidate, take longer:
    by an estimate before anything runs, by the time of the default, which is measured first, or by that of a batch.
    Candidates of stage one for which no time is left stay without a measurement.

    Each batch is planned for an equal share of the time that is left. Where builds take long or the machine is loaded,
    it has fewer rounds, but at least FEWEST_ROUNDS. All batches are cut to the number of rounds of the shortest one.
    """
    deadline, meter = Deadline(seconds, clock), open_meter()
    distinct = list(dict.fromkeys([default, *candidates]))
    options = Options(patience=PATIENCE * seconds, longest_seconds=min(Options().longest_seconds, ALONE * seconds))
    least = launch_seconds(problem, measurer.device)
    needed = 2 * (LAUNCHES_ALONE + FEWEST_LAUNCHES) * least
    if needed > seconds:
        raise OverBudget(needed)
    measurements = _alone(measurer, problem, distinct, options, deadline, least, progress)
    default = _stand_in(measurer, problem, default, stand_ins, measurements, options, deadline)
    rebuilt = _rebuild_hopeless(measurer, problem, default, measurements, options, deadline)
    hopeless = hopeless_among(measurements, default)
    finalists = [configuration for configuration, measurement in measurements.items()
                 if measurement.status is Status.CORRECT and configuration not in hopeless]
    cost = {configuration: max(1.5 * options.sample_seconds, 2 * median(measurements[configuration].samples))
            for configuration in finalists}  # each sample is warmed up by a launch
    finalists = affordable(cost, default, deadline.left)
    batches: list[dict[Configuration, tuple[float, ...]]] = []
    quickest = math.inf  # seconds of a batch with the fewest rounds; one that took longer may have met other work
    rounds = MOST_ROUNDS  # all batches have the same number of rounds, so a journal need not store where each ends
    for batch in range(BATCHES):
        if len(finalists) < 2 or default not in finalists:
            break
        progress(f"comparing {len(finalists)}, batch {batch + 1}/{BATCHES}")
        share = deadline.left / (BATCHES - batch)
        round_seconds = sum(cost[configuration] for configuration in finalists)
        rounds = min(rounds, max(FEWEST_ROUNDS, int(share / round_seconds)))
        limited = replace(options, planned=share, budget=deadline.hard.left, fewest_rounds=FEWEST_ROUNDS)
        began = deadline.elapsed
        try:
            compared = compare_batch(measurer, problem, finalists, rounds, limited, batch)
        except OutOfTime:
            raise OverBudget(max(seconds, deadline.elapsed), ended=True) from None
        batches.append({})
        for configuration, measurement in zip(tuple(finalists), compared, strict=True):
            if measurement.status is Status.CORRECT:
                batches[-1][configuration] = measurement.samples
                rounds = min(rounds, len(measurement.samples))
            else:
                measurements[configuration] = measurement
                finalists.remove(configuration)
        held = max(FEWEST_ROUNDS, *map(len, batches[-1].values())) if batches[-1] else FEWEST_ROUNDS
        quickest = min(quickest, (deadline.elapsed - began) * FEWEST_ROUNDS / held)
        needed = deadline.elapsed + (BATCHES - 1 - batch) * quickest
        if needed > deadline.hard.seconds:
            raise OverBudget(needed)
    paired = [configuration for configuration in finalists if batches]
    for configuration in paired:
        samples = tuple(sample for batch in batches for sample in batch[configuration][:rounds])
        measurements[configuration] = replace(measurements[configuration], samples=samples)
    return replace(decide(measurements, default, paired, meter.load().heavy), hopeless=hopeless, rebuilt=rebuilt)


def launch_seconds(problem: Problem, device: Device) -> float:
    """A lower bound of the seconds of one launch: the problem's FLOP at the device's peak rate; 0 if one is unknown."""
    flop = problem.names().get("flop")
    return flop / (device.peak_gflops * 1e9) if isinstance(flop, int) and device.peak_gflops else 0.0


def _alone(measurer: Measurer, problem: Problem, distinct: Sequence[Configuration], options: Options,
           deadline: Deadline, least: float, progress: Say) -> dict[Configuration, Measurement]:
    """Check and time each configuration alone, the default first, as long as there is time. Raises OverBudget.

    `least` is the lower bound of a launch, in seconds.
    """
    measurements: dict[Configuration, Measurement] = {}
    progress(f"measuring 1/{len(distinct)}")
    limited = replace(options, planned=deadline.left, budget=deadline.hard.left)
    try:
        with closing(measurer.measure(problem, distinct, limited)) as measuring:
            for configuration, measurement in measuring:
                measurements[configuration] = measurement
                progress(f"measuring {min(len(measurements) + 1, len(distinct))}/{len(distinct)}")
                default, *others = (known.seconds for known in measurements.values())
                if math.isinf(default):
                    continue
                candidate = min(default, *others) if others else least  # a slower one needs no rounds
                needed = FEWEST_LAUNCHES * (default + candidate) + deadline.elapsed
                another = deadline.elapsed / len(measurements)  # seconds to time one more, on average
                if not others and needed > deadline.seconds:
                    raise OverBudget(needed)
                if others and math.isfinite(min(others)) and needed + another > deadline.seconds:
                    break
    except SeqtuneError:
        if not measurements and deadline.elapsed >= options.patience:  # operands or reference take too long
            raise OverBudget(deadline.elapsed, ended=True) from None
        raise
    if not measurements:
        raise OverBudget(deadline.elapsed, ended=True)
    return measurements


def _rebuild_hopeless(measurer: Measurer, problem: Problem, default: Configuration,
                      measurements: dict[Configuration, Measurement], options: Options,
                      deadline: Deadline) -> tuple[Configuration, ...]:
    """Build hopeless candidates a second time, the fastest first, until REBUILDING of the budget; return those rebuilt.

    One unlucky build, or another process in that moment, makes a good candidate look hopeless. The samples of both
    builds count. A candidate that fails in its second build has failed.
    """
    best = min(measurement.seconds for measurement in measurements.values())
    hopeless = hopeless_among(measurements, default)
    rebuilt: list[Configuration] = []
    half = deadline.scaled(REBUILDING)
    if hopeless and not half.is_over:
        limited = replace(options, planned=half.left, budget=deadline.hard.left)
        with closing(measurer.measure(problem, hopeless, limited, best)) as measuring:
            for configuration, second in measuring:
                first = measurements[configuration]
                measurements[configuration] = second if second.status is not Status.CORRECT else replace(
                    first, samples=first.samples + second.samples, disturbed=first.disturbed + second.disturbed)
                rebuilt.append(configuration)
                if half.is_over:
                    break
    return tuple(rebuilt)


def hopeless_among(measurements: Mapping[Configuration, Measurement],
                   default: Configuration) -> tuple[Configuration, ...]:
    """The candidates that ran and take more than HOPELESS times the best, the fastest first."""
    best = min(measurement.seconds for measurement in measurements.values())
    return tuple(sorted((configuration for configuration, measurement in measurements.items()
                         if configuration != default and HOPELESS * best < measurement.seconds < math.inf),
                        key=lambda configuration: measurements[configuration].seconds))


def _stand_in(measurer: Measurer, problem: Problem, default: Configuration, stand_ins: StandIns,
              measurements: dict[Configuration, Measurement], options: Options, deadline: Deadline) -> Configuration:
    """The default if it ran, else the first stand-in that runs, else the default. Adds what it measures."""
    if measurements[default].status is Status.CORRECT:
        return default
    for stand_in in stand_ins():
        if stand_in not in measurements:
            if deadline.is_over:
                break
            limited = replace(options, budget=deadline.hard.left)
            measurements.update(measurer.measure(problem, [stand_in], limited))
        if stand_in in measurements and measurements[stand_in].status is Status.CORRECT:
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
           paired: Collection[Configuration], loaded: bool = False) -> Verdict:
    """The verdict that these measurements support.

    The samples of the configurations in `paired` were taken in the same rounds. With `loaded`, the measurements were
    made under heavy load.
    """
    correct = {configuration: measurement for configuration, measurement in measurements.items()
               if measurement.status is Status.CORRECT and measurement.samples}
    compared = tuple(configuration for configuration in measurements if configuration in paired)
    reference = correct.get(default)
    if reference is None:
        winner = min(correct, key=lambda configuration: correct[configuration].seconds, default=None)
        return Verdict(measurements, default, winner, None, False, compared, loaded)
    samples = {configuration: correct[configuration].samples for configuration in compared if configuration in correct}
    faster = faster_than(default, samples, RULE) if default in samples else []
    if not faster:
        return Verdict(measurements, default, default, 1.0, False, compared, loaded)
    seconds = typical(samples)
    return Verdict(measurements, default, faster[0], seconds[default] / seconds[faster[0]], True, compared, loaded)
