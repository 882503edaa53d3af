"""Little data, as a library's author has: `python -m benchmarks small_data --out docs`.

Of one kernel family on one device of the shipped data, --problems problems with --configurations measured
configurations each are drawn with a seed. A checkpoint is trained on them as `seqtune train` does, and is judged on
other problems of the family, none near a training one, next to its parts and to simple methods. For the first seed it
is also cross-validated, to see whether `seqtune train` says how good the checkpoint is; and that of llvm.gemm is
trained with --further problems, too, which its trees label.

Every finished training is kept in --work, so that --minutes can end a call and the next one goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common.page import Page, Results, add_out, check_ready, publish
from benchmarks.common.page import replayed as replayed_on
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import markdown, processor
from benchmarks.prediction.locked import until_after
from seqtune.errors import FormatError

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.times.shares import Outcome

FAMILIES = {  # kernel family -> name of its device; the one with the most rows, if several have the name
    "llvm.gemm": "llvm:avx512:2", "llvm.depthwise": "llvm:avx512:2", "llvm.winograd": "llvm:avx512:2",
    "llvm.direct": "llvm:avx512:2", "opencl.gemm": "opencl:cpu", "opencl.direct": "opencl:cpu",
    "opencl.implicit_gemm": "opencl:cpu"}
DRAWING = ("llvm.gemm",)  # families that are trained with further problems as well; no other kernel solves these
METHODS = ("seqtune", "transformer", "trees", "nearest", "fixed", "random", "default")
FURTHER = "seqtune, further problems"
COUNTS = (0, 5)
FIRST = ("seqtune", 0)
LEAST_MEASURED = 20  # configurations of a judged problem; with fewer, a random one is near the best
SEED = 0  # the seed of the cross-validation and of the training with further problems

Run = dict[str, Any]  # one training: family, seed, seconds, outcomes, and what else was done


def tasks_of(data: Dataset, family: str) -> list[MeasuredTask]:
    """The measured tasks of a kernel family alone, on its device."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.kernels.registry import kernel

    rows = data.rows[data.rows["kernel"] == family]
    device = max(data.named(FAMILIES[family]), key=lambda key: int((rows["device"] == key).sum()))
    own = replace(data, rows=rows[rows["device"] == device], held_out=frozenset(), kernels={family: kernel(family)})
    return measured_tasks(own, held_out=False)


def drawn(tasks: Sequence[MeasuredTask], problems: int, configurations: int, judged: int,
          seed: int) -> tuple[list[MeasuredTask], list[MeasuredTask]]:
    """Draw training tasks with some of their measurements, and tasks to judge by, none near a training one."""
    from seqtune.kernels.problem_sets.similarity import SimilarityIndex
    from seqtune.kernels.task import MeasuredTask

    generator = np.random.default_rng(seed)
    order = generator.permutation(len(tasks)).tolist()
    training: list[MeasuredTask] = []
    for index in order[:problems]:
        seconds = np.full(len(tasks[index].task), np.nan)
        chosen = generator.permutation(np.flatnonzero(tasks[index].known))[:configurations]
        seconds[chosen] = tasks[index].seconds[chosen]
        if np.isfinite(seconds).any():
            training.append(MeasuredTask(tasks[index].task, seconds))
    near = SimilarityIndex(measured.problem for measured in training)
    others = [tasks[index] for index in order[problems:] if not near.has_near(tasks[index].problem)]
    return training, [measured for measured in others if measured.known.sum() >= LEAST_MEASURED][:judged]


def trained(tasks: Sequence[MeasuredTask], given: argparse.Namespace, family: str, seed: int) -> Run:
    """Train and judge one draw; the first seed also with cross-validation and further problems."""
    from seqtune.predictor.times.evaluation import fitted, replayed
    from seqtune.predictor.times.shares import OURS
    from seqtune.predictor.times.small.cross_validation import cross_validate
    from seqtune.predictor.times.small.folds import folds_of
    from seqtune.predictor.times.small.small_options import small_options
    from seqtune.predictor.times.training import train_tasks
    from seqtune.predictor.times.training_options import TrainingOptions

    training, judged = drawn(tasks, given.problems, given.configurations, given.judged, seed)
    options = small_options(training, TrainingOptions(seed=seed, confidence=False, threads=given.threads))
    began = time.process_time()
    checkpoint, report = train_tasks(training, [], options)
    seconds = time.process_time() - began
    predictors = fitted(training, checkpoint, METHODS)
    outcomes = replayed(judged, predictors, METHODS, COUNTS)
    done: Run = {"family": family, "seed": seed, "seconds": seconds, "training": len(training),
                 "measurements": report["measurements"], "outcomes": _shares(outcomes, "")}
    if seed == SEED:
        began = time.process_time()
        validated = cross_validate(folds_of(training, seed), options, methods=(OURS,), counts=COUNTS)
        done["validation_seconds"] = time.process_time() - began
        done["validated"] = _shares(validated.outcomes if validated else [], "")
        if family in DRAWING:
            began = time.process_time()
            more = replace(options, extra=given.further, lessons=given.further + len(training))
            checkpoint = train_tasks(training, [measured.problem for measured in judged], more)[0]
            done["further_seconds"] = time.process_time() - began
            done["outcomes"] += _shares(replayed(judged, {OURS: checkpoint}, [OURS], COUNTS), ", further problems")
    return done


