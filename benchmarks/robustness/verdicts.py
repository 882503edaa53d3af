"""Compare rules for "which is faster": `python -m benchmarks verdicts [--runs N] [--half choosing] [--itself DEVICE]`.

A verification compares five candidates with the safe default in six batches of rounds. Each batch has newly built
kernels: a build is faster or slower by luck as long as it lives. A shared host slows everything down in stretches of
0.5 to 20 s and disturbs single samples, more of them in some builds than in others. On simulated rounds, whose truth is
known, the first table shows for each rule and kind of noise

- false wins: how often a candidate wins although all are as fast as the default;
- misses: how often a candidate that is 5 % faster does not win;
- share: the speed of the winner as a share of the fastest one's, where candidates are up to 15 % faster or slower.

The second table chooses the least of a number, without a test. The third does that on recorded rounds: products of
CLBlast on PoCL that the shipped data set holds. The fastest of 20 configurations is chosen by the rounds of half of the
builds, and judged by the other half. `--half choosing` shows the seeds and products by which the rule of
`tuner/measuring/comparison.py` was chosen; without it, both are others.

`--itself` measures instead: a device runs one configuration as the default and as all five candidates, so every win is
false. A lead of 5 % is planted by dividing the samples of one. Beside busy processes this shows what other work does.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

import seqtune
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import markdown
from seqtune.data.builds import levelled
from seqtune.data.dataset import Dataset
from seqtune.data.record import Status
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.load import LoadMeter
from seqtune.tuner.measuring.batches import compare_batch
from seqtune.tuner.measuring.comparison import faster_than, holm, p_value, typical
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import DEFAULTS
from seqtune.tuner.measuring.verification import RULE
from seqtune.tuner.strategies.t_test import faster

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]  # seconds, (name, round) -> one time of each name
Verdict = Callable[[Array], int]  # seconds, (name, round) -> the winner; 0 is the default

MARGIN, LEVEL, BATCHES = RULE.margin, RULE.level, RULE.batches
ROUNDS, CANDIDATES = 8, 5  # 48 rounds in all fit into a second for kernels of a millisecond
LEAD = 0.05  # of the candidate that should win
GROUPS = 4  # records of a build in the shipped data set, each the least of 3 rounds: it had 12
ITSELF = ((64, 64, 64), (128, 256, 128), (256, 256, 256))  # m, n, k of the products of `--itself`: 5 us to 1 ms


@dataclass(frozen=True)
class Noise:
    """A kind of noise; `jitter` and `luck` are standard deviations of the logarithm of the seconds."""

    name: str
    jitter: float = 0.01  # of each sample
    luck: float = 0.01  # of each build
    disturbed: float = 0.02  # probability that a sample is disturbed
    factor: float = 1.5  # mean factor of a disturbed sample, exponential above 1
    uneven: float = 0.0  # by how much that probability differs between builds, as a factor exp(N(0, uneven))
    lasting: bool = False  # whether that factor is the same in all builds of a name
    stretch: float = 0.0  # share of the time in which the host runs at half the rate
    seconds: float = 1e-3  # of a launch; a sample takes twice as long, because a launch before it warms up


NOISES = (
    Noise("quiet"),
    Noise("luck of 2 % a build", luck=0.02),
    Noise("launches that vary by 20 %", jitter=0.1, disturbed=0.3, factor=1.3, uneven=0.5),
    Noise("shared host", jitter=0.02, disturbed=0.15, factor=2.0, uneven=0.5, stretch=0.3),
    Noise("shared host, 20 ms a launch", jitter=0.02, disturbed=0.3, factor=2.0, uneven=0.5, stretch=0.3,
          seconds=20e-3),
)


def rounds_of(truth: Array, noise: Noise, generator: np.random.Generator) -> Array:
    """Simulated seconds, (name, round)."""
    count, rounds = len(truth), BATCHES * ROUNDS
    luck = np.repeat(np.exp(generator.normal(0, noise.luck, (count, BATCHES))), ROUNDS, axis=1)
    seconds: Array = truth[:, None] * luck * np.exp(generator.normal(0, noise.jitter, (count, rounds)))
    factors = np.exp(generator.normal(0, noise.uneven, (count, BATCHES)))
    often = np.minimum(0.9, noise.disturbed * (factors[:, :1] if noise.lasting else factors))
    often = np.broadcast_to(often, factors.shape)
    disturbed = generator.random((count, rounds)) < np.repeat(often, ROUNDS, axis=1)
    seconds *= np.where(disturbed, 1 + generator.exponential(noise.factor - 1, (count, rounds)), 1.0)
    if noise.stretch:
        order = np.argsort(generator.random((count, rounds)), axis=0)  # the turn of each name in each round
        begin: Array = ((np.arange(rounds) * count + order) * 2.0 * noise.seconds).astype(np.float64)  # of a sample
        begin += 0.05 * (np.arange(rounds) // ROUNDS)  # building anew takes 50 ms
        seconds *= np.where(_slow(begin, noise.stretch, generator), 2.0, 1.0)
    return seconds


def _slow(begin: Array, share: float, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Whether the host is slow at these times, in stretches of 0.5 to 20 s that cover a share of the time."""
    slow, now, state = np.zeros(begin.shape, bool), -40.0, generator.random() < share
    while now < begin.max():
        length = math.exp(generator.uniform(math.log(0.5), math.log(20))) * (1 if state else (1 - share) / share)
        if state:
            slow |= (begin >= now) & (begin < now + length)
        now, state = now + length, not state
    return slow


