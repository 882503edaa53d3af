"""Our convolutions beside PyTorch's: `python -m benchmarks.resnet18_layers [--json] [--out docs] [--journal J.sqlite]`.

The 12 ResNet-18 layers at batch 1, fp32, on one and two threads. Ours: the best configuration of every kernel family in
NHWC and (`... nchw`) in NCHW memory. PyTorch's: `onednn`, its convolution with packed weights on channels_last input
(torch.ops.mkldnn._convolution_pointwise); `conv2d_channels_last` and `conv2d_nchw`, F.conv2d on inputs and weights in
that format. `best oneDNN` is the faster of the first two.

Rows of the layer "geomean" are geometric means over the layers: `ratio_direct`, best oneDNN over llvm.direct (which is
`least_ratio_direct` on the `least_layer`); `ratio_best`, best oneDNN over our fastest family; `ratio_nchw`, F.conv2d on
NCHW over our fastest in NCHW.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.contest import (
    Way,
    convolution_ways,
    geometric_mean,
    our_way,
    rows_of,
    searched,
    seconds_by_method,
    take_turns,
)
from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.program import (
    add_search,
    journal_of,
    llvm_devices,
    parser_of,
    positive,
    report,
    run_program,
    warm_threads,
)
from benchmarks.common.report import BLUE, ORANGE, SKY, Row, draw_speeds, markdown

if TYPE_CHECKING:
    from seqtune.data.journal import Journal
    from seqtune.kernels.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem

NCHW = " nchw"  # after a family's name


@dataclass(frozen=True)
class Entry:
    """One of ours: what is searched, and then timed."""

    problem: Problem
    device: Device
    configuration: Configuration

    @property
    def method(self) -> str:
        """The family's name, with the layout where that is not NHWC."""
        return self.configuration.kernel + (NCHW if self.problem["layout"] == "NCHW" else "")


def layers(numbers: Sequence[int]) -> dict[str, Problem]:
    """C1 to C12, in NHWC."""
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.problem_sets.networks import network

    every = network("resnet18")
    return {f"C{number}": Problem.make("conv2d", **{**dict(every[number - 1].features), "layout": "NHWC"})
            for number in numbers}


def entries(problems: Sequence[Problem], devices: Sequence[Device], journal: Journal, trials: int) -> list[Entry]:
    """Searches each layer on each device with each family, in both layouts."""
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.registry import kernels_for
    from seqtune.tuner.measuring.runner import Runner

    found = []
    for device in devices:
        with Runner(device) as runner:
            for problem in problems:
                for layout in ("NHWC", "NCHW"):
                    asked = Problem.make("conv2d", **{**dict(problem.features), "layout": layout})
                    found += [Entry(asked, device, searched(asked, device, family, journal, trials, runner))
                              for family in kernels_for(asked, device)]
    return found


def contest(label: str, problem: Problem, mine: Sequence[Entry], rounds: int) -> list[Row]:
    """All ways of one layer on one device."""
    from seqtune.pytorch.optimized import binder_of
    from seqtune.tuner.measuring.timing import prepare

    device = mine[0].device
    warm_threads(device.threads)
    operands, expected = prepare(problem)
    ways: list[Way] = convolution_ways(problem, operands, expected)
    for entry in mine:
        inputs = (operands, expected) if entry.problem == problem else prepare(entry.problem)
        ways.append(our_way(binder_of(device), entry.problem, *inputs, entry.configuration, entry.method))
    seconds = take_turns(ways, rounds)
    print(f"{label}, {device.threads} threads: " + ", ".join(
        f"{method} {one * 1e6:.0f} us" for method, one in seconds.items()), file=sys.stderr, flush=True)
    return rows_of(label, device.threads, ways, seconds, problem.size("flop"))


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    """Of one layer: best oneDNN over ours, and NCHW over NCHW."""
    onednn = min(seconds["onednn"], seconds["conv2d_channels_last"])
    ours = {method: one for method, one in seconds.items() if method.startswith("llvm.")}
    last = [one for method, one in ours.items() if not method.endswith(NCHW)]
    first = [one for method, one in ours.items() if method.endswith(NCHW)]
    return {"ratio_direct": onednn / ours["llvm.direct"], "ratio_best": onednn / min(last),
            "ratio_nchw": seconds["conv2d_nchw"] / min(first)}


def summaries(rows: Sequence[Row]) -> list[Row]:
    """A row of geometric means per number of threads, with the least ratio of the direct family."""
    found = []
    by_layer = seconds_by_method(rows)
    for threads in dict.fromkeys(row["threads"] for row in rows):
        each = {label: ratios(seconds) for (label, count), seconds in by_layer.items() if count == threads}
        means = {name: geometric_mean([one[name] for one in each.values()])
                 for name in ("ratio_direct", "ratio_best", "ratio_nchw")}
        worst = min(each, key=lambda label: each[label]["ratio_direct"])
        found.append({"layer": "geomean", "threads": threads, **means,
                      "least_ratio_direct": each[worst]["ratio_direct"], "least_layer": worst})
    return found


