"""Compare matrix products with PyTorch's: `python -m benchmarks gemm [--json] [--out docs] [--journal J.sqlite]`.

Products from BERT, GPT-2, LSTM cells, ResNet's classifiers and ResNet-50's 1x1 convolutions; fp32, on one and two
threads; C = A B with constant B, stored as in its network (torch.nn.Linear: (n, k)). Our kernels pack B into panels
before the call. PyTorch's operations are `mm`, torch.mm on B as it is stored, which packs B inside the call if at all;
`onednn_packed`, torch.ops.mkldnn._linear_pointwise with B reordered before the call by _reorder_linear_weight; and, if
MKL is there, `mkl_packed`, torch.ops.mkl._mkl_linear with B packed before the call by _mkl_reorder_linear_weight (which
torch.compile uses). With --openvino, `openvino_node` is the time of OpenVINO's node in a model of this product alone,
and `step` that of our fastest kernel as a step of a program, which leaves out the call from Python as the node does.

Rows of the layer "geomean" are geometric means over the products. They divide a time of PyTorch by that of our fastest
family: `ratio_mm` of torch.mm, `ratio_packed` of the fastest packed operation (torch.mm if there is none), `ratio_best`
of the fastest operation. `ratio_openvino`, where it was measured, divides the time of OpenVINO's node by our step's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.contest import (
    Contestant,
    checked,
    geometric_mean,
    our_contestant,
    rows_of,
    searched,
    seconds_by_method,
    take_turns,
    tensor,
)
from benchmarks.common.layer_pages import OPENVINO_CAVEAT, add_peers, draw_ratios, openvino_sentence
from benchmarks.common.openvino_layers import METHOD, STEP, check_openvino, openvino_rows
from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.program import (
    add_search,
    journal_of,
    llvm_devices,
    parser_of,
    report,
    warm_threads,
)
from benchmarks.common.report import BLUE, GREEN, ORANGE, Row, markdown

if TYPE_CHECKING:
    from seqtune.kernels.operations.operation import Operands
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.measuring.timing import Expected

# label -> m, n, k, whether B is stored as (n, k)
SHAPES = {
    "BERT-base attention": (128, 768, 768, True), "BERT-base up": (128, 3072, 768, True),
    "BERT-base down": (128, 768, 3072, True), "BERT-base, 384 words": (384, 768, 768, True),
    "BERT-base, 16 words": (16, 3072, 768, True), "BERT-large attention": (128, 1024, 1024, True),
    "BERT-large up": (64, 4096, 1024, True), "GPT-2 query, key, value": (512, 2304, 768, False),
    "GPT-2 up": (32, 3072, 768, False), "GPT-2 down": (32, 768, 3072, False), "LSTM 512": (64, 2048, 512, True),
    "LSTM 256": (8, 1024, 256, True), "ResNet-18 classes": (1, 1000, 512, True),
    "ResNet-50 classes, batch 16": (16, 1000, 2048, True), "ResNet-50 1x1, 56 x 56": (3136, 256, 64, True),
    "ResNet-50 1x1, 14 x 14": (196, 256, 1024, True),
}
DRAWN = {"ratio_mm": (BLUE, "over torch.mm"), "ratio_packed": (ORANGE, "over PyTorch's fastest packed"),
         "ratio_openvino": (GREEN, "step, over OpenVINO's node")}


def problem_of(label: str) -> Problem:
    """The problem of a label."""
    from seqtune.kernels.problem import Problem

    m, n, k, by_column = SHAPES[label]
    return Problem.make("gemm", m=m, n=n, k=k, trans_b="yes" if by_column else "no")


def pytorch_contestants(problem: Problem, operands: Operands, expected: Expected) -> list[Contestant]:
    """Make the contestants that this build of PyTorch has."""
    import torch

    a, stored = tensor(operands["x"]), tensor(operands["weights"])
    b = stored.t() if problem["trans_b"] == "yes" else stored
    by_column, rows = b.t().contiguous(), problem.size("m")
    runs: dict[str, Callable[[], Any]] = {"mm": lambda: torch.mm(a, b)}
    if torch._C._has_mkldnn:
        packed = torch.ops.mkldnn._reorder_linear_weight(by_column, rows)
        runs["onednn_packed"] = lambda: torch.ops.mkldnn._linear_pointwise(a, packed, None, "none", [], "")
    if torch._C.has_mkl:
        panels = torch.ops.mkl._mkl_reorder_linear_weight(by_column, rows)
        runs["mkl_packed"] = lambda: torch.ops.mkl._mkl_linear(a, panels, by_column, None, rows)

    def result(run: Callable[[], Any]) -> Any:
        return run().numpy()

    return [Contestant(name, run, checked(expected, partial(result, run), name)) for name, run in runs.items()]


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    """The times of PyTorch divided by our least time, for one product."""
    ours = min(time for method, time in seconds.items() if method.startswith("llvm."))
    packed = min((time for method, time in seconds.items() if method.endswith("_packed")), default=seconds["mm"])
    node = {"ratio_openvino": seconds[METHOD] / seconds[STEP]} if METHOD in seconds else {}
    return {"ratio_mm": seconds["mm"] / ours, "ratio_packed": packed / ours,
            "ratio_best": min(packed, seconds["mm"]) / ours, **node}


def summaries(rows: Sequence[Row]) -> list[Row]:
    """Make a row of geometric means for each number of threads."""
    by_layer = seconds_by_method(rows)
    means = []
    for threads in dict.fromkeys(row["threads"] for row in rows):
        all_ratios = [ratios(seconds) for (_, count), seconds in by_layer.items() if count == threads]
        means.append({"layer": "geomean", "threads": threads,
                      **{name: geometric_mean([ratio[name] for ratio in all_ratios]) for name in all_ratios[0]}})
    return means


def table(rows: Sequence[Row]) -> str:
    """A line per product and number of threads; the means last."""
    lines = []
    for (label, threads), seconds in seconds_by_method([row for row in rows if row["layer"] != "geomean"]).items():
        m, n, k, _ = SHAPES[label]
        ratio = ratios(seconds)
        ours = min(time for method, time in seconds.items() if method.startswith("llvm."))
        lines.append([f"{label} ({m} × {n} × {k})", str(threads), f"{ours * 1e6:.0f}",
                      f"{2 * m * n * k / ours / 1e9:.0f}", f"{ratio['ratio_mm']:.2f}", f"{ratio['ratio_packed']:.2f}",
                      *(f"{seconds[method] * 1e6:.0f}" if method in seconds else "" for method in (STEP, METHOD)),
                      _ratio(ratio)])
    lines += [["**geometric mean**", str(row["threads"]), "", "", f"**{row['ratio_mm']:.2f}**",
               f"**{row['ratio_packed']:.2f}**", "", "", f"**{_ratio(row)}**" if _ratio(row) else ""]
              for row in rows if row["layer"] == "geomean"]
    return markdown(["product (m × n × k)", "threads", "ours, µs", "GFLOP/s", "vs torch.mm", "vs packed",
                     "step, µs", "OpenVINO's node, µs", "vs OpenVINO's node"], lines)


def _ratio(row: Mapping[str, float]) -> str:
    return f"{row['ratio_openvino']:.2f}" if "ratio_openvino" in row else ""


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the speed relative to PyTorch's, for each product and number of threads."""
    draw_ratios(rows, ratios, DRAWN, lambda label: "×".join(map(str, SHAPES[label][:3])), path)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    means = {row["threads"]: row for row in rows if row["layer"] == "geomean"}
    speeds = "; ".join(f"on {count} thread{'s' * (count > 1)} {row['ratio_mm']:.2f} times the speed of torch.mm and "
                       f"{row['ratio_packed']:.2f} times that of PyTorch's fastest operation on packed weights"
                       f"{_beside_openvino(row)}" for count, row in means.items())
    return Page(
        "gemm", "Matrix products compared with PyTorch and OpenVINO",
        f"Tuned fp32 matrix products of common networks reach {speeds} (geometric means over the products).",
        "python -m benchmarks gemm --openvino --out docs", table(rows), measured_on(results),
        "`vs torch.mm` and `vs packed` are PyTorch's time divided by ours: above 1, ours is faster. "
        "`torch.mm` packs B inside the call if it packs it at all. `vs packed` compares with the faster of PyTorch's "
        "two operations on a packed B (oneDNN's and MKL's); our kernels also pack B before the call. "
        + openvino_sentence("product", "OpenVINO's call"),
        ("`vs packed` is the fair comparison: both sides pack the constant matrix B once, before the call.",
         OPENVINO_CAVEAT,
         "Every kernel was chosen by a search on this machine, not by a prediction."),
        "Speed relative to torch.mm, to PyTorch's fastest packed operation and to OpenVINO's node, by product")


