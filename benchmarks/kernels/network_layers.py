"""Compare convolutions with PyTorch's: `python -m benchmarks network_layers [--network mobilenet_v2] [--openvino]`.

The distinct convolutions of a network at batch 1, fp32, on one and two threads: ResNet-18's 12 alone, MobileNet-V2's 30
with bias and ReLU6, as the network has them. Our kernels are the best configuration of every kernel family in NHWC and,
for ResNet-18, (`... nchw`) in NCHW memory. PyTorch's operations are `onednn`, its convolution with packed weights
on channels_last input (torch.ops.mkldnn._convolution_pointwise), and `conv2d_channels_last` and `conv2d_nchw`, F.conv2d
on inputs and weights in that format. `best oneDNN` is the faster of the first two. With --openvino, `openvino_node` is
the time of OpenVINO's node in a model of this layer alone, in a profile after the contest, and `step` that of our
fastest kernel in NHWC as a step of a program, which leaves out the call from Python as the node does.

Rows of the layer "geomean" are geometric means of time ratios over the layers: `ratio_direct`, best oneDNN divided by
llvm.direct; `ratio_best`, best oneDNN divided by our fastest family; `ratio_nchw`, F.conv2d on NCHW divided by our
fastest kernel in NCHW; `ratio_openvino`, OpenVINO's node divided by our step. `least` has the least of each, and its
layer.
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
    with_relu6,
)
from benchmarks.common.layer_pages import OPENVINO_CAVEAT, add_peers, draw_ratios, openvino_sentence
from benchmarks.common.layer_sets import LAYER_SETS, described
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
from benchmarks.common.report import BLUE, GREEN, ORANGE, SKY, Row, markdown

if TYPE_CHECKING:
    from seqtune.data.journal import Journal
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.operations.operation import Operands
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.measuring.timing import Expected

RATIOS = {"ratio_best": "best family vs best oneDNN", "ratio_direct": "direct vs best oneDNN",
          "ratio_nchw": "NCHW vs F.conv2d NCHW", "ratio_openvino": "step vs OpenVINO's node"}  # -> titles of columns
DRAWN = {"ratio_direct": (SKY, "direct, over the best oneDNN"),
         "ratio_best": (BLUE, "best family, over the best oneDNN"),
         "ratio_nchw": (ORANGE, "NCHW, over F.conv2d in NCHW"),
         "ratio_openvino": (GREEN, "step, over OpenVINO's node")}
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


def fastest_kernels(problems: Sequence[Problem], layouts: Sequence[str], devices: Sequence[Device], journal: Journal,
                    trials: int) -> list[FastestKernel]:
    """Search each layer on each device with each kernel family, in these layouts."""
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.registry import kernels_for
    from seqtune.tuner.measuring.runner import Runner

    fastest = []
    for device in devices:
        with Runner(device) as runner:
            for problem in problems:
                for layout in layouts:
                    converted = Problem.make("conv2d", **{**dict(problem.features), "layout": layout})
                    for family in kernels_for(converted, device):
                        configuration = searched(converted, device, family, journal, trials, runner)
                        fastest.append(FastestKernel(converted, device, configuration))
    return fastest


def contest(label: str, problem: Problem, kernels: Sequence[FastestKernel], rounds: int, relu6: bool,
            with_openvino: bool) -> list[Row]:
    """Time all contestants of one layer on one device; with `relu6`, ReLU6 is the layer's activation."""
    from seqtune.networks.program.device_threads import binder_of

    device = kernels[0].device
    warm_threads(device.threads)
    operands, expected = _prepared(problem, relu6)
    contestants: list[Contestant] = convolution_contestants(problem, operands, expected, relu6)
    for kernel in kernels:
        inputs = (operands, expected) if kernel.problem == problem else _prepared(kernel.problem, relu6)
        contestants.append(our_contestant(binder_of(device), kernel.problem, *inputs, kernel.configuration,
                                          kernel.method, relu6))
    seconds = take_turns(contestants, rounds)
    print(f"{label}, {device.threads} threads: " + ", ".join(
        f"{method} {least * 1e6:.0f} us" for method, least in seconds.items()), file=sys.stderr, flush=True)
    rows = rows_of(label, device.threads, contestants, seconds, problem.size("flop"))
    if with_openvino:
        fastest = next(entry for entry in contestants if entry.method == _fastest(seconds))
        rows += openvino_rows(label, problem, device.threads, operands, expected, fastest, relu6)
    return rows