def _by_name(seconds: Array) -> dict[int, list[float]]:
    return dict(enumerate(seconds.tolist()))


def _first(times: Array) -> int:
    """The winner by one time of each name: the least, if it leads the default by more than the margin."""
    best = int(np.argmin(times))
    return best if times[best] * (1 + MARGIN) < times[0] else 0


def _tested(p_values: Mapping[int, float], times: Array) -> int:
    """The winner by a test: the least among those whose hypotheses Holm's procedure rejects."""
    return min(holm(p_values, LEVEL), key=lambda name: times[name], default=0)


def _welch(seconds: Array) -> int:
    allowed = (seconds[0] / (1 + MARGIN)).tolist()
    return _tested({name: faster(seconds[name].tolist(), allowed) for name in range(1, len(seconds))},
                   seconds.mean(axis=1))


def _signed_rank(seconds: Array) -> int:
    return _tested({name: p_value(seconds[0].tolist(), seconds[name].tolist(), MARGIN)
                    for name in range(1, len(seconds))}, np.median(seconds, axis=1))


def _verified(seconds: Array) -> int:
    return next(iter(faster_than(0, _by_name(seconds), RULE)), 0)


def _typical(seconds: Array) -> Array:
    return np.array(list(typical(_by_name(seconds)).values()))


