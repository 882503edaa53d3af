"""Replayed searches that use other problems' records, the translator's proposals, or a campaign over many problems.

They use recorded times; `benchmarks across` reports them.
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
    from seqtune.tuner.run.simulation import RecordedSpace

LEVEL = 0.97  # share of the best known speed that ends a search
MOST = 200  # trials of a search; a search that needs more counts as infinite
TRIALS = (10, 20, 30)  # for each problem of a campaign
SEEDED_TRIALS = (2, 5, 10)  # for each problem of a campaign that begins with the translator's proposals
SHUFFLES = 100  # random orders of the configurations of a problem


class FinishedSearches:
    """The results of finished searches by key, stored as JSON lines; without a path they are only kept in memory."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.done = path, dict[str, Any]()
        if path is not None and path.exists():
            whole, end, torn = path.read_text().rpartition("\n")
            try:
                self.done = dict(json.loads(line) for line in whole.splitlines())
            except (ValueError, TypeError):
                raise FormatError(f"{path} is not a file of finished searches of this program") from None
            if torn and not self.done:
                raise FormatError(f"{path} is not a file of finished searches of this program")
            if torn:  # the program was stopped in the middle of a line
                write_whole(path, whole + end)

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the result stored under a key; compute and store it if it is missing."""
        if key not in self.done:
            self.done[key] = make()
            if self.path is not None:
                with self.path.open("a") as file:
                    file.write(json.dumps([key, self.done[key]]) + "\n")
        return self.done[key]


class TaskMeasurer:
    """A measurer that returns the times of completely measured tasks."""

    def __init__(self, tasks: Sequence[MeasuredTask]) -> None:
        self.tasks = {measured.problem: measured for measured in tasks}
        self.device = tasks[0].device

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Yield each configuration with its recorded time."""
        from seqtune.data.record import Measurement, Status

        measured = self.tasks[problem]
        for configuration in configurations:
            seconds = measured.time(configuration)
            yield configuration, (Measurement(Status.CORRECT, (seconds,)) if math.isfinite(seconds)
                        else Measurement(Status.RUNTIME, message="this configuration failed when it was recorded"))

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """Return the recorded times of the configurations."""
        return [measurement for _, measurement in self.measure(problem, configurations, options)]


def until(recorded: RecordedSpace, strategy: str, seed: int) -> float:
    """The number of trials to LEVEL, infinite if it is more than MOST."""
    from seqtune.tuner.strategies.table import strategy_factory

    search = strategy_factory(strategy)(recorded.context(MOST, seed))
    done = 0
    while done < MOST and (proposed := search.ask(1)):
        for configuration in proposed:
            done += 1
            measurement = recorded.measurement(recorded.task.number(configuration))
            if measurement.seconds * LEVEL <= recorded.optimum * (1 + 1e-12):
                return float(done)
            search.tell(configuration, measurement)
    return math.inf


def nearest(problem: Problem, others: Sequence[RecordedSpace]) -> tuple[MeasuredTask, ...]:
    """The problems whose records `tune` would use: the nearest ones that are no near twins of this problem."""
    from seqtune.kernels.problem_sets.similarity import distance, near
    from seqtune.tuner.run.history import LEAST_TRIALS, MOST_PROBLEMS

    candidates = [(distance(other, problem), other.key, space) for space in others
              if (other := space.task.problem).type == problem.type and not near(other, problem)
              and len(space.seconds) >= LEAST_TRIALS]
    by_distance = sorted(candidates, key=lambda candidate: candidate[:2])
    return tuple(space.measured for _, _, space in by_distance[:MOST_PROBLEMS])


def random_trials(seconds: Any) -> Any:
    """The best share after each random trial, as an array (shuffle, trial)."""
    import numpy as np

    shares = np.zeros((SHUFFLES, MOST))
    for seed in range(SHUFFLES):
        best = np.minimum.accumulate(np.random.default_rng(seed).permutation(seconds)[:MOST])
        shares[seed, :len(best)] = seconds.min() / best
        shares[seed, len(best):] = shares[seed, len(best) - 1]
    return shares


def transfer(data: Dataset, device: str, repeats: int, finished: FinishedSearches) -> Row:
    """Compare the trials with other problems' records with those from scratch."""
    from seqtune.strategy_replay import recorded_spaces

    training = replace(data, rows=data.rows[~data.rows["problem"].isin(data.held_out)])
    others = recorded_spaces(training, devices=[device])
    held_out = recorded_spaces(data, devices=[device], held_out=True)
    trials: dict[str, list[float]] = {"scratch": [], "history": []}
    for number, recorded in enumerate(held_out, start=1):
        with_history = replace(recorded, history=nearest(recorded.task.problem, others))
        for name, space in (("scratch", recorded), ("history", with_history)):
            def count(space: RecordedSpace = space) -> list[float]:
                return [until(space, "portfolio", seed) for seed in range(repeats)]

            trials[name].append(median(finished.get(f"transfer {device} {recorded.space} {name} {repeats}", count)))
        say(f"{device}, transfer: {number} of {len(held_out)} problems")
    return compared("transfer", device, trials["history"], trials["scratch"])