def _prepared(problem: Problem, relu6: bool) -> tuple[Operands, Expected]:
    from seqtune.tuner.measuring.timing import prepare

    operands, expected = prepare(problem)
    return operands, with_relu6(expected) if relu6 else expected


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    """The time ratios of one layer, those that were measured: a peer's time divided by ours."""
    onednn = min(seconds["onednn"], seconds["conv2d_channels_last"])
    ours = {method: time for method, time in seconds.items() if method.startswith("llvm.")}
    first = [time for method, time in ours.items() if method.endswith(NCHW)]
    return {"ratio_direct": onednn / ours["llvm.direct"], "ratio_best": onednn / seconds[_fastest(seconds)],
            **({"ratio_nchw": seconds["conv2d_nchw"] / min(first)} if first else {}),
            **({"ratio_openvino": seconds[METHOD] / seconds[STEP]} if METHOD in seconds else {})}


def _fastest(seconds: Mapping[str, float]) -> str:
    """The method of our fastest kernel in NHWC."""
    return min((method for method in seconds if method.startswith("llvm.") and not method.endswith(NCHW)),
               key=seconds.__getitem__)


def summaries(rows: Sequence[Row]) -> list[Row]:
    """Make a row of geometric means for each number of threads, with the least ratio of each kind and its layer."""
    summary = []
    by_layer = seconds_by_method(rows)
    for threads in dict.fromkeys(row["threads"] for row in rows):
        all_ratios = {label: ratios(seconds) for (label, count), seconds in by_layer.items() if count == threads}
        names = next(iter(all_ratios.values()))
        worst = {name: min(all_ratios, key=lambda label: all_ratios[label][name]) for name in names}
        summary.append({"layer": "geomean", "threads": threads,
                        **{name: geometric_mean([ratio[name] for ratio in all_ratios.values()]) for name in names},
                        "least": {name: {"layer": label, "ratio": all_ratios[label][name]}
                                  for name, label in worst.items()}})
    return summary


