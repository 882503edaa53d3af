"""Predict in spaces too large to rank as a whole: `python -m benchmarks large_spaces --work FOLDER --out docs`.

A small translator and boosted trees learn from a few hundred known times of each training problem. On other problems,
the beam's proposals are compared with ranking every configuration: by the trees, and by the translator's judge, and
with the trees on a random sample that takes as long as the beam. Shares of the best speed are among all
configurations. `large_landscapes.py` describes the spaces and their times: without --recorded only our own GPU kernels,
on described GPUs.

FOLDER keeps what was trained and each space's rows, so that the program can go on: --prepare only trains, --only judges
a single space. Nothing else should run while it measures latencies.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.contest import geometric_mean
from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, markdown, processor
from benchmarks.common.stored_options import check_options
from benchmarks.prediction.large_landscapes import LargeSpaces, defined, own_gemm, recorded_gemm
from seqtune.kernels.files import read_bounded, write_whole

if TYPE_CHECKING:
    from seqtune.kernels.row_index import Numbers
    from seqtune.kernels.task import MeasuredTask, Task
    from seqtune.predictor.times.model import TimesModel

Estimates = NDArray[np.floating]  # (configuration,) log(time / best time), up to a constant

LARGEST_FILE = 1_000_000  # bytes of stored rows
REPEATS = 3  # of a beam, whose least time counts; a ranking of everything takes long and runs once
MEASURED = 5
OPTIONS = ("problems", "judged", "epochs", "rounds", "width")  # that the finished work depends on
WAYS = {
    "beam 16": "the translator's beam of 16, in its own order",
    "beam 32": "the same with 32",
    "beam 32 and judge": "the beam of 32, ordered by the translator's judge",
    "beam 32, judge and trees": "the beam of 32, ordered as in the shipped checkpoint",
    "trees on a sample": "the trees on as many random configurations as take the time of the line above",
    "judge on all": "the judge on every configuration",
    "trees on all": "the trees on every configuration",
    "random": "a random configuration, and the best of five: means over 200 draws",
}


def train(spaces: LargeSpaces, epochs: int, rounds: int, width: int) -> TimesModel:
    """Train trees and a translator on the known times of the training problems."""
    from seqtune.predictor.times.model import TimesModel
    from seqtune.predictor.times.training import fit
    from seqtune.predictor.times.training_examples import make_examples, make_teacher, vocabulary_of
    from seqtune.predictor.times.training_options import TrainingOptions
    from seqtune.predictor.times.translator import Translator
    from seqtune.predictor.trees.cost_trees import TreesOptions
    from seqtune.predictor.trees.ranker import Ranker

    trees = TreesOptions(rounds=rounds, rate=min(0.3, 24 / rounds), models=2)
    options = TrainingOptions(epochs=epochs, batch=8, trees=trees, validation=0.0, extra=0, width=width, layers=2,
                              hidden=2 * width, judge=2 * width)  # small batches: an epoch has few examples
    fitting = spaces.training()
    vocabulary = vocabulary_of(fitting)
    _say(f"{spaces.name}: trees of {len(fitting)} problems")
    teacher = make_teacher(fitting, options)
    assert teacher is not None
    examples = make_examples(fitting, teacher, vocabulary, options, [])
    model = Translator.of(vocabulary, width=width, layers=options.layers, heads=options.heads, hidden=options.hidden,
                          dropout=options.dropout, judge=options.judge)
    state = fit(model, vocabulary, examples, [], options, lambda step: _say(f"{spaces.name}: {step!s:.100}"))
    return TimesModel.of_translator(state.kept.eval(), vocabulary, seed=options.seed, ranker=Ranker.of(teacher))


def judge_task(measured: MeasuredTask, checkpoint: TimesModel) -> dict[str, Row]:
    """The shares of the best speed that each way reaches on one task, and its milliseconds."""
    from seqtune.data.measured_tasks import counted

    task, default = measured.task, measured.time(measured.task.default)
    known = counted(measured.seconds, default, measured.seconds)
    rows: dict[str, Row] = {}

    def add(name: str, propose: Callable[[Task], Numbers], repeats: int) -> None:
        seconds, numbers = _timed(partial(propose, task), repeats)
        first, best = known[numbers[0]], known[numbers[:MEASURED]].min()
        rows[name] = {"share": measured.best / first, "best_of_five": measured.best / best,
                      "faster": float((known < first).mean()), "milliseconds": 1e3 * seconds}

    ways = ways_of(checkpoint)
    for name in ("beam 16", "beam 32", "beam 32 and judge", "beam 32, judge and trees", "judge on all", "trees on all"):
        add(name, ways[name], REPEATS if name.startswith("beam") else 1)
    least, most = (rows[name]["milliseconds"] for name in ("beam 32, judge and trees", "trees on all"))
    generator = np.random.default_rng(0)
    sampled = generator.choice(len(task), max(MEASURED, int(len(task) * min(1.0, least / most))), replace=False)
    add("trees on a sample", lambda task: sampled[np.argsort(_trees(checkpoint, task, sampled), kind="stable")], 1)
    logs = np.log(known[generator.integers(0, len(task), (200, MEASURED))])
    rows["random"] = {"share": measured.best / math.exp(logs[:, 0].mean()), "faster": 0.5, "milliseconds": 0.0,
                      "best_of_five": measured.best / math.exp(logs.min(axis=1).mean())}
    return rows


def ways_of(checkpoint: TimesModel) -> Mapping[str, Callable[[Task], Numbers]]:
    """The ways to propose configurations of a task, by name; each gives their numbers in order."""
    from dataclasses import replace

    from seqtune.predictor.sequence.beam import search_numbers_many

    words, proposer = checkpoint.next_word(), checkpoint.proposer()
    judge = checkpoint.judge
    assert judge is not None

    def everything(estimate: Callable[[Task, Numbers], Estimates]) -> Callable[[Task], Numbers]:
        return lambda task: np.argsort(estimate(task, np.arange(len(task))), kind="stable")

    return {
        "beam 16": lambda task: search_numbers_many(words, [task], 16, 16)[0][0],
        "beam 32": lambda task: search_numbers_many(words, [task], 32, 32)[0][0],
        "beam 32 and judge": lambda task: replace(proposer, ranker=None).proposals(task, 32).numbers,
        "beam 32, judge and trees": lambda task: proposer.proposals(task, 32).numbers,
        "judge on all": everything(judge.slowness),
        "trees on all": everything(partial(_trees, checkpoint)),
    }


def _trees(checkpoint: TimesModel, task: Task, numbers: Numbers) -> Estimates:
    assert checkpoint.ranker is not None
    return checkpoint.ranker.slowness(task, numbers)


def _timed(call: Callable[[], Numbers], repeats: int) -> tuple[float, Numbers]:
    """The least seconds of some calls, after one that is not counted if there are several; and the result."""
    result = call() if repeats > 1 else None
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - begin)
    assert result is not None
    return min(seconds), result


def judge_spaces(spaces: LargeSpaces, checkpoint: TimesModel) -> list[Row]:
    """Make a row for each way: geometric mean shares over the judged problems, and median milliseconds."""
    from seqtune.predictor.translator.threads import one_thread

    by_way: dict[str, list[Row]] = {}
    sizes, enumerations = [], []
    with one_thread():
        for measured in spaces.judged():
            _say(f"{spaces.name}: {measured.problem.brief()}, {len(measured.task)} configurations")
            sizes.append(len(measured.task))
            enumerations.append(enumeration_seconds(measured.task))
            for way, row in judge_task(measured, checkpoint).items():
                by_way.setdefault(way, []).append(row)
    return [{"space": spaces.name, "times": spaces.times, "problems": len(sizes), "fewest": min(sizes),
             "most": max(sizes), "enumeration": 1e3 * float(np.median(enumerations)), "way": way,
             **{name: geometric_mean([row[name] for row in rows]) for name in ("share", "best_of_five")},
             "faster": float(np.mean([row["faster"] for row in rows])),
             "milliseconds": float(np.median([row["milliseconds"] for row in rows]))}
            for way, rows in ((way, by_way[way]) for way in WAYS)]


def enumeration_seconds(task: Task) -> float:
    """The seconds in which the configurations of the task's kernels are enumerated, with nothing remembered."""
    from seqtune.kernels.spaces.skeleton import lazy_skeleton, valid_borders, valid_rows
    from seqtune.kernels.task import Task

    for remembered in (lazy_skeleton, valid_rows, valid_borders):
        remembered.cache_clear()
    begin = time.perf_counter()
    Task.of(task.problem, task.device, task.kernels if task.device.backend == "recorded" else None)
    return time.perf_counter() - begin


