"""Compare convolutions with PyTorch's: `python -m benchmarks.resnet18_layers [--json] [--out docs] [--openvino]`.

The 12 ResNet-18 layers at batch 1, fp32, on one and two threads. Our kernels are the best configuration of every kernel
family in NHWC and (`... nchw`) in NCHW memory. PyTorch's operations are `onednn`, its convolution with packed weights
on channels_last input (torch.ops.mkldnn._convolution_pointwise), and `conv2d_channels_last` and `conv2d_nchw`, F.conv2d
on inputs and weights in that format. `best oneDNN` is the faster of the first two. With --openvino, `openvino_node` is
the time of OpenVINO's node in a model of this layer alone, in a profile after the contest.

Rows of the layer "geomean" are geometric means of time ratios over the layers: `ratio_direct`, best oneDNN divided by
llvm.direct (the least of them is `least_ratio_direct`, on the layer `least_layer`); `ratio_best`, best oneDNN divided
by our fastest family; `ratio_nchw`, F.conv2d on NCHW divided by our fastest kernel in NCHW.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.contest import (
    Contestant,
    convolution_contestants,
    geometric_mean,
    our_contestant,
    rows_of,
    searched,
    seconds_by_method,
    take_turns,
)
from benchmarks.common.openvino_layers import METHOD, check_openvino, openvino_row
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

NCHW = " nchw"  # ends the method's name of a family in NCHW memory


@dataclass(frozen=True)
class FastestKernel:
    """The best configuration of one kernel family for one problem on one device."""

    problem: Problem
    device: Device
    configuration: Configuration

    @property
    def method(self) -> str:
        """The name of the family, with the layout if it is not NHWC."""
        return self.configuration.kernel + (NCHW if self.problem["layout"] == "NCHW" else "")


def layers(numbers: Sequence[int]) -> dict[str, Problem]:
    """The layers of these numbers, by label (C1 to C12), in NHWC."""
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.problem_sets.networks import network

    all_layers = network("resnet18")
    return {f"C{number}": Problem.make("conv2d", **{**dict(all_layers[number - 1].features), "layout": "NHWC"})
            for number in numbers}


def fastest_kernels(problems: Sequence[Problem], devices: Sequence[Device], journal: Journal,
                    trials: int) -> list[FastestKernel]:
    """Search each layer on each device with each kernel family, in both layouts."""
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.registry import kernels_for
    from seqtune.tuner.measuring.runner import Runner

    fastest = []
    for device in devices:
        with Runner(device) as runner:
            for problem in problems:
                for layout in ("NHWC", "NCHW"):
                    converted = Problem.make("conv2d", **{**dict(problem.features), "layout": layout})
                    for family in kernels_for(converted, device):
                        configuration = searched(converted, device, family, journal, trials, runner)
                        fastest.append(FastestKernel(converted, device, configuration))
    return fastest


def contest(label: str, problem: Problem, kernels: Sequence[FastestKernel], rounds: int,
            with_openvino: bool) -> list[Row]:
    """Time all contestants of one layer on one device."""
    from seqtune.pytorch.device_threads import binder_of
    from seqtune.tuner.measuring.timing import prepare

    device = kernels[0].device
    warm_threads(device.threads)
    operands, expected = prepare(problem)
    contestants: list[Contestant] = convolution_contestants(problem, operands, expected)
    for kernel in kernels:
        inputs = (operands, expected) if kernel.problem == problem else prepare(kernel.problem)
        contestants.append(our_contestant(binder_of(device), kernel.problem, *inputs, kernel.configuration,
                                          kernel.method))
    seconds = take_turns(contestants, rounds)
    print(f"{label}, {device.threads} threads: " + ", ".join(
        f"{method} {least * 1e6:.0f} us" for method, least in seconds.items()), file=sys.stderr, flush=True)
    rows = rows_of(label, device.threads, contestants, seconds, problem.size("flop"))
    if with_openvino:
        rows.append(openvino_row(label, problem, device.threads, operands, expected, 10 * rounds))
    return rows


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    """The time ratios of one layer: best oneDNN, OpenVINO's node where measured, and F.conv2d on NCHW, over ours."""
    onednn = min(seconds["onednn"], seconds["conv2d_channels_last"])
    ours = {method: time for method, time in seconds.items() if method.startswith("llvm.")}
    last = [time for method, time in ours.items() if not method.endswith(NCHW)]
    first = [time for method, time in ours.items() if method.endswith(NCHW)]
    node = {"ratio_openvino": seconds[METHOD] / min(last)} if METHOD in seconds else {}
    return {"ratio_direct": onednn / ours["llvm.direct"], "ratio_best": onednn / min(last),
            "ratio_nchw": seconds["conv2d_nchw"] / min(first), **node}


def summaries(rows: Sequence[Row]) -> list[Row]:
    """Make a row of geometric means for each number of threads, with the least ratio of the direct family."""
    summary = []
    by_layer = seconds_by_method(rows)
    for threads in dict.fromkeys(row["threads"] for row in rows):
        all_ratios = {label: ratios(seconds) for (label, count), seconds in by_layer.items() if count == threads}
        means = {name: geometric_mean([ratio[name] for ratio in all_ratios.values()])
                 for name in next(iter(all_ratios.values()))}
        worst = min(all_ratios, key=lambda label: all_ratios[label]["ratio_direct"])
        summary.append({"layer": "geomean", "threads": threads, **means,
                      "least_ratio_direct": all_ratios[worst]["ratio_direct"], "least_layer": worst})
    return summary