def median_of_builds(seconds: Array, rounds: int = ROUNDS) -> Array:
    """The median over the builds, which are levelled, of the least round of each."""
    parts = np.array_split(seconds, max(1, seconds.shape[1] // rounds), axis=1)
    return np.asarray(np.median(levelled(np.stack([part.min(axis=1) for part in parts])), axis=0))


VERDICTS: Mapping[str, Verdict] = {
    "least time": lambda seconds: _first(seconds.min(axis=1)),
    "median of levelled rounds": lambda seconds: _first(_typical(seconds)),
    "mean, Welch's t, Holm": _welch,
    "signed rank, Holm": _signed_rank,
    "signed rank, Holm, every batch": _verified}
STATISTICS: Mapping[str, Statistic] = {
    "least time": lambda seconds: np.asarray(seconds.min(axis=1)),
    "mean": lambda seconds: np.asarray(seconds.mean(axis=1)),
    "median of levelled rounds": _typical,
    "median of the builds' least times": median_of_builds}


def simulated(runs: int, seed: int, lasting: bool = False) -> tuple[str, str]:
    """The table of rules and the table of statistics on simulated rounds."""
    rules, choices = [], []
    leading = np.array([1.0, 1 / (1 + LEAD), *[1.0] * (CANDIDATES - 1)])
    for noise in (replace(noise, lasting=lasting) for noise in NOISES):
        generator = np.random.default_rng(seed)
        equal = [rounds_of(np.ones(1 + CANDIDATES), noise, generator) for _ in range(runs)]
        led = [rounds_of(leading, noise, generator) for _ in range(runs)]
        truths = [np.exp(np.append(0.0, generator.uniform(-0.15, 0.15, CANDIDATES))) for _ in range(runs)]
        drawn = [rounds_of(truth, noise, generator) for truth in truths]
        for name, verdict in VERDICTS.items():
            shares = [truth.min() / truth[verdict(seconds)] for truth, seconds in zip(truths, drawn, strict=True)]
            rules.append([noise.name, name, *_rates(verdict, equal, led), f"{fmean(shares):.3f}"])
        for name, statistic in STATISTICS.items():
            shares = [truth.min() / truth[np.argmin(statistic(seconds))]
                      for truth, seconds in zip(truths, drawn, strict=True)]
            choices.append([noise.name, name, f"{fmean(shares):.4f}"])
    return (markdown(["noise", "rule", "false wins", "misses", "share"], rules),
            markdown(["noise", "chosen by", "share"], choices))


def _rates(verdict: Verdict, equal: Sequence[Array], led: Sequence[Array]) -> list[str]:
    """The rates of false wins and of misses, where number 1 should win, as texts."""
    return [f"{fmean(verdict(seconds) != 0 for seconds in equal):.1%}",
            f"{fmean(verdict(seconds) != 1 for seconds in led):.1%}"]


def recorded(choosing: bool) -> str:
    """The table of statistics on the shipped comparisons of CLBlast's configurations, of half of the products."""
    rows = Dataset.read(Path(seqtune.__file__).parent / "data" / "shipped" / "libraries" / "clblast.parquet").rows
    rows = rows[(rows["run"] == "final") & (rows["status"] == "correct")]
    statistics: dict[str, Statistic] = {
        **STATISTICS, "median of the builds' least times": lambda seconds: median_of_builds(seconds, GROUPS)}
    shares: dict[str, list[float]] = {name: [] for name in statistics}
    for number, (_, product) in enumerate(rows.groupby(["problem", "device"], observed=True, sort=True)):
        if number % 2 != choosing:
            continue
        taken = [group["seconds"].to_numpy(float) for _, group in product.groupby("configuration", observed=True)]
        longest = max(map(len, taken))
        table = np.array([seconds for seconds in taken if len(seconds) == longest])
        builds = np.arange(longest) // GROUPS % 2
        for chosen in (0, 1):
            judged = _typical(table[:, builds != chosen])
            for name, statistic in statistics.items():
                choice = int(np.argmin(statistic(table[:, builds == chosen])))
                shares[name].append(float(judged.min() / judged[choice]))
    return markdown(["chosen by", "share in the other builds"],
                    [[name, f"{fmean(values):.4f}"] for name, values in shares.items()])


def itself(device: str, runs: int) -> str:
    """The table of rules on a configuration that is compared with itself on a device."""
    equal, loads = [], []
    for seconds, heavy in _sessions(device, runs):
        equal.append(seconds)
        loads.append(heavy)
    print(f"{len(equal)} comparisons, {sum(loads)} under heavy load", file=sys.stderr)
    planted = np.array([1.0, 1 + LEAD, *[1.0] * (CANDIDATES - 1)])[:, None]
    turned = [np.roll(seconds, turn, axis=0) for seconds in equal for turn in range(1 + CANDIDATES)]
    led = [seconds / planted for seconds in turned]
    return markdown(["rule", "false wins", "misses"],
                    [[name, *_rates(verdict, turned, led)] for name, verdict in VERDICTS.items()])


def _sessions(device: str, runs: int) -> Iterator[tuple[Array, bool]]:
    """The seconds, (copy, round), of a configuration that runs six times in each round; and whether under heavy load.

    Safe defaults take turns with configurations drawn at random. What fails is passed over.
    """
    generator = np.random.default_rng(0)
    tasks = [Task.of(Problem.make("gemm", m=m, n=n, k=k), find(device)) for m, n, k in ITSELF]
    with Runner(tasks[0].device) as runner:
        for run in range(runs):
            task, meter = tasks[run % len(tasks)], LoadMeter()
            configuration = task[int(generator.integers(len(task)))] if run % 2 else task.default
            batches = []
            for batch in range(BATCHES):
                measured = compare_batch(runner, task.problem, [configuration] * (1 + CANDIDATES), ROUNDS, DEFAULTS,
                                         run * BATCHES + batch)
                if any(measurement.status is not Status.CORRECT for measurement in measured):
                    break
                batches.append([measurement.samples for measurement in measured])
            else:
                yield np.concatenate(batches, axis=1), meter.load().heavy


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--runs", type=positive, default=300, help="simulations or comparisons of each kind")
    parser.add_argument("--half", choices=("choosing", "reporting"), default="reporting")
    parser.add_argument("--lasting", action="store_true",
                        help="simulate names that are disturbed more often than others in all batches")
    parser.add_argument("--itself", metavar="DEVICE", help="measure on this device")
    given: argparse.Namespace = parser.parse_args(arguments)
    choosing = given.half == "choosing"
    print("\n\n".join([itself(given.itself, given.runs)] if given.itself else [
        *simulated(given.runs, seed=1 if choosing else 2, lasting=given.lasting), recorded(choosing)]))
