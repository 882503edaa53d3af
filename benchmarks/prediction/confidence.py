"""Measure whether expected shares can be trusted: `python -m benchmarks confidence --new FILE --out docs`.

The first five proposals for each held-out problem, and for each problem of a machine that the data lack (`--new`, a
data set of its own), have an expected share of the best speed and an interval of 80 %. The program compares them with
the measured shares: the expected calibration error, the coverage of the intervals, and the regret of the first proposal
on the 80 % of problems with the highest expected share. With `--checkpoint` the proposals are those of a checkpoint,
else those of boosted trees alone, which are fitted here with their confidence (eight fits: minutes).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser
from benchmarks.common.report import BLACK, BLUE, GREY, ORANGE, Row, markdown, save, style, today
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError

if TYPE_CHECKING:
    from seqtune.kernels.task import Floats, MeasuredTask
    from seqtune.predictor.candidate import Confidence

Judge = Callable[["MeasuredTask"], "tuple[Sequence[Confidence], Floats, bool | None] | None"]

BINS = 10  # of equal numbers of proposals, for the calibration error
COVERAGE = 0.8  # share of the problems that is answered
PROPOSALS = 5  # of each problem: those that a user gets
GROUPS = {"held out": "held-out problems", "new machine": "a machine that was left out"}
READING = """`error`: the expected calibration error, the mean difference between expected and measured share over ten
bins of proposals with similar expected shares; `in interval`: the share of first proposals whose measured share is
within the interval of 80 %; `above its end`: at or above its lower end, which should be 0.9. `regret` is 1 minus the
share of the first proposal: the mean of all problems, and of the 80 % of the problems with the highest expected share;
`ratio` is one over the other, and `best ratio` that of somebody who knows the measured shares."""
CAVEATS = (
    "Shares are those among the measured configurations. Single trials are noisy: the best of many noisy times is too "
    "good, so measured shares are too low, most where few trials were repeated.",
    "The estimate is fitted to training problems, of which about 110 random configurations are measured; held-out "
    "problems are measured as a whole.",
)


def judged_rows(group: str, tasks: Sequence[MeasuredTask], judge: Judge) -> list[Row]:
    """Make a row for each task: expected share, ends of the interval and measured share of each proposal."""
    rows: list[Row] = []
    for measured in tasks:
        answer = judge(measured)
        if answer is None:
            continue
        confidences, shares, once = answer
        proposals = [[confidence.share, confidence.low, confidence.high, share] for confidence, share
                     in zip(confidences[:PROPOSALS], shares[:PROPOSALS].tolist(), strict=True)]
        rows.append({"group": group, "device": measured.device.name, "problem": measured.problem.brief(),
                     "proposals": proposals, "once": once})
    return rows


def timed_once(rows: Sequence[Row]) -> str:
    """Say how much of the regret is that of first proposals that were timed once, alone; empty if it is not known."""
    sentences: list[str] = []
    for group, title in GROUPS.items():
        part = [row for row in rows if row["group"] == group and row.get("once") is not None]
        regrets = np.array([1 - row["proposals"][0][3] for row in part])
        once = np.array([row["once"] for row in part], bool)
        if regrets.sum():
            sentences.append(f"On {title}, the first proposals of {once.sum()} of {len(part)} problems were timed only "
                             f"once, alone; they have {regrets[once].sum() / regrets.sum():.0%} of the regret.")
    return " ".join(sentences)


def calibration_error(expected: Floats, observed: Floats, bins: int = BINS) -> float:
    """The mean over proposals of |mean expected - mean observed share| of their bin; bins are of equal size."""
    order = np.argsort(expected, kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    return float(sum(len(part) * abs(expected[part].mean() - observed[part].mean()) for part in parts) / len(order))


def covered_regret(certainty: Floats, observed: Floats, coverage: float = COVERAGE) -> float:
    """The mean regret on the share `coverage` of the problems with the greatest certainty."""
    order = np.argsort(-certainty, kind="stable")
    return float((1 - observed[order[:max(1, round(coverage * len(order)))]]).mean())


def summary(rows: Sequence[Row]) -> Row:
    """The figures of some rows."""
    every = np.array([proposal for row in rows for proposal in row["proposals"]])
    first = np.array([row["proposals"][0] for row in rows])
    regret = covered_regret(first[:, 0], first[:, 3], 1.0)
    covered, least = (covered_regret(first[:, column], first[:, 3]) for column in (0, 3))
    return {
        "problems": len(rows), "expected": float(first[:, 0].mean()), "observed": float(first[:, 3].mean()),
        "error": calibration_error(first[:, 0], first[:, 3]),
        "error_of_five": calibration_error(every[:, 0], every[:, 3]),
        "inside": float(((first[:, 3] >= first[:, 1]) & (first[:, 3] <= first[:, 2])).mean()),
        "above": float((first[:, 3] >= first[:, 1]).mean()), "regret": regret, "covered_regret": covered,
        "ratio": covered / regret if regret else 0.0, "best_ratio": least / regret if regret else 0.0}


def by_group(rows: Sequence[Row]) -> dict[str, Row]:
    """The figures of each group, and of each of its devices as `group, device`."""
    figures: dict[str, Row] = {}
    for group in dict.fromkeys(row["group"] for row in rows):
        part = [row for row in rows if row["group"] == group]
        figures[group] = summary(part)
        for device in sorted({row["device"] for row in part}):
            figures[f"{group}, {device}"] = summary([row for row in part if row["device"] == device])
    return figures


def table(rows: Sequence[Row]) -> str:
    """Make the table."""
    names = ("expected", "observed", "error", "error_of_five", "inside", "above", "regret", "covered_regret", "ratio",
             "best_ratio")
    return markdown(
        ["", "problems", "expected share", "measured share", "error", "of five proposals", "in interval",
         "above its end", "regret", "regret of 80 %", "ratio", "best ratio"],
        [[title, str(figures["problems"]), *(f"{figures[name]:.3f}" for name in names)]
         for title, figures in by_group(rows).items()])


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw the reliability of each group, and its regret by coverage."""
    pyplot = style()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4))
    for group, colour in zip(GROUPS, (BLUE, ORANGE), strict=True):
        part = np.array([row["proposals"][0] for row in rows if row["group"] == group])
        if not len(part):
            continue
        bins = np.array_split(np.argsort(part[:, 0]), min(BINS, len(part)))
        left.plot([part[bin, 0].mean() for bin in bins], [part[bin, 3].mean() for bin in bins], "o-", color=colour,
                  label=GROUPS[group])
        coverages = np.linspace(0.1, 1, 40)
        for column, line in ((0, "-"), (3, ":")):
            right.plot(coverages, [covered_regret(part[:, column], part[:, 3], coverage) for coverage in coverages],
                       line, color=colour)
    left.plot([0.5, 1], [0.5, 1], color=GREY, linewidth=1)
    left.set_xlabel("expected share of the best speed")
    left.set_ylabel("measured share")
    right.axvline(COVERAGE, color=BLACK, linewidth=0.8)
    right.set_xlabel("share of the problems that is answered (dotted: by the measured share)")
    right.set_ylabel("regret of the first proposal")
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    save(figure, path)