def table(rows: Sequence[Row]) -> str:
    """Make two tables: the means for each number of threads, and the fastest family of each layer."""
    lines = [[str(row["threads"]), f"{row['ratio_direct']:.2f}", f"{row['least_ratio_direct']:.2f} "
              f"({row['least_layer']})", f"{row['ratio_best']:.2f}", f"{row['ratio_nchw']:.2f}", _ratio(row)]
             for row in rows if row["layer"] == "geomean"]
    short = markdown(["threads", "direct vs best oneDNN", "its worst layer", "best family vs best oneDNN",
                      "NCHW vs F.conv2d NCHW", "best family vs OpenVINO's node"], lines, left=0)
    by_layer = seconds_by_method([row for row in rows if row["layer"] != "geomean"])
    errors = {(row["layer"], row["threads"], row["method"]): row["error"] for row in rows if "error" in row}
    details = []
    for (label, threads), seconds in by_layer.items():
        onednn = min(seconds["onednn"], seconds["conv2d_channels_last"])
        ours = [method for method in seconds if method.startswith("llvm.") and not method.endswith(NCHW)]
        best = min(ours, key=seconds.__getitem__)
        details.append([label, str(threads), f"{seconds['llvm.direct'] * 1e6:.0f}", f"{seconds[best] * 1e6:.0f}",
                     best.partition(".")[2], f"{errors[label, threads, best]:.0e}", f"{onednn * 1e6:.0f}",
                     f"{onednn / seconds[best]:.2f}", f"{ratios(seconds)['ratio_nchw']:.2f}",
                     f"{seconds[METHOD] * 1e6:.0f}" if METHOD in seconds else "", _ratio(ratios(seconds))])
    return f"{short}\n\n" + markdown(["layer", "threads", "direct, µs", "best, µs", "family", "error",
                                      "best oneDNN, µs", "ratio", "NCHW ratio", "OpenVINO's node, µs", "ratio"],
                                     details)


def _ratio(row: Mapping[str, float]) -> str:
    return f"{row['ratio_openvino']:.2f}" if "ratio_openvino" in row else ""


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the speed relative to the best oneDNN, for each layer and number of threads."""
    by_layer = seconds_by_method([row for row in rows if row["layer"] != "geomean"])
    panels = []
    for threads in dict.fromkeys(count for _, count in by_layer):
        labels = [label for label, count in by_layer if count == threads]
        all_ratios = [ratios(by_layer[label, threads]) for label in labels]
        panels.append((f"{threads} thread{'s' * (threads > 1)}", labels, {
            "direct, over the best oneDNN": (SKY, [ratio["ratio_direct"] for ratio in all_ratios]),
            "best family, over the best oneDNN": (BLUE, [ratio["ratio_best"] for ratio in all_ratios]),
            "NCHW, over F.conv2d in NCHW": (ORANGE, [ratio["ratio_nchw"] for ratio in all_ratios])}))
    draw_speeds(path, panels, "speed over PyTorch's")


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    means = {row["threads"]: row for row in rows if row["layer"] == "geomean"}
    speeds = "; ".join(f"on {count} thread{'s' * (count > 1)} {row['ratio_best']:.2f} times (the direct family alone "
                       f"{row['ratio_direct']:.2f} times)" for count, row in means.items())
    return Page(
        "resnet18_layers", "Convolutions compared with PyTorch",
        f"The tuned kernels compute the 12 ResNet-18 layers (batch 1, fp32) faster than PyTorch's best oneDNN "
        f"convolution: {speeds} (geometric means of the speed).",
        "python -m benchmarks.resnet18_layers --out docs", table(rows), measured_on(results),
        "`best oneDNN` is the faster of F.conv2d on channels_last input and of oneDNN's own operation on packed "
        "weights. `ratio` is its time divided by ours; `NCHW ratio` compares F.conv2d in its default memory format "
        "with our fastest kernel in NCHW memory. `OpenVINO's node` is the least time that OpenVINO's profile shows for "
        "the layer's node, in a model of the layer alone: it leaves out OpenVINO's changes of layout; empty if it was "
        "not measured. `error` is the largest difference divided by the largest value of a "
        "reference in float64.",
        ("Both sides pack the filters before the call. Padding and the allocation of the result are timed on both.",
         "Most of the speedup on dense 3x3 layers comes from Winograd's algorithm, which does less arithmetic. The "
         "direct family shows the speedup with equal arithmetic.",
         "Every kernel was chosen by a search on this machine, not by a prediction."),
        "Speed of every layer relative to PyTorch's best oneDNN convolution")


def main() -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    add_search(parser)
    parser.add_argument("--threads", type=positive, nargs="+", default=[1, 2])
    parser.add_argument("--layers", type=int, nargs="+", default=range(1, 13), metavar="1..12")
    parser.add_argument("--openvino", action="store_true", help="add the times of OpenVINO's nodes")
    given = parser.parse_args()
    if not set(given.layers) <= set(range(1, 13)):
        parser.error("--layers are numbers from 1 to 12")
    run_program("resnet18_layers", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """Search the configurations, run the contest and write the results."""
    if given.openvino:
        check_openvino()
    devices = llvm_devices(given.threads)
    problems = layers(given.layers)
    warm_threads(max(given.threads))
    with journal_of(given.journal) as journal:
        kernels = fastest_kernels(list(problems.values()), devices, journal, given.trials)
    rows: list[Row] = []
    for device in devices:
        for label, problem in problems.items():
            own_kernels = [kernel for kernel in kernels if kernel.device == device
                   and {**dict(kernel.problem.features), "layout": "NHWC"} == dict(problem.features)]
            rows += contest(label, problem, own_kernels, given.rounds, given.openvino)
    rows += summaries(rows)
    report(given, rows, devices, page, lambda path: draw(rows, path))


if __name__ == "__main__":
    main()
