"""Our OpenCL convolutions beside PyTorch's: `python -m benchmarks.opencl_layers [--json] [--out docs] [--journal J]`.

The 12 ResNet-18 layers at batch 1 in NHWC, fp32, on PoCL with all cores: the best configuration of every family, from
the enqueueing to the finish, between buffers that are there. PyTorch's ways are those of `resnet18_layers` on as many
threads. PoCL has a pool of its own, so each turn begins after a rest, when the other side's threads sleep.

The row of the layer "geomean" has `ratio_best`, the geometric mean of best oneDNN over our fastest family, and
`layers_at_least_0.85`, the number of layers where that is 0.85 or more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.contest import (
    Way,
    convolution_ways,
    geometric_mean,
    rows_of,
    searched,
    seconds_by_method,
    take_turns,
)
from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.program import add_search, journal_of, parser_of, report, run_program, warm_threads
from benchmarks.common.report import BLUE, Row, draw_speeds, markdown
from benchmarks.kernels.resnet18_layers import layers
from seqtune.errors import SeqtuneError

if TYPE_CHECKING:
    from seqtune.kernels.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.backends.backend import Backend

REST_SECONDS = 0.02
WANTED = 0.85  # of best oneDNN's speed


def contest(label: str, problem: Problem, backend: Backend, configurations: Sequence[Configuration],
            rounds: int) -> list[Row]:
    """All ways of one layer."""
    from seqtune.data.record import Status
    from seqtune.kernels.registry import kernel
    from seqtune.tuner.measuring.timing import check, prepare

    operands, expected = prepare(problem)
    ways = convolution_ways(problem, operands, expected)
    executables = []
    for configuration in configurations:
        executable = backend.build(problem, kernel(configuration.kernel), configuration)
        executables.append(executable)
        found, _ = check(executable, operands, expected)
        if found.status is not Status.CORRECT or found.error is None:
            raise SeqtuneError(f"{configuration.brief()} on {backend.device.name}: {found.message}")
        ways.append(Way(configuration.kernel, executable.run, found.error,
                        {"configuration": dict(configuration.settings)}))
    seconds = take_turns(ways, rounds, REST_SECONDS)
    for executable in executables:
        executable.close()
    print(f"{label}: " + ", ".join(f"{method} {one * 1e6:.0f} us" for method, one in seconds.items()),
          file=sys.stderr, flush=True)
    return rows_of(label, backend.device.compute_units, ways, seconds, problem.size("flop"))


def ratio(seconds: dict[str, float]) -> float:
    """Best oneDNN over our fastest."""
    return min(seconds["onednn"], seconds["conv2d_channels_last"]) / min(
        one for method, one in seconds.items() if method.startswith("opencl."))


def summary(rows: Sequence[Row]) -> Row:
    """The row of means."""
    each = [ratio(seconds) for seconds in seconds_by_method(rows).values()]
    return {"layer": "geomean", "threads": rows[0]["threads"], "ratio_best": geometric_mean(each),
            f"layers_at_least_{WANTED}": sum(one >= WANTED for one in each), "layers": len(each)}


def table(rows: Sequence[Row]) -> str:
    """A line per layer; the mean last."""
    lines = []
    for (label, _), seconds in seconds_by_method([row for row in rows if row["layer"] != "geomean"]).items():
        best = min((one for one in seconds if one.startswith("opencl.")), key=seconds.__getitem__)
        onednn = min(seconds["onednn"], seconds["conv2d_channels_last"])
        lines.append([label, f"{seconds[best] * 1e6:.0f}", best.partition(".")[2], f"{onednn * 1e6:.0f}",
                      f"{ratio(seconds):.2f}"])
    mean = rows[-1]
    lines.append([f"geometric mean; {mean[f'layers_at_least_{WANTED}']} of {mean['layers']} at least {WANTED}", "", "",
                  "", f"**{mean['ratio_best']:.2f}**"])
    return markdown(["layer", "ours, µs", "family", "best oneDNN, µs", "ratio"], lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Speed over the best oneDNN's, per layer."""
    by_layer = seconds_by_method([row for row in rows if row["layer"] != "geomean"])
    labels = [label for label, _ in by_layer]
    draw_speeds(path, [(f"OpenCL on {rows[0]['threads']} cores", labels, {
        "best family, over the best oneDNN": (BLUE, [ratio(seconds) for seconds in by_layer.values()])})],
        "speed over PyTorch's")


def page(found: Results) -> Page:
    """The page of the result."""
    rows = found["rows"]
    mean = next(row for row in rows if row["layer"] == "geomean")
    return Page(
        "opencl_layers", "OpenCL convolutions beside PyTorch",
        f"On PoCL, tuned OpenCL kernels compute the ResNet-18 layers at {mean['ratio_best']:.2f} times the speed of "
        f"PyTorch's best oneDNN convolution (geometric mean; {mean['layers_at_least_0.85']} of the layers reach 0.85).",
        "python -m benchmarks.opencl_layers --out docs", table(rows), measured_on(found),
        "`ratio` is PyTorch's time divided by ours, on as many threads. `best oneDNN` is the faster of F.conv2d on "
        "channels_last input and of oneDNN's own operation on packed weights.",
        ("The device is PoCL on a CPU; no GPU was measured.",
         "Ours is timed from enqueueing to the finish, between buffers that exist already.",
         "Every kernel was chosen by a search on this machine, not by a prediction."),
        "Speed relative to PyTorch's best oneDNN convolution, by layer")


def main() -> None:
    """The command."""
    parser = parser_of(__doc__)
    add_search(parser)
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--layers", type=int, nargs="+", default=range(1, 13), metavar="1..12")
    given = parser.parse_args()
    if not set(given.layers) <= set(range(1, 13)):
        parser.error("--layers are numbers from 1 to 12")
    run_program("opencl_layers", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """The search and the contest."""
    from seqtune.kernels.registry import kernels_for
    from seqtune.tuner.backends.backend import open_backend
    from seqtune.tuner.backends.discovery import find
    from seqtune.tuner.measuring.runner import Runner

    device: Device = find(given.device)
    warm_threads(device.compute_units)
    problems = layers(given.layers)
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


if __name__ == "__main__":
    main()