def _shares(outcomes: Sequence[Outcome], suffix: str) -> list[list[Any]]:
    """The outcomes as rows for JSON: problem, method, number of measured proposals, log share."""
    return [[outcome.problem, method + suffix, count, share] for outcome in outcomes
            for (method, count), share in outcome.log_shares.items()]


class Runs:
    """The finished trainings, one JSON object in each line. Raises FormatError if the file is damaged."""

    def __init__(self, path: Path, about: Run) -> None:
        self.path, self.about = path, about
        self.done: dict[tuple[str, int], Run] = {}
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), start=1):
            try:
                content = json.loads(line)
                if content["about"] == about:
                    self.done[content["run"]["family"], content["run"]["seed"]] = content["run"]
            except (ValueError, LookupError, TypeError):
                raise FormatError(f"{path}:{number} is not what this program writes; remove the line") from None

    def add(self, run: Run) -> None:
        """Store a finished training at once."""
        with self.path.open("a") as file:
            file.write(json.dumps({"about": self.about, "run": run}) + "\n")
        self.done[run["family"], run["seed"]] = run


def rows_of(runs: Sequence[Run]) -> list[Run]:
    """A row for each family, and for all, by method and number: the share with its interval, and that of the distance.
    """
    from seqtune.predictor.times.shares import DRAWS, bootstrap, interval

    table: list[Run] = []
    for family in [*dict.fromkeys(run["family"] for run in runs), "all"]:
        logs: dict[tuple[str, int], dict[tuple[object, ...], float]] = {}
        for run in runs:
            for problem, method, count, share in run["outcomes"] if family in (run["family"], "all") else ():
                if family != "all" or method != FURTHER:  # of one family only
                    logs.setdefault((method, count), {})[run["family"], run["seed"], problem] = share
        for (method, count), shares in logs.items():
            ours = np.array([logs["seqtune", count][key] for key in shares])
            theirs = np.array(list(shares.values()))
            low, high = bootstrap(ours, theirs, DRAWS, 0)
            share_low, share_high = interval(theirs, DRAWS, 0)
            table.append({"family": family, "method": method, "measured": count, "problems": len(theirs),
                          "share": float(np.exp(theirs.mean())), "share_low": share_low, "share_high": share_high,
                          "low": None if method == "seqtune" else low, "high": None if method == "seqtune" else high})
    return table


def _by_method(rows: Sequence[Run]) -> Iterator[list[str]]:
    """The lines of the table: a family with the first proposals of all methods, then the best of five."""
    for family in dict.fromkeys(row["family"] for row in rows):
        for count in COUNTS:
            own = {row["method"]: row for row in rows if (row["family"], row["measured"]) == (family, count)}
            cells = []
            for method in (*METHODS, FURTHER):
                row = own.get(method)
                if row is None:
                    cells.append("-")
                    continue
                mark = "" if row["low"] is None else "*" if row["low"] > 0 else "**" if row["high"] < 0 else ""
                cells.append(f"{row['share']:.3f}{mark}")
            yield [family, "first proposal" if count == 0 else f"best of {count}", *cells]


def summary(run: Run) -> Run:
    """A training without its outcomes: seconds, and the first proposal's share by cross-validation and as judged."""
    about = {name: value for name, value in run.items() if name not in ("outcomes", "validated")}
    for name, outcomes in (("says", run.get("validated")), ("judged", run["outcomes"])):
        logs = [share for _, method, count, share in outcomes or () if (method, count) == FIRST]
        about[name] = float(np.exp(np.mean(logs))) if logs else None
    return about