def table(rows: list[Row]) -> str:
    """Make the table: a line for each way, by space."""
    lines = []
    for row in rows:
        sizes = f"{row['fewest']:,}" + (f" – {row['most']:,}" if row["most"] != row["fewest"] else "")
        sizes += f", in {row['enumeration']:,.0f} ms"
        first = row["way"] == next(iter(WAYS))
        lines.append([f"{row['space']} ({row['times']})" if first else "", sizes if first else "", row["way"],
                      f"{row['share']:.3f}", f"{row['best_of_five']:.3f}", f"{100 * row['faster']:.2f} %",
                      f"{row['milliseconds']:,.0f}" if row["milliseconds"] else "-"])
    return markdown(["space (times)", "configurations, enumerated", "way", "first proposal", "best of 5",
                     "configurations faster", "ms"], lines, left=3)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    cells = {(row["space"], row["way"]): row for row in rows}
    largest = max(rows, key=lambda row: row["most"])
    beam, trees = (cells[largest["space"], way] for way in ("beam 32, judge and trees", "trees on all"))
    return Page(
        "large_spaces", "Large spaces",
        f"Among the {largest['most']:,} configurations of {largest['space']}, the beam's first proposal reaches "
        f"{beam['share']:.3f} of the best in {beam['milliseconds']:,.0f} ms, ranking all of them with trees "
        f"{trees['share']:.3f} in {trees['milliseconds']:,.0f} ms.",
        "python -m benchmarks large_spaces --recorded RECORDED --work FOLDER --out docs", table(rows),
        measured_on(results),
        "Shares of the best speed, as geometric means over the judged problems; `configurations faster`: the share of "
        "the space that is faster than the first proposal; milliseconds: the median over the problems, on one thread, "
        "of a space that is already enumerated. The ways:\n\n"
        + "\n".join(f"- `{way}`: {meaning};" for way, meaning in WAYS.items()).rstrip(";") + ".",
        ("Only the times of gemm_rtx were measured. The others are costs: of the analytic model, whose terms no method "
         "sees, and for hotspot_milo of a formula of halo work, memory and occupancy.",
         "Learned from 400 known times of each training problem: of other sizes on the same GPUs, with 3 % noise; for "
         "gemm_rtx from 400 of the same landscape. Few problems are judged.",
         "The translator is small (width 64, 2 layers) and was trained for minutes."))


