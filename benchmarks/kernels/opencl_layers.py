"""Compare OpenCL convolutions with PyTorch's: `python -m benchmarks opencl_layers [--json] [--out docs] [--journal J]`.

The 12 ResNet-18 layers at batch 1 in NHWC, fp32, on PoCL with all cores: the best configuration of every family is
timed from enqueueing to the finish, between existing buffers. PyTorch's contestants are those of `network_layers` on
as many threads. PoCL has its own threads, so each turn begins after a rest, when the threads of the other side sleep.

The row of the layer "geomean" has `ratio_best`, the geometric mean of best oneDNN's time divided by that of our fastest
family, and `layers_at_least_0.85`, the number of layers with a ratio of at least 0.85.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.contest import (
    Contestant,
    convolution_contestants,
    geometric_mean,
    rows_of,
    searched,
    seconds_by_method,
    take_turns,
)
from benchmarks.common.layer_sets import LAYER_SETS
from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.program import add_search, journal_of, parser_of, report, warm_threads
from benchmarks.common.report import BLUE, Row, draw_speeds, markdown
from seqtune.errors import SeqtuneError

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.backends.backend import Backend

REST_SECONDS = 0.02
WANTED = 0.85  # share of best oneDNN's speed that a layer should reach


def contest(label: str, problem: Problem, backend: Backend, configurations: Sequence[Configuration],
            rounds: int) -> list[Row]:
    """Time all contestants of one layer."""
    from seqtune.data.record import Status
    from seqtune.kernels.registry import kernel
    from seqtune.tuner.measuring.timing import check, prepare

    operands, expected = prepare(problem)
    contestants = convolution_contestants(problem, operands, expected)
    executables = []
    for configuration in configurations:
        executable = backend.build(problem, kernel(configuration.kernel), configuration)
        executables.append(executable)
        checked, _ = check(executable, operands, expected)
        if checked.status is not Status.CORRECT or checked.error is None:
            raise SeqtuneError(f"{configuration.brief()} on {backend.device.name}: {checked.message}")
        contestants.append(Contestant(configuration.kernel, executable.run, checked.error,
                        {"configuration": dict(configuration.settings)}))
    seconds = take_turns(contestants, rounds, REST_SECONDS)
    for executable in executables:
        executable.close()
    print(f"{label}: " + ", ".join(f"{method} {least * 1e6:.0f} us" for method, least in seconds.items()),
          file=sys.stderr, flush=True)
    return rows_of(label, backend.device.compute_units, contestants, seconds, problem.size("flop"))


def ratio(seconds: dict[str, float]) -> float:
    """The time of best oneDNN divided by that of our fastest family."""
    return min(seconds["onednn"], seconds["conv2d_channels_last"]) / min(
        time for method, time in seconds.items() if method.startswith("opencl."))


def summary(rows: Sequence[Row]) -> Row:
    """Make the row of means."""
    ratios = [ratio(seconds) for seconds in seconds_by_method(rows).values()]
    return {"layer": "geomean", "threads": rows[0]["threads"], "ratio_best": geometric_mean(ratios),
            f"layers_at_least_{WANTED}": sum(value >= WANTED for value in ratios), "layers": len(ratios)}


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each layer, and the mean last."""
    lines = []
    for (label, _), seconds in seconds_by_method([row for row in rows if row["layer"] != "geomean"]).items():
        best = min((method for method in seconds if method.startswith("opencl.")), key=seconds.__getitem__)
        onednn = min(seconds["onednn"], seconds["conv2d_channels_last"])
        lines.append([label, f"{seconds[best] * 1e6:.0f}", best.partition(".")[2], f"{onednn * 1e6:.0f}",
                      f"{ratio(seconds):.2f}"])
    mean = rows[-1]
    lines.append([f"geometric mean; {mean[f'layers_at_least_{WANTED}']} of {mean['layers']} at least {WANTED}", "", "",
                  "", f"**{mean['ratio_best']:.2f}**"])
    return markdown(["layer", "ours, µs", "family", "best oneDNN, µs", "ratio"], lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the speed relative to the best oneDNN, for each layer."""
    by_layer = seconds_by_method([row for row in rows if row["layer"] != "geomean"])
    labels = [label for label, _ in by_layer]
    draw_speeds(path, [(f"OpenCL on {rows[0]['threads']} cores", labels, {
        "best family, over the best oneDNN": (BLUE, [ratio(seconds) for seconds in by_layer.values()])})],
        "speed over PyTorch's")


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    mean = next(row for row in rows if row["layer"] == "geomean")
    return Page(
        "opencl_layers", "OpenCL convolutions compared with PyTorch",
        f"On PoCL, tuned OpenCL kernels compute the ResNet-18 layers at {mean['ratio_best']:.2f} times the speed of "
        f"PyTorch's best oneDNN convolution (geometric mean; {mean['layers_at_least_0.85']} of the layers reach 0.85).",
        "python -m benchmarks opencl_layers --out docs", table(rows), measured_on(results),
        "`ratio` is PyTorch's time divided by ours, on as many threads. `best oneDNN` is the faster of F.conv2d on "
        "channels_last input and of oneDNN's own operation on packed weights.",
        ("The device is PoCL on a CPU; no GPU was measured.",
         "Our kernels are timed from enqueueing to the finish, between existing buffers.",
         "Every kernel was chosen by a search on this machine, not by a prediction."),
        "Speed relative to PyTorch's best oneDNN convolution, by layer")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    add_search(parser)
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--layers", type=int, nargs="+", default=(), metavar="1..12")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Search the configurations, run the contest and write the results."""
    from seqtune.kernels.registry import kernels_for
    from seqtune.tuner.backends.backend import open_backend
    from seqtune.tuner.backends.discovery import find
    from seqtune.tuner.measuring.runner import Runner

    device: Device = find(given.device)
    warm_threads(device.compute_units)
    problems = LAYER_SETS["resnet18"].layers(given.layers)
    with journal_of(given.journal) as journal, Runner(device) as runner:
        chosen = {label: [searched(problem, device, family, journal, given.trials, runner)
                          for family in kernels_for(problem, device)] for label, problem in problems.items()}
    backend = open_backend(device)
    rows: list[Row] = []
    for label, configurations in chosen.items():
        rows += contest(label, problems[label], backend, configurations, given.rounds)
    backend.close()
    rows.append(summary(rows))
    report(given, rows, [device], page, lambda path: draw(rows, path))
