"""Judge the analytic model on recorded GEMM spaces: `python -m benchmarks analytic_gemm DATA --out docs`.

DATA is a file of recorded spaces with CLBlast's Xgemm (`gemm_rtx.parquet`). Nothing is trained: the model knows the
data sheets of the GPUs and the tiles of the kernel. Its proposals, and a search that begins with them and corrects its
estimates by what it measures, are compared with equal budgets of random search, of the search without estimates, and of
the consensus of the other GPUs: the configurations whose times relative to the best are least there on average.

The methods do not draw random numbers, so the program varies the space: every repeat keeps a random half of the
configurations. It writes analytic_gemm.json and prints Markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, markdown, today
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, MeasuredTask
from seqtune.predictor.analytic.analytic_predictor import AnalyticPredictor
from seqtune.predictor.answering import SEEDS
from seqtune.strategy_replay import recorded_spaces
from seqtune.tuner.cost_models.analytic import Constants, estimates, terms_of
from seqtune.tuner.cost_models.gpu_rates import GpuRates
from seqtune.tuner.cost_models.modes import order
from seqtune.tuner.cost_models.product_tiles import describes_tiles
from seqtune.tuner.cost_models.transfer import consensus, look_up
from seqtune.tuner.simulation import RecordedSpace, StrategyMethod
from seqtune.tuner.strategies.portfolio import Portfolio

from .clblast_tiles import described_task

BUDGETS = (0, 1, 5, 25)  # measurements; 0: the first proposal, which is not measured
KEPT = 0.5  # of the configurations, in each repeat
ERROR = 0.3  # standard deviation of the logarithm of every constant, in the row that shows what they matter
FACTS = ("units", "hertz", "warp", "unit_warps", "unit_registers", "l2_capacity")  # rates that are not varied
METHODS = {
    "analytic": "search that begins with the analytic model's proposals and estimates",
    "proposals": "the analytic model's proposals alone, in order",
    "varied": f"the same with all constants of the model wrong by {100 * ERROR:.0f} % (standard deviation)",
    "consensus": "the configurations that are best on average on the other GPUs, in order",
    "portfolio": "the search without estimates",
    "random": "random search",
}


def judge(measured: MeasuredTask, others: Sequence[MeasuredTask], seed: int) -> dict[str, Numbers]:
    """The numbers that each method proposes for a task, in order."""
    task, longest = measured.task, max(BUDGETS)
    proposals = tuple(candidate.configuration for candidate in AnalyticPredictor().propose([task], SEEDS)[0])
    ratios = [column for other in others if (column := look_up(task, other)) is not None]
    generator = np.random.default_rng(seed)
    numbers = {
        "analytic": searched(measured, seed, seeds=proposals),
        "proposals": order(task, estimates(task), longest),
        "varied": order(task, varied(measured, generator), longest),
        "portfolio": searched(undescribed(measured), seed),
        "random": generator.permutation(len(task))[:longest],
    }
    if ratios:
        mean = consensus(np.stack(ratios, axis=1))
        numbers["consensus"] = np.argsort(np.where(np.isnan(mean), np.inf, mean), kind="stable")[:longest]
    return numbers


def searched(measured: MeasuredTask, seed: int, **context: Any) -> Numbers:
    """The numbers that the default strategy measures."""
    recorded = RecordedSpace("gemm", measured.device.name, measured, **context)
    return np.array(list(StrategyMethod(Portfolio)(recorded, max(BUDGETS), seed)))


def undescribed(measured: MeasuredTask) -> MeasuredTask:
    """The same measurements on a device without facts, for which there are no estimates."""
    spaces = []
    for space in measured.task.spaces:
        bare = replace(space.device, extra=())
        spaces.append(space.of_rows(replace(space.kernel, derived=()), space.problem, bare, space.rows))
    return MeasuredTask(replace(measured.task, device=spaces[0].device, spaces=tuple(spaces)), measured.seconds)


def varied(measured: MeasuredTask, generator: np.random.Generator) -> Floats:
    """Estimates (number,) with every constant and every rate that is no fact multiplied by a random number."""
    def vary(constants: Any) -> Any:
        return replace(constants, **{field.name: getattr(constants, field.name) * np.exp(ERROR * generator.normal())
                                     for field in fields(constants) if field.name not in FACTS})

    rates, constants = vary(GpuRates.of(measured.device)), vary(Constants())
    return np.concatenate([terms_of(space, rates=rates, constants=constants).seconds
                           for space in measured.task.spaces])


def halves(measured: MeasuredTask, repeats: int) -> Iterator[MeasuredTask]:
    """The task with random halves of its configurations."""
    for seed in range(repeats):
        keep = np.random.default_rng(seed).random(len(measured.task)) < KEPT
        yield MeasuredTask(measured.task.narrowed(keep), measured.seconds[keep])


def judged_rows(tasks: Sequence[MeasuredTask], repeats: int, progress: Callable[[str], None]) -> list[Row]:
    """A row for each device, method and budget: share of the optimum, in the whole space and in halves of it."""
    rows: list[Row] = []
    for measured in tasks:
        others = [other for other in tasks if other.device.name != measured.device.name]
        shares: dict[tuple[str, int], list[float]] = {}
        for repeat, part in enumerate((measured, *halves(measured, repeats))):
            progress(f"{measured.device.name}: {repeat} of {repeats}")
            for method, numbers in judge(part, others, repeat).items():
                for budget in BUDGETS:
                    best = float(part.seconds[numbers[:max(1, budget)]].min())
                    shares.setdefault((method, budget), []).append(part.best / best)
        for (method, budget), (whole, *parts) in shares.items():
            rows.append({"device": measured.device.name.partition(":")[2], "method": method, "measured": budget,
                         "whole": whole, "mean": float(np.mean(parts)), "deviation": float(np.std(parts)),
                         "least": min(parts), "configurations": len(measured.task)})
    return rows


def table(rows: Sequence[Row]) -> str:
    """Make the table: mean and standard deviation of the halves, in brackets the whole space."""
    cells = {(row["device"], row["method"], row["measured"]): row for row in rows}
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        for method in METHODS:
            if (device, method, 0) in cells:
                of_budget = [cells[device, method, budget] for budget in BUDGETS]
                lines.append([device, method, *(f"{row['mean']:.3f} ± {row['deviation']:.3f} ({row['whole']:.3f})"
                                                for row in of_budget)])
    return markdown(["device", "method", *map(str, BUDGETS)], lines, left=2)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    means = {(method, budget): float(np.mean([row["mean"] for row in rows if row["method"] == method
                                              and row["measured"] == budget]))
             for method in METHODS for budget in BUDGETS}
    return Page(
        "analytic_gemm", "The analytic model on recorded GPUs",
        f"Without any measurement of a GPU, the analytic model's first proposal reaches {means['analytic', 0]:.2f} of "
        f"the optimum, and {means['analytic', 5]:.2f} after 5 measurements; random search reaches "
        f"{means['random', 0]:.2f} and {means['random', 5]:.2f}, the consensus of the other GPUs "
        f"{means['consensus', 0]:.2f} and {means['consensus', 5]:.2f}.",
        "python -m benchmarks analytic_gemm RECORDED/gemm_rtx.parquet --out docs", table(rows),
        evaluated(results, "the recorded space gemm_rtx (CLBlast's Xgemm, 4096 x 4096 x 4096, fp32)"),
        "The columns are numbers of measurements; 0 is the first proposal. Each cell has the mean share of the "
        f"optimum's speed and its standard deviation over {results['repeats']} random halves of the space, and in "
        "brackets the share in the whole space. The methods:\n\n"
        + "\n".join(f"- `{name}`: {meaning};" for name, meaning in METHODS.items()).rstrip(";") + ".",
        ("The constants come from data sheets, articles and counts of instructions; none was fitted. Which parameters "
         "matter on the RTX 2080 Ti and the RTX 3090 had been looked at before, on no other GPU. A fit of 15 constants "
         "to one of the two was worse on the other: 0.62 instead of 0.97 for the RTX 3090's first proposal.",
         "That several modes are tried first (whether operands pass shared memory) was decided on the RTX 2080 Ti, "
         "where it helps; it changes little on the RTX 3090.",
         "The consensus of a single other GPU is that GPU's order."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("data", type=Path, help="recorded spaces")
    add_out(parser)
    parser.add_argument("--repeats", type=positive, default=20, help="number of random halves of the space")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    tasks = [described_task(recorded.measured) for recorded in recorded_spaces(read_dataset(given.data))]
    tasks = [task for task in tasks if all(describes_tiles(space.kernel) for space in task.task.spaces)
             and np.isfinite(estimates(task.task)).any()]
    if not tasks:
        raise MisuseError(f"{given.data} has no recorded GEMM whose parameters and GPU are known")
    rows = judged_rows(tasks, given.repeats, lambda step: print(f"\r{step:60}", end="", file=sys.stderr))
    print(file=sys.stderr)
    results = {"date": today(), "repeats": given.repeats, "rows": rows}
    publish(given.out, page, results)
    print(table(rows))
