"""Searches across problems, replayed on recorded times: with other problems' records, with the translator's proposals,
and as campaigns over many problems. `benchmarks.across` reports them.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.report import Row
from seqtune.errors import FormatError
from seqtune.kernels.files import write_whole

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.data.record import Measurement
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import MeasuredTask
    from seqtune.tuner.measuring.timing import Options
    from seqtune.tuner.simulation import RecordedSpace

LEVEL = 0.97  # share of the best known speed that is waited for
MOST = 200  # trials of a search; who needs more counts as infinite
TRIALS = (10, 20, 30)  # per problem of a campaign
SEEDED_TRIALS = (2, 5, 10)  # the same where the translator's proposals come first
SHUFFLES = 100  # of each problem, for random trials


class State:
    """What is done, a JSON line each; forgotten where no path is given."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.done = path, dict[str, Any]()
        if path is not None and path.exists():
            whole, end, torn = path.read_text().rpartition("\n")
            try:
                self.done = dict(json.loads(line) for line in whole.splitlines())
            except (ValueError, TypeError):
                raise FormatError(f"{path} is no state of this program") from None
            if torn and not self.done:
                raise FormatError(f"{path} is no state of this program")
            if torn:  # it was stopped in the middle of a line
                write_whole(path, whole + end)

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """What stands under that key, made where it does not."""
        if key not in self.done:
            self.done[key] = make()
            if self.path is not None:
                with self.path.open("a") as file:
                    file.write(json.dumps([key, self.done[key]]) + "\n")
        return self.done[key]


class Recorded:
    """A measurer that answers from measured tasks of which everything is known."""

    def __init__(self, tasks: Sequence[MeasuredTask]) -> None:
        self.tasks = {measured.problem: measured for measured in tasks}
        self.device = tasks[0].device

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Each configuration with its time."""
        from seqtune.data.record import Measurement, Status

        measured = self.tasks[problem]
        for one in configurations:
            seconds = measured.time(one)
            yield one, (Measurement(Status.CORRECT, (seconds,)) if math.isfinite(seconds)
                        else Measurement(Status.RUNTIME, message="it failed when it was recorded"))

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """The same."""
        return [measurement for _, measurement in self.measure(problem, configurations, options)]


def until(recorded: RecordedSpace, strategy: str, seed: int) -> float:
    """Trials until the level; infinite where `MOST` do not suffice."""
    from seqtune.tuner.strategies.table import strategy_factory

    search = strategy_factory(strategy)(recorded.context(MOST, seed))
    done = 0
    while done < MOST and (asked := search.ask(1)):
        for configuration in asked:
            done += 1
            measurement = recorded.measurement(recorded.task.number(configuration))
            if measurement.seconds * LEVEL <= recorded.optimum * (1 + 1e-12):
                return float(done)
            search.tell(configuration, measurement)
    return math.inf


def nearest(problem: Problem, others: Sequence[RecordedSpace]) -> tuple[MeasuredTask, ...]:
    """What `tune` would learn from: the nearest of the other problems, none of them near enough to know this one."""
    from seqtune.kernels.problem_sets.similarity import distance, near
    from seqtune.tuner.history import LEAST_TRIALS, MOST_PROBLEMS

    taught = [(distance(of, problem), of.key, one) for one in others
              if (of := one.task.problem).type == problem.type and not near(of, problem)
              and len(one.seconds) >= LEAST_TRIALS]
    return tuple(one.measured for _, _, one in sorted(taught, key=lambda each: each[:2])[:MOST_PROBLEMS])


def random_trials(seconds: Any) -> Any:
    """(shuffle, trial): the best share after each random trial."""
    import numpy as np

    found = np.zeros((SHUFFLES, MOST))
    for seed in range(SHUFFLES):
        best = np.minimum.accumulate(np.random.default_rng(seed).permutation(seconds)[:MOST])
        found[seed, :len(best)] = seconds.min() / best
        found[seed, len(best):] = found[seed, len(best) - 1]
    return found


def transfer(data: Dataset, device: str, repeats: int, state: State) -> Row:
    """Trials from scratch, and with the other problems' records."""
    from seqtune.strategy_replay import recorded_spaces

    training = replace(data, rows=data.rows[~data.rows["problem"].isin(data.held_out)])
    others = recorded_spaces(training, devices=[device])
    held_out = recorded_spaces(data, devices=[device], held_out=True)
    ways: dict[str, list[float]] = {"scratch": [], "history": []}
    for number, recorded in enumerate(held_out, start=1):
        told = replace(recorded, history=nearest(recorded.task.problem, others))
        for name, one in (("scratch", recorded), ("history", told)):
            def count(one: RecordedSpace = one) -> list[float]:
                return [until(one, "portfolio", seed) for seed in range(repeats)]

            ways[name].append(median(state.get(f"transfer {device} {recorded.space} {name} {repeats}", count)))
        say(f"{device}, transfer: {number} of {len(held_out)} problems")
    return compared("transfer", device, ways["history"], ways["scratch"])


