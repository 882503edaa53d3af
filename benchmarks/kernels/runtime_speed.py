"""Compare OpenCL runtimes on one CPU: `python -m benchmarks runtime_speed [--trials N] [--json] [--out docs]`.

On every OpenCL device that is a CPU, a search measures `--trials` configurations of each kernel family that solves the
problem. The best configurations of all devices and families, and the safe defaults, then compute the problem in turns,
in one process. Five problems: a plain 3x3 convolution, a 1x1 one, a depthwise one, and two matrix products.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.contest import Contestant, geometric_mean, rows_of, searched, take_turns
from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.program import add_search, journal_of, parser_of, report
from benchmarks.common.report import BLUE, Row, draw_speeds, markdown
from seqtune.errors import SeqtuneError, UnavailableError

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.backends.backend import Backend

PROBLEMS = (
    "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1", "conv2d c=192 h=28 w=28 k=768 r=1 s=1", "gemm m=300 n=300 k=300",
    "gemm m=197 n=768 k=768", "conv2d c=96 h=56 w=56 k=96 r=3 s=3 pad=1 groups=96")
REST_SECONDS = 0.02  # before a turn: the idle threads of another runtime stop spinning


def contest(problem: Problem, backends: Sequence[Backend], configurations: Sequence[Sequence[Configuration]],
            rounds: int) -> list[Row]:
    """Time the configurations of all devices; the first of each device is its safe default."""
    from seqtune.data.record import Status
    from seqtune.kernels.registry import kernel
    from seqtune.tuner.measuring.timing import check, prepare

    operands, expected = prepare(problem)
    contestants, executables = [], []
    for backend, chosen in zip(backends, configurations, strict=True):
        for index, configuration in enumerate(chosen):
            executable = backend.build(problem, kernel(configuration.kernel), configuration)
            executables.append(executable)
            checked, _ = check(executable, operands, expected)
            if checked.status is not Status.CORRECT or checked.error is None:
                raise SeqtuneError(f"{configuration.brief()} on {backend.device.name}: {checked.message}")
            name = configuration.kernel if index else "default"
            contestants.append(Contestant(f"{backend.device.name} {name}", executable.run, checked.error, {
                "device": backend.device.name, "default": not index, "kernel": configuration.kernel,
                "configuration": dict(configuration.settings)}))
    seconds = take_turns(contestants, rounds, REST_SECONDS)
    for executable in executables:
        executable.close()
    print(f"{problem.brief()}: " + ", ".join(f"{method} {least * 1e6:.0f} us" for method, least in seconds.items()),
          file=sys.stderr, flush=True)
    return rows_of(problem.brief(), backends[0].device.compute_units, contestants, seconds, problem.size("flop"))


def best_seconds(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """The seconds of the best of each problem on each device, defaults included: problem -> device -> seconds."""
    best: dict[str, dict[str, float]] = {}
    for row in rows:
        devices = best.setdefault(row["layer"], {})
        devices[row["device"]] = min(row["seconds"], devices.get(row["device"], row["seconds"]))
    return best


def speed(rows: Sequence[Row], device: str) -> float:
    """The geometric mean of a device's speed over that of the first device."""
    return geometric_mean([times[next(iter(times))] / times[device] for times in best_seconds(rows).values()])


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each problem and device."""
    best, lines = best_seconds(rows), []
    for layer, devices in best.items():
        for device, seconds in devices.items():
            row = next(row for row in rows
                       if (row["layer"], row["device"], row["seconds"]) == (layer, device, seconds))
            default = next(row["seconds"] for row in rows
                           if row["layer"] == layer and row["device"] == device and row["default"])
            lines.append([layer, device, f"{seconds * 1e6:.0f}", f"{row['gflops']:.0f}", f"{default * 1e6:.0f}",
                          row["kernel"].partition(".")[2], f"{next(iter(devices.values())) / seconds:.2f}"])
    lines += [["geometric mean", device, "", "", "", "", f"**{speed(rows, device):.2f}**"]
              for device in next(iter(best.values()))]
    return markdown(["problem", "device", "best, µs", "GFLOP/s", "default, µs", "family", "speed"], lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the speed of each further device relative to the first, for each problem."""
    best = best_seconds(rows)
    first, *others = next(iter(best.values()))
    draw_speeds(path, [(f"{device} over {first}", list(best), {
        "best found": (BLUE, [times[first] / times[device] for times in best.values()])}) for device in others],
        f"speed over {first}")


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    first, *others = next(iter(best_seconds(rows).values()))
    speeds = ", ".join(f"{device} {speed(rows, device):.2f}" for device in others)
    return Page(
        "runtime_speed", "OpenCL runtimes on one CPU",
        f"The best kernels that a search found on other OpenCL runtimes reach this speed of those on {first}: {speeds} "
        "(geometric mean).",
        "python -m benchmarks runtime_speed --out docs", table(rows), measured_on(results),
        f"`speed` is the time of the best on {first} divided by that of the best on the device.",
        ("Every kernel was chosen by a search on this machine, not by a prediction.",
         "The median of the levelled rounds counts."),
        "Speed of the best kernels relative to the first runtime, by problem")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    add_search(parser)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), metavar="PROBLEM")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Search on every runtime, run the contests and write the results. Raises UnavailableError with fewer than two."""
    from seqtune.kernels.problem_sets.parse import parse_problem
    from seqtune.kernels.registry import kernels_for
    from seqtune.kernels.space import SearchSpace
    from seqtune.tuner.backends.backend import open_backend
    from seqtune.tuner.backends.discovery import devices
    from seqtune.tuner.measuring.runner import Runner

    cpus: list[Device] = [device for device in devices() if device.backend == "opencl" and device.threads]
    if len(cpus) < 2:
        raise UnavailableError("fewer than two OpenCL runtimes for CPUs are here: pip install 'seqtune[intel-opencl]'")
    problems = [parse_problem(text) for text in given.problems]
    chosen: dict[Problem, list[list[Configuration]]] = {problem: [] for problem in problems}
    with journal_of(given.journal) as journal:
        for device in cpus:
            with Runner(device) as runner:
                for problem in problems:
                    families = kernels_for(problem, device)
                    chosen[problem].append([SearchSpace(families[0], problem, device).default, *(
                        searched(problem, device, family, journal, given.trials, runner) for family in families)])
    backends = [open_backend(device) for device in cpus]
    rows = [row for problem in problems for row in contest(problem, backends, chosen[problem], given.rounds)]
    for backend in backends:
        backend.close()
    report(given, rows, cpus, page, lambda path: draw(rows, path))