def kinds(recorded: Path | None, problems: int, judged: int) -> dict[str, Callable[[], LargeSpaces]]:
    """The spaces by name; those of definitions and recordings only with their folder."""
    own: dict[str, Callable[[], LargeSpaces]] = {"own_gemm": partial(own_gemm, problems, judged)}
    if recorded is None:
        return own
    return own | {name: partial(defined, recorded, name, problems, judged)
                  for name in ("gemm_milo", "hotspot_milo")} | {"gemm_rtx": partial(recorded_gemm, recorded)}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    from seqtune.errors import MisuseError
    from seqtune.predictor.times.model import TimesModel

    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--work", type=Path, required=True, help="keeps trained models and judged spaces")
    parser.add_argument("--recorded", type=Path, help="folder with definitions.json and gemm_rtx.parquet")
    parser.add_argument("--only", help="a single space: " + ", ".join(kinds(Path(), 1, 1)))
    parser.add_argument("--prepare", action="store_true", help="only train")
    parser.add_argument("--problems", type=positive, default=48, help="training problems of each space")
    parser.add_argument("--judged", type=positive, default=4, help="judged problems of each space")
    parser.add_argument("--epochs", type=positive, default=60)
    parser.add_argument("--rounds", type=positive, default=200, help="trees of each model")
    parser.add_argument("--width", type=positive, default=64, help="of the translator")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    if given.recorded is not None and not given.recorded.is_dir():
        raise MisuseError(f"{given.recorded} is not a folder of recorded spaces; without --recorded, our own GPU "
                          "kernels are judged")
    chosen = kinds(given.recorded, given.problems, given.judged)
    if given.only is not None and given.only not in chosen:
        raise MisuseError(f"no space {given.only!r:.40}; there are {', '.join(chosen)}")
    rows: list[Row] = []
    for name, make in chosen.items():
        folder, stored = given.work / name, given.work / f"{name}.json"
        if given.only in (None, name):
            check_options(given.work / f"{name} options.json", {
                option: getattr(given, option) for option in OPTIONS}, folder)
        if given.only in (None, name) and not stored.exists():
            spaces = make()
            if not folder.exists():
                train(spaces, given.epochs, given.rounds, given.width).save(folder)
            if not given.prepare:
                write_whole(stored, json.dumps(judge_spaces(spaces, TimesModel.load(folder))))
        if stored.exists():
            rows += json.loads(read_bounded(stored, LARGEST_FILE))
    if not rows:
        return
    print(table(rows))
    if len({row["space"] for row in rows}) == len(chosen):
        publish(given.out, page, {"machine": processor(), "rows": rows})