def translator(data: Dataset, device: str, repeats: int, state: State) -> list[Row]:
    """Trials of random search, and of those that begin with the translator's proposals."""
    import numpy as np

    from seqtune.proposals import seeds_for
    from seqtune.strategy_replay import recorded_spaces

    found = recorded_spaces(data, devices=[device], complete=True, held_out=True)
    ways: dict[str, list[float]] = {"random": [], "predictor": [], "portfolio": []}
    for number, recorded in enumerate(found, start=1):
        there = random_trials(recorded.seconds) >= LEVEL - 1e-12
        ways["random"].append(median(np.where(there.any(axis=1), there.argmax(axis=1) + 1.0, math.inf).tolist()))
        seeds: list[tuple[Configuration, ...]] = []
        for name in ("predictor", "portfolio"):
            def count(name: str = name, recorded: RecordedSpace = recorded, seeds: list[Any] = seeds) -> list[float]:
                if not seeds:
                    seeds.append(seeds_for(recorded.task))
                return [until(replace(recorded, seeds=seeds[0]), name, seed) for seed in range(repeats)]

            ways[name].append(median(state.get(f"translator {device} {recorded.space} {name} {repeats}", count)))
        say(f"{device}, translator: {number} of {len(found)} problems")
    return [compared(f"translator, {name}", device, ways[name], ways["random"]) for name in ("predictor", "portfolio")]


def compared(part: str, device: str, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    """Medians over the problems."""
    mine, other = median(ours), median(theirs)
    return {"part": part, "device": device, "problems": len(ours), "median": mine, "instead_of": other,
            "ratio": mine / other, "missed": sum(map(math.isinf, ours))}


def median(values: Sequence[float]) -> float:
    """Of which some may be infinite."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def campaigns(data: Dataset, device: str, state: State) -> list[Row]:
    """The mean share after so many trials of each problem, and the random trials that it takes."""
    import numpy as np

    from seqtune.data.measured_tasks import measured_tasks

    key = [key for key, one in data.devices.items() if one.name == device]
    mine = replace(data, rows=data.rows[data.rows["device"].isin(key)])
    found = [measured for part in (False, True) for measured in measured_tasks(mine, part) if measured.known.all()]
    found = [found[place] for place in np.random.default_rng(0).permutation(len(found))]
    held_out = [measured for measured in found if measured.problem.key in data.held_out]
    rows = []
    for some, way, budgets in ((found, "trials", TRIALS), (found, "total", TRIALS),
                               (held_out, "trials, translator", SEEDED_TRIALS)):
        chance = np.mean([random_trials(measured.seconds).mean(axis=0) for measured in some], axis=0)
        for trials in budgets:
            def run(some: Sequence[MeasuredTask] = some, way: str = way, trials: int = trials) -> list[float]:
                return searched(some, trials, way)

            share, spent = state.get(f"campaign {device} {way} {trials}", run)
            enough = np.flatnonzero(chance >= share - 1e-12)
            rows.append({"part": "campaign", "device": device, "problems": len(some), "budget": way, "trials": spent,
                         "share": share, "random": int(enough[0]) + 1 if len(enough) else None,
                         "random_share": float(chance[trials - 1])})
            say(f"{device}, campaign: {trials} trials of each, {way}")
    return rows


def searched(found: Sequence[MeasuredTask], trials: int, way: str) -> list[float]:
    """Mean share and mean trials of a campaign that begins with an empty journal."""
    from seqtune.data.journal import Journal
    from seqtune.proposals import seeds_for
    from seqtune.tuner.campaign import BATCH, campaign
    from seqtune.tuner.tune import Budget, Finals, TuningOptions, no_seeds, tune_all

    tasks, measurer = [measured.task for measured in found], Recorded(found)
    options = TuningOptions(batch=BATCH, finals=Finals(count=0),
                            seeds=seeds_for if way.endswith("translator") else no_seeds)
    with tempfile.TemporaryDirectory(prefix="seqtune-across-") as folder, \
            Journal(Path(folder) / "journal.sqlite") as journal:
        if way == "total":
            results = list(campaign(tasks, journal, measurer, trials * len(found), options))
        else:
            results = list(tune_all(tasks, journal, measurer, Budget(trials=trials), options))
    best = {measured.problem: measured.best for measured in found}
    shares = [best[one.problem] / one.measurement.seconds if one.measurement else 0.0 for one in results]
    return [sum(shares) / len(found), sum(one.done for one in results) / len(found)]


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)
