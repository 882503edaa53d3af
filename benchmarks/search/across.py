"""Search across problems: `python -m benchmarks.across --out docs/ [--readme README.md]`.

Replayed on the shipped data, where only what was measured can be found. Three questions, each per device:

transfer: how many trials the portfolio needs until 97 % of the best known speed on a held-out problem, from scratch and
with the records of the nearest other problems (training ones that are not near it; as `tune` would choose them);
translator: the same with the shipped translator's proposals to begin with, beside random trials, on held-out problems
of which every configuration was measured;
campaign: what share `tune --problems` reaches on average over all problems of which everything was measured, with an
empty journal and without the translator, and how many random trials of each problem reach as much: with equal `trials`
for each problem, one after the other, and with as large a `total` that they share; and, over held-out problems alone,
with the translator, as `tune` is where the device is known.

Trials until 97 % are medians over the runs of each problem; `median` is that of the problems. Writes across.json and
across.svg and prints a Markdown table. --state keeps what is done, so that a second time goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.program import positive, run_program
from benchmarks.common.report import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    Row,
    check_ready,
    height,
    insert,
    markdown,
    save,
    share_axis,
    style,
    write_json,
)
from seqtune.errors import FormatError, MisuseError
from seqtune.learning import read_dataset

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.data.record import Measurement
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import MeasuredTask
    from seqtune.kernels.union import Past
    from seqtune.tuner.measuring.timing import Options
    from seqtune.tuner.simulation import Task

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
                path.write_text(whole + end)

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


def until(task: Task, strategy: str, seed: int) -> float:
    """Trials until the level; infinite where `MOST` do not suffice. What the task knows goes to who takes it."""
    from seqtune.tuner.tune import strategy_factory

    factory: Any = strategy_factory(strategy)
    more = {name: given for name, given in (("history", task.history), ("seeds", task.seeds))
            if getattr(factory, f"takes_{name}", False)}
    search = factory(task.spaces, seed, MOST, **more)
    done = 0
    while done < MOST and (asked := search.ask(1)):
        for configuration in asked:
            done += 1
            measurement = task.measurement(task.number(configuration))
            if measurement.seconds * LEVEL <= task.optimum * (1 + 1e-12):
                return float(done)
            search.tell(configuration, measurement)
    return math.inf


def nearest(problem: Problem, others: Sequence[Task]) -> tuple[Past, ...]:
    """What `tune` would learn from: the nearest of the other problems, none of them near enough to know this one."""
    from seqtune.kernels.problem_sets.similarity import distance, near
    from seqtune.kernels.union import Past
    from seqtune.tuner.history import LEAST_TRIALS, MOST_PROBLEMS

    taught = [(distance(of, problem), of.key, one) for one in others
              if (of := one.spaces[0].problem).type == problem.type and not near(of, problem)
              and len(one.seconds) >= LEAST_TRIALS]
    return tuple(Past(one.spaces, one.seconds) for _, _, one in sorted(taught, key=lambda each: each[:2])
                 [:MOST_PROBLEMS])


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
    from seqtune.strategy_replay import tasks

    training = replace(data, rows=data.rows[~data.rows["problem"].isin(data.held_out)])
    others = tasks(training, devices=[device])
    held_out = tasks(data, devices=[device], held_out=True)
    ways: dict[str, list[float]] = {"scratch": [], "history": []}
    for number, task in enumerate(held_out, start=1):
        told = replace(task, history=nearest(task.spaces[0].problem, others))
        for name, one in (("scratch", task), ("history", told)):
            def count(one: Task = one) -> list[float]:
                return [until(one, "portfolio", seed) for seed in range(repeats)]

            ways[name].append(median(state.get(f"transfer {device} {task.space} {name} {repeats}", count)))
        say(f"{device}, transfer: {number} of {len(held_out)} problems")
    return compared("transfer", device, ways["history"], ways["scratch"])


def translator(data: Dataset, device: str, repeats: int, state: State) -> list[Row]:
    """Trials of random search, and of those that begin with the translator's proposals."""
    import numpy as np

    from seqtune.strategy_replay import proposals, tasks

    found = tasks(data, devices=[device], complete=True, held_out=True)
    ways: dict[str, list[float]] = {"random": [], "predictor": [], "portfolio": []}
    for number, task in enumerate(found, start=1):
        there = random_trials(task.seconds) >= LEVEL - 1e-12
        ways["random"].append(median(np.where(there.any(axis=1), there.argmax(axis=1) + 1.0, math.inf).tolist()))
        seeds: list[tuple[Configuration, ...]] = []
        for name in ("predictor", "portfolio"):
            def count(name: str = name, task: Task = task, seeds: list[Any] = seeds) -> list[float]:
                if not seeds:
                    seeds.append(proposals(task))
                return [until(replace(task, seeds=seeds[0]), name, seed) for seed in range(repeats)]

            ways[name].append(median(state.get(f"translator {device} {task.space} {name} {repeats}", count)))
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
    from seqtune.proposals import seeded
    from seqtune.tuner.campaign import BATCH, campaign
    from seqtune.tuner.tune import Budget, Finals, strategy_factory, tune_all

    problems, device, measurer = [measured.problem for measured in found], found[0].device, Recorded(found)
    strategy = seeded("portfolio", strategy_factory("portfolio")) if way.endswith("translator") else "portfolio"
    with tempfile.TemporaryDirectory(prefix="seqtune-across-") as folder, \
            Journal(Path(folder) / "journal.sqlite") as journal:
        if way == "total":
            results = list(campaign(problems, device, journal, trials * len(found), strategy, measurer=measurer,
                                    finals=Finals(count=0)))
        else:
            results = list(tune_all(problems, device, journal, strategy, Budget(trials=trials), measurer=measurer,
                                    finals=Finals(count=0), batch=BATCH))
    best = {measured.problem: measured.best for measured in found}
    shares = [best[one.problem] / one.measurement.seconds if one.measurement else 0.0 for one in results]
    return [sum(shares) / len(found), sum(one.done for one in results) / len(found)]


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def table(rows: Sequence[Row]) -> str:
    """A line per question and device; of campaigns, one per number of trials."""
    def number(value: float | None) -> str:
        return f"> {MOST}" if value is None or math.isinf(value) else f"{value:g}"

    until_there = [[row["part"], row["device"], str(row["problems"]), number(row["median"]),
                    number(row["instead_of"]), f"{row['ratio']:.2f}"] for row in rows if row["part"] != "campaign"]
    shares = [[row["device"], row["budget"], str(row["problems"]), f"{row['trials']:.1f}", f"{row['share']:.3f}",
               f"{row['random_share']:.3f}", number(row["random"])] for row in rows if row["part"] == "campaign"]
    return "\n\n".join([
        markdown(["knows beforehand", "device", "problems", "trials to 97 %", "without", "ratio"], until_there, left=2),
        markdown(["device of the campaign", "budget", "problems", "trials of each", "mean share", "random's",
                  "random trials for as much"], shares, left=2)])