def table(rows: Sequence[Row]) -> str:
    """A line per number of threads, and the fastest family of each layer."""
    lines = [[str(row["threads"]), f"{row['ratio_direct']:.2f}", f"{row['least_ratio_direct']:.2f} "
              f"({row['least_layer']})", f"{row['ratio_best']:.2f}", f"{row['ratio_nchw']:.2f}"]
             for row in rows if row["layer"] == "geomean"]
    short = markdown(["threads", "direct vs best oneDNN", "its worst layer", "best family vs best oneDNN",
                      "NCHW vs F.conv2d NCHW"], lines, left=0)
    by_layer = seconds_by_method([row for row in rows if row["layer"] != "geomean"])
    errors = {(row["layer"], row["threads"], row["method"]): row["error"] for row in rows if "error" in row}
    each = []
    for (label, threads), seconds in by_layer.items():
        onednn = min(seconds["onednn"], seconds["conv2d_channels_last"])
        ours = [method for method in seconds if method.startswith("llvm.") and not method.endswith(NCHW)]
        best = min(ours, key=seconds.__getitem__)
        each.append([label, str(threads), f"{seconds['llvm.direct'] * 1e6:.0f}", f"{seconds[best] * 1e6:.0f}",
                     best.partition(".")[2], f"{errors[label, threads, best]:.0e}", f"{onednn * 1e6:.0f}",
                     f"{onednn / seconds[best]:.2f}", f"{ratios(seconds)['ratio_nchw']:.2f}"])
    return f"{short}\n\n" + markdown(["layer", "threads", "direct, µs", "best, µs", "family", "error",
                                      "best oneDNN, µs", "ratio", "NCHW ratio"], each)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Speed over the best oneDNN's, per layer and number of threads."""
    by_layer = seconds_by_method([row for row in rows if row["layer"] != "geomean"])
    panels = []
    for threads in dict.fromkeys(count for _, count in by_layer):
        labels = [label for label, count in by_layer if count == threads]
        each = [ratios(by_layer[label, threads]) for label in labels]
        panels.append((f"{threads} thread{'s' * (threads > 1)}", labels, {
            "direct, over the best oneDNN": (SKY, [one["ratio_direct"] for one in each]),
            "best family, over the best oneDNN": (BLUE, [one["ratio_best"] for one in each]),
            "NCHW, over F.conv2d in NCHW": (ORANGE, [one["ratio_nchw"] for one in each])}))
    draw_speeds(path, panels, "speed over PyTorch's")


def page(found: Results) -> Page:
    """The page of the result."""
    rows = found["rows"]
    means = {row["threads"]: row for row in rows if row["layer"] == "geomean"}
    speeds = "; ".join(f"on {count} thread{'s' * (count > 1)} {row['ratio_best']:.2f} times (the direct family alone "
                       f"{row['ratio_direct']:.2f} times)" for count, row in means.items())
    return Page(
        "resnet18_layers", "Convolutions beside PyTorch",
        f"The tuned kernels compute the 12 ResNet-18 layers (batch 1, fp32) faster than PyTorch's best oneDNN "
        f"convolution: {speeds} (geometric means of the speed).",
        "python -m benchmarks.resnet18_layers --out docs", table(rows), measured_on(found),
        "`best oneDNN` is the faster of F.conv2d on channels_last input and of oneDNN's own operation on packed "
        "weights. `ratio` is its time divided by ours; `NCHW ratio` compares F.conv2d as it is called by default with "
        "our fastest kernel in NCHW memory. `error` is the largest difference divided by the largest value of a "
        "reference in float64.",
        ("Both sides pack the filters before the call. Padding, and making the result's memory, count on both.",
         "Most of the lead on dense 3x3 layers comes from Winograd's algorithm, which does less arithmetic. The direct "
         "family shows the lead with equal arithmetic.",
         "Every kernel was chosen by a search on this machine, not by a prediction."),
        "Speed of every layer relative to PyTorch's best oneDNN convolution")


def main() -> None:
    """The command."""
    parser = parser_of(__doc__)
    add_search(parser)
    parser.add_argument("--threads", type=positive, nargs="+", default=[1, 2])
    parser.add_argument("--layers", type=int, nargs="+", default=range(1, 13), metavar="1..12")
    given = parser.parse_args()
    if not set(given.layers) <= set(range(1, 13)):
        parser.error("--layers are numbers from 1 to 12")
    run_program("resnet18_layers", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """The search and the contest."""
    devices = llvm_devices(given.threads)
    problems = layers(given.layers)
    warm_threads(max(given.threads))
    with journal_of(given.journal) as journal:
        mine = entries(list(problems.values()), devices, journal, given.trials)
    rows: list[Row] = []
    for device in devices:
        for label, problem in problems.items():
            own = [entry for entry in mine if entry.device == device
                   and {**dict(entry.problem.features), "layout": "NHWC"} == dict(problem.features)]
            rows += contest(label, problem, own, given.rounds)
    rows += summaries(rows)
    report(given, rows, devices, page, lambda path: draw(rows, path))


if __name__ == "__main__":
    main()