def _validated(runs: Sequence[Run]) -> Iterator[list[str]]:
    """The lines of the second table: cross-validation against the judged problems, first proposals."""
    for run in runs:
        if run["says"] is not None:
            yield [run["family"], f"{run['says']:.3f}", f"{run['judged']:.3f}", f"{run['seconds']:.0f}",
                   f"{run['validation_seconds']:.0f}",
                   f"{run['further_seconds']:.0f}" if "further_seconds" in run else "-"]


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows, runs = results["rows"], results["runs"]
    every = {(row["method"], row["measured"]): row for row in rows if row["family"] == "all"}
    ours, trees = every["seqtune", 0], every["trees", 0]
    worse = [f"{row['family']} ({row['method']})" for row in rows if row["high"] is not None and row["high"] < 0
             and row["method"] in ("trees", "nearest", "fixed", "default")]
    first = ", ".join(f"{every[name, 0]['share']:.3f} {label}" for name, label in (
        ("trees", "its trees alone"), ("nearest", "the nearest problem's answer"), ("fixed", "the best on average"),
        ("default", "the safe default")))
    return Page(
        "small_data", "Little data",
        f"Trained on {results['problems']} problems of one kernel family with up to {results['configurations']} "
        f"configurations each, the first proposal reaches {ours['share']:.3f} [{ours['share_low']:.3f}, "
        f"{ours['share_high']:.3f}] of the best measured speed on other problems; {first}. The distance to the trees "
        f"is in [{trees['low']:+.3f}, {trees['high']:+.3f}]. "
        + (f"Significantly better than seqtune: {', '.join(worse)}." if worse else
           "No simple method is significantly better for any family, with one proposal or five."),
        f"python -m benchmarks small_data --problems {results['problems']} --configurations "
        f"{results['configurations']} --seeds {results['seeds']} --out docs",
        markdown(["family", "", *METHODS, FURTHER], list(_by_method(rows)), left=2)
        + "\n\n" + markdown(["family", "cross-validation says", "other problems", "seconds of training",
                             "of cross-validation", f"of training with {results['further']} further problems"],
                            list(_validated(runs))),
        replayed_on(results, "Trained"),
        f"Geometric means over {results['seeds']} draws and up to {results['judged']} judged problems of each. `*`: "
        "seqtune is better and the 95 % interval of the distance (paired bootstrap of the problems) is above 0; `**`: "
        "it is worse. `transformer`: the beam and the judge without the trees. Seconds are those of one core, for "
        "the first draw; the second table compares the first proposals there.",
        ("Further problems were tried for one draw of llvm.gemm. Where several kernels solve an operation, a drawn "
         "problem would have the configurations of all of them.",
         "Training configurations are drawn from those that searches measured, which are better than random ones.",
         "The best measured configuration stands for the best one; some judged problems have few measurements."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--problems", type=positive, default=30, help="problems of a training")
    parser.add_argument("--configurations", type=positive, default=60, help="measured configurations of each, at most")
    parser.add_argument("--judged", type=positive, default=30, help="judged problems of a training, at most")
    parser.add_argument("--further", type=positive, default=300, help="further problems that the trees label")
    parser.add_argument("--seeds", type=positive, default=2, help="draws of each family")
    parser.add_argument("--threads", type=positive, default=1, help="threads of a training")
    parser.add_argument("--minutes", type=positive, help="end this call after so many minutes")
    parser.add_argument("--work", type=Path, help="folder of the finished trainings [default: the user's cache]")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Train and judge everything, and write the results when all is done."""
    import platformdirs

    from seqtune.data.dataset import Dataset

    check_ready(given.out)
    work = given.work or Path(platformdirs.user_cache_dir("seqtune")) / "small_data"
    work.mkdir(parents=True, exist_ok=True)
    about = {name: getattr(given, name) for name in ("problems", "configurations", "judged", "further", "threads")}
    runs = Runs(work / "runs.jsonl", about)
    wanted = [(family, seed) for seed in range(given.seeds) for family in given.families]
    until, data = until_after(given.minutes), Dataset.shipped()
    for family, seed in wanted:
        if (family, seed) not in runs.done and time.monotonic() < until:
            runs.add(trained(tasks_of(data, family), given, family, seed))
            print(f"{family}, draw {seed}: {runs.done[family, seed]['seconds']:.0f} s", flush=True)
    left = sum(key not in runs.done for key in wanted)
    if left:
        print(f"{left} trainings remain; run the program again")
        return
    done = [runs.done[key] for key in sorted(wanted, key=lambda key: (given.families.index(key[0]), key[1]))]
    results = {"machine": processor(), **about, "seeds": given.seeds, "rows": rows_of(done),
               "runs": list(map(summary, done))}
    for line in _by_method(results["rows"]):
        print(*line)
    publish(given.out, page, results)