def _beside_openvino(row: Mapping[str, float]) -> str:
    return f", and {row['ratio_openvino']:.2f} times that of OpenVINO's nodes" if "ratio_openvino" in row else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    add_search(parser)
    add_peers(parser)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES), metavar="LABEL")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Search the configurations, run the contest and write the results."""
    from seqtune.kernels.registry import kernels_for
    from seqtune.networks.program.device_threads import binder_of
    from seqtune.tuner.measuring.runner import Runner
    from seqtune.tuner.measuring.timing import prepare

    if given.openvino:
        check_openvino()
    devices = llvm_devices(given.threads)
    warm_threads(max(given.threads))
    chosen = {}
    with journal_of(given.journal) as journal:
        for device in devices:
            with Runner(device) as runner:
                for label in given.shapes:
                    problem = problem_of(label)
                    chosen[label, device] = [searched(problem, device, family, journal, given.trials, runner)
                                             for family in kernels_for(problem, device)]
    rows: list[Row] = []
    for (label, device), configurations in chosen.items():
        warm_threads(device.threads)
        problem = problem_of(label)
        operands, expected = prepare(problem)
        contestants = pytorch_contestants(problem, operands, expected)
        contestants += [our_contestant(binder_of(device), problem, operands, expected, configuration,
                                       configuration.kernel) for configuration in configurations]
        seconds = take_turns(contestants, given.rounds)
        print(f"{label}, {device.threads} threads: " + ", ".join(
            f"{method} {least * 1e6:.0f} us" for method, least in seconds.items()), file=sys.stderr, flush=True)
        rows += rows_of(label, device.threads, contestants, seconds, problem.size("flop"))
        if given.openvino:
            fastest = min((entry for entry in contestants if entry.step is not None),
                          key=lambda entry: seconds[entry.method])
            rows += openvino_rows(label, problem, device.threads, operands, expected, fastest)
    rows += summaries(rows)
    report(given, rows, devices, page, lambda path: draw(rows, path))