def translator(data: Dataset, device: str, repeats: int, finished: FinishedSearches) -> list[Row]:
    """Compare the trials of searches that begin with the translator's proposals with random search."""
    import numpy as np

    from seqtune.predictor.answering import seeds_for
    from seqtune.strategy_replay import recorded_spaces

    spaces = recorded_spaces(data, devices=[device], complete=True, held_out=True)
    trials: dict[str, list[float]] = {"random": [], "predictor": [], "portfolio": []}
    for number, recorded in enumerate(spaces, start=1):
        reached = random_trials(recorded.seconds) >= LEVEL - 1e-12
        trials["random"].append(median(np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, math.inf).tolist()))
        seeds: list[tuple[Configuration, ...]] = []
        for name in ("predictor", "portfolio"):
            def count(name: str = name, recorded: RecordedSpace = recorded, seeds: list[Any] = seeds) -> list[float]:
                if not seeds:
                    seeds.append(seeds_for(recorded.task))
                return [until(replace(recorded, seeds=seeds[0]), name, seed) for seed in range(repeats)]

            trials[name].append(median(finished.get(f"translator {device} {recorded.space} {name} {repeats}", count)))
        say(f"{device}, translator: {number} of {len(spaces)} problems")
    return [compared(f"translator, {name}", device, trials[name], trials["random"])
            for name in ("predictor", "portfolio")]


def compared(part: str, device: str, trials: Sequence[float], baseline_trials: Sequence[float]) -> Row:
    """Make a row with the medians over the problems."""
    own, baseline = median(trials), median(baseline_trials)
    return {"part": part, "device": device, "problems": len(trials), "median": own, "instead_of": baseline,
            "ratio": own / baseline, "missed": sum(map(math.isinf, trials))}


def median(values: Sequence[float]) -> float:
    """The median of values, some of which may be infinite."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def campaigns(data: Dataset, device: str, finished: FinishedSearches) -> list[Row]:
    """Make a row for each campaign: its mean share, and the random trials that reach the same share."""
    import numpy as np

    from seqtune.data.measured_tasks import measured_tasks

    keys = [key for key, facts in data.devices.items() if facts.name == device]
    device_data = replace(data, rows=data.rows[data.rows["device"].isin(keys)])
    tasks = [measured for held_out_part in (False, True) for measured in measured_tasks(device_data, held_out_part)
             if measured.known.all()]
    tasks = [tasks[index] for index in np.random.default_rng(0).permutation(len(tasks))]
    held_out = [measured for measured in tasks if measured.problem.key in data.held_out]
    rows = []
    for chosen, budget, budgets in ((tasks, "trials", TRIALS), (tasks, "total", TRIALS),
                               (held_out, "trials, translator", SEEDED_TRIALS)):
        chance = np.mean([random_trials(measured.seconds).mean(axis=0) for measured in chosen], axis=0)
        for trials in budgets:
            def run(chosen: Sequence[MeasuredTask] = chosen, budget: str = budget, trials: int = trials) -> list[float]:
                return searched(chosen, trials, budget)

            share, spent = finished.get(f"campaign {device} {budget} {trials}", run)
            as_good = np.flatnonzero(chance >= share - 1e-12)
            rows.append({"part": "campaign", "device": device, "problems": len(chosen), "budget": budget,
                         "trials": spent, "share": share, "random": int(as_good[0]) + 1 if len(as_good) else None,
                         "random_share": float(chance[trials - 1])})
            say(f"{device}, campaign: {trials} trials of each, {budget}")
    return rows


def searched(measured_tasks: Sequence[MeasuredTask], trials: int, budget: str) -> list[float]:
    """Run a campaign that begins with an empty journal; return its mean share and its mean trials."""
    from seqtune.data.journal.journal import Journal
    from seqtune.predictor.answering import seeds_for
    from seqtune.tuner.run.local_run import LocalRun
    from seqtune.tuner.run.plan import Budget, Finals, Plan, TuningOptions, no_seeds
    from seqtune.tuner.run.scheduler import BATCH

    tasks = {measured.problem: measured.task for measured in measured_tasks}
    allowed = Budget(total=trials * len(measured_tasks)) if budget == "total" else Budget(trials)
    options = TuningOptions(batch=BATCH, finals=Finals(count=0),
                            seeds=seeds_for if budget.endswith("translator") else no_seeds)
    with tempfile.TemporaryDirectory(prefix="seqtune-across-") as folder, \
            Journal(Path(folder) / "journal.sqlite") as journal:
        plan = Plan(tuple(tasks), allowed, options, lambda problem, device: tasks[problem])
        results = list(LocalRun(plan, journal, TaskMeasurer(measured_tasks)).results())
    best = {measured.problem: measured.best for measured in measured_tasks}
    shares = [best[result.problem] / result.measurement.seconds if result.measurement else 0.0 for result in results]
    return [sum(shares) / len(measured_tasks), sum(result.done for result in results) / len(measured_tasks)]


def say(text: str) -> None:
    """Print a line of progress on standard error."""
    print(text, file=sys.stderr, flush=True)