def draw(rows: Sequence[Row], path: Path) -> None:
    """Mean shares of campaigns over the trials of each problem, beside random trials."""
    pyplot = style()
    campaigns = [row for row in rows if row["part"] == "campaign"]
    devices = list(dict.fromkeys(row["device"] for row in campaigns))
    figure, axes = pyplot.subplots(1, len(devices), figsize=(3.6 * len(devices), 2.7), squeeze=False)
    for axis, device in zip(axes[0], devices, strict=True):
        mine = [row for row in campaigns if row["device"] == device]
        share_axis(axis, 0.8)
        for name, colour, budget, column in (("shared budget", BLACK, "total", "share"),
                                             ("equal trials", BLUE, "trials", "share"),
                                             ("with the translator", ORANGE, "trials, translator", "share"),
                                             ("random", GREY, "trials", "random_share")):
            line = [row for row in mine if row["budget"] == budget]
            axis.plot([row["trials"] for row in line], [height(row[column]) for row in line], "o-", color=colour,
                      markersize=3, label=name)
        axis.set_title(device, loc="left")
        axis.set_xlabel("trials of each problem", loc="left")
        axis.legend(frameon=False, fontsize=7, loc="lower right")
    figure.supylabel("mean share of the best known speed", fontsize=9)
    save(figure, path)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for across.json and across.svg")
    parser.add_argument("--readme", type=Path, help="also put the table between this page's across comments")
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--devices", default="llvm:avx512:2,opencl:cpu", help="with commas between")
    parser.add_argument("--repeats", type=positive, default=3, help="searches of each problem")
    parser.add_argument("--state", type=Path, help="keeps what is done")
    given = parser.parse_args()
    check_ready(given.out, given.readme, "across")
    data, state, rows = read_dataset(given.data), State(given.state), list[Row]()
    devices = list(dict.fromkeys(given.devices.split(",")))
    there = sorted({device.name for device in data.devices.values()})
    for device in devices:
        if device not in there:
            raise MisuseError(f"no device {device!r:.60} in these data; there are {', '.join(there)[:300]}")
    for device in devices:
        rows += [transfer(data, device, given.repeats, state), *translator(data, device, given.repeats, state),
                 *campaigns(data, device, state)]
    given.out.mkdir(parents=True, exist_ok=True)
    write_json(given.out / "across.json", {"repeats": given.repeats, "level": LEVEL, "rows": [
        {name: None if isinstance(value, float) and not math.isfinite(value) else value
         for name, value in row.items()} for row in rows]})
    draw(rows, given.out / "across.svg")
    print(table(rows))
    if given.readme is not None:
        insert(given.readme, "across", table(rows))


if __name__ == "__main__":
    run_program("across", main)