def page(results: Results) -> Page:
    """Make the page of the results."""
    figures = by_group(results["rows"])
    claim = " ".join(
        f"On {GROUPS[group]}, the expected share of the first proposal is off by {figures[group]['error']:.3f} on "
        f"average (expected calibration error); leaving out the least certain fifth of the problems changes its regret "
        f"from {figures[group]['regret']:.3f} to {figures[group]['covered_regret']:.3f}."
        for group in GROUPS if group in figures)
    return Page("confidence", "How sure it is", claim, "python -m benchmarks confidence --new FILE --out docs",
                table(results["rows"]), evaluated(results, f"proposals of {results['method']}"), READING,
                (*CAVEATS, *filter(None, [timed_once(results["rows"])])),
                "Measured by expected share, and regret by coverage")


def trees_judge(training: Sequence[MeasuredTask], rounds: int) -> Judge:
    """Fit trees and their confidence to training tasks."""
    from seqtune.predictor.confidence.confidence_fitting import fit_confidence, observe_with
    from seqtune.predictor.trees.cost_trees import Trees, TreesOptions

    options = TreesOptions(rounds=rounds, rate=TreesOptions().rate * TreesOptions().rounds / rounds)
    model = fit_confidence(training, options, say=_say)
    if model is None:
        raise MisuseError("the data set has too few training problems to estimate a confidence")
    _say("trees of all training problems")
    trees = Trees(training, options)

    def judge(measured: MeasuredTask) -> tuple[Sequence[Confidence], Floats, bool | None] | None:
        for observed in observe_with(trees, [measured]):
            return model.confidences_of(observed.signals, measured.device), np.exp(-observed.regrets), None
        return None

    return judge


def checkpoint_judge(name: str) -> Judge:
    """The judge of a checkpoint's own proposals."""
    from seqtune.data.measured_tasks import counted
    from seqtune.predictor.times.model import TimesModel

    checkpoint = TimesModel.load(name)
    if checkpoint.estimator is None:
        raise MisuseError(f"the checkpoint {name} does not estimate its confidence: train it again")
    proposer, estimator = checkpoint.proposer(), checkpoint.estimator

    def judge(measured: MeasuredTask) -> tuple[Sequence[Confidence], Floats, bool | None] | None:
        narrowed = measured.measured_only()
        proposals = proposer.proposals(narrowed.task, PROPOSALS)
        confidences = estimator.confidences(proposals)
        if confidences is None:
            return None
        default = measured.time(measured.task.default)
        seconds: NDArray[np.float64] = counted(narrowed.seconds[proposals.numbers], default, narrowed.seconds)
        once = narrowed.builds is None or bool(np.isnan(narrowed.builds[:, proposals.numbers[0]]).all())
        return confidences, narrowed.best / seconds, once

    return judge


def _say(step: Any) -> None:
    print(step, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    from seqtune.data.measured_tasks import measured_tasks

    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--new", type=Path, action="append", default=[], metavar="FILE",
                        help="a data set of a machine that the data lack; may be repeated")
    parser.add_argument("--checkpoint", help="a checkpoint with confidence [default: boosted trees, fitted here]")
    parser.add_argument("--rounds", type=int, default=400, help="trees of each model that is fitted here")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    data = read_dataset(given.data)
    judge = (trees_judge(measured_tasks(data, held_out=False), given.rounds) if given.checkpoint is None
             else checkpoint_judge(given.checkpoint))
    _say("judging")
    rows = judged_rows("held out", measured_tasks(data, held_out=True), judge)
    for path in given.new:
        rows += judged_rows("new machine", measured_tasks(read_dataset(path), held_out=False), judge)
    if not rows:
        raise MisuseError("there is no held-out problem to judge")
    print(table(rows))
    publish(given.out, page, {"date": today(), "method": given.checkpoint or "boosted trees", "rows": rows},
            lambda path: draw(path, rows))