def table(rows: Sequence[Row], layers: Mapping[str, Problem]) -> str:
    """Make two tables: the means for each number of threads, and the fastest family of each of these layers."""
    means = [row for row in rows if row["layer"] == "geomean"]
    known = [name for name in RATIOS if name in means[0]]
    short = markdown(["threads", *(column for name in known for column in (RATIOS[name], "its worst layer"))],
                     [[str(row["threads"]), *(column for name in known for column in (
                         f"{row[name]:.2f}", f"{row['least'][name]['ratio']:.2f} ({row['least'][name]['layer']})"))]
                      for row in means], left=0)
    details = []
    errors = {(row["layer"], row["threads"], row["method"]): row["error"] for row in rows if "error" in row}
    for (label, threads), seconds in seconds_by_method([row for row in rows if row["layer"] != "geomean"]).items():
        best, ratio = _fastest(seconds), ratios(seconds)
        onednn = min(seconds["onednn"], seconds["conv2d_channels_last"])
        cells = [label, described(layers[label]), str(threads), f"{seconds['llvm.direct'] * 1e6:.0f}",
                 f"{seconds[best] * 1e6:.0f}", best.partition(".")[2], f"{errors[label, threads, best]:.0e}",
                 f"{onednn * 1e6:.0f}", f"{ratio['ratio_best']:.2f}"]
        if "ratio_nchw" in known:
            cells.append(f"{ratio['ratio_nchw']:.2f}")
        if "ratio_openvino" in known:
            cells += [f"{seconds[STEP] * 1e6:.0f}", f"{seconds[METHOD] * 1e6:.0f}", f"{ratio['ratio_openvino']:.2f}"]
        details.append(cells)
    header = ["layer", "filter / stride, channels, size", "threads", "direct, µs", "best, µs", "family", "error",
              "best oneDNN, µs", "ratio", *(["NCHW ratio"] if "ratio_nchw" in known else []),
              *(["step, µs", "OpenVINO's node, µs", "ratio"] if "ratio_openvino" in known else [])]
    return f"{short}\n\n{markdown(header, details, left=2)}"


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the speed relative to the peers, for each layer and number of threads."""
    draw_ratios(rows, ratios, DRAWN, str, path)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows, layer_set = results["rows"], LAYER_SETS[results["network"]]
    means = {row["threads"]: row for row in rows if row["layer"] == "geomean"}
    speeds = "; ".join(f"on {count} thread{'s' * (count > 1)} {row['ratio_best']:.2f} times the speed of PyTorch's "
                       f"best oneDNN convolution{_beside_openvino(row)}" for count, row in means.items())
    fused = ", with bias and ReLU6" if layer_set.fused else ""
    nchw = ("`NCHW ratio` compares F.conv2d in its default memory format with our fastest kernel in NCHW memory. "
            if layer_set.nchw else "")
    return Page(
        f"{layer_set.name}_layers", f"Convolutions of {layer_set.title} compared with PyTorch and OpenVINO",
        f"The tuned kernels of the {len(layer_set.layers())} distinct convolutions of {layer_set.title} (batch 1, fp32"
        f"{fused}) reach {speeds} (geometric means).",
        f"python -m benchmarks network_layers --network {layer_set.name} --openvino --out docs",
        table(rows, layer_set.layers()), measured_on(results),
        "`best oneDNN` is the faster of F.conv2d on channels_last input and of oneDNN's own operation on packed "
        f"weights. `ratio` is its time divided by ours. {nchw}`error` is the largest difference divided by the largest "
        "value of a reference in float64. "
        + openvino_sentence("layer", "OpenVINO's call and its changes of layout"),
        ("Both sides pack the filters before the call. Beside PyTorch, padding and the allocation of the result are "
         "timed on both.", *layer_set.caveats,
         OPENVINO_CAVEAT,
         "Every kernel was chosen by a search on this machine, not by a prediction."),
        "Speed of every layer relative to PyTorch's best oneDNN convolution and to OpenVINO's node")


def _beside_openvino(row: Mapping[str, float]) -> str:
    return f" and {row['ratio_openvino']:.2f} times that of OpenVINO's nodes" if "ratio_openvino" in row else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    add_search(parser)
    add_peers(parser)
    parser.add_argument("--network", choices=list(LAYER_SETS), default="resnet18")
    parser.add_argument("--layers", type=int, nargs="+", default=(), metavar="NUMBER", help="some layers only")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Search the configurations, run the contest and write the results."""
    if given.openvino:
        check_openvino()
    devices = llvm_devices(given.threads)
    layer_set = LAYER_SETS[given.network]
    problems = layer_set.layers(given.layers)
    warm_threads(max(given.threads))
    with journal_of(given.journal) as journal:
        kernels = fastest_kernels(list(problems.values()), ["NHWC", *["NCHW"] * layer_set.nchw], devices, journal,
                                  given.trials)
    rows: list[Row] = []
    for device in devices:
        for label, problem in problems.items():
            own_kernels = [kernel for kernel in kernels if kernel.device == device
                   and {**dict(kernel.problem.features), "layout": "NHWC"} == dict(problem.features)]
            rows += contest(label, problem, own_kernels, given.rounds, layer_set.has_relu6(problem), given.openvino)
    rows += summaries(rows)
    report(given, rows, devices, page, lambda path: draw(rows, path), {"network": given.network})
