"""Layers beside their peers: `python -m benchmarks layers [--problems resnet18,products] [--out docs]`.

The sets of problems stand in `benchmarks/kernels/problem_sets.py`: convolutions of ResNet-18 and MobileNet-V2, matrix
products, linear layers of language models, kernels as `seqtune build` gives them, products of int8, and OpenCL
convolutions and runtimes. Our kernels are chosen before the contest: by a search that measures `--trials`
configurations of each kernel family in another process and keeps them in the journal, or, for linear layers, by
prediction. Then all methods of a layer take turns in one process; their constant operands are packed and their inputs
are in memory before. Our llvm kernels, but for the calls of built ones from Python, run on the OpenMP threads of
PyTorch, so that no threads of another pool disturb either side. A result with a larger error than the problem allows
ends the program; a peer that is not installed is named and left out.

The JSON file has a part for each set, and a run replaces the parts of its own sets.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.common.contest import Contestant, rows_of, take_turns
from benchmarks.common.page import check_ready, publish, published
from benchmarks.common.program import llvm_devices, parser_of, positive, several, warm_threads
from benchmarks.common.progress import say
from benchmarks.common.report import Row, machine
from seqtune.data.journal.journal import Journal
from seqtune.errors import UnavailableError

from .built_layers import built_contestants
from .layer import Layer, OurKernel, chosen_kernels, our_contestant
from .layers_page import draw, page
from .openvino_node import node_rows
from .peers import is_here, peers_of
from .problem_sets import LIMIT, OPENVINO, PROBLEM_SETS, READ, ProblemSet

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--trials", type=positive, default=200,
                        help="number of configurations of each kernel family that the search measures")
    parser.add_argument("--journal", type=Path, help="stores the search, so that a second run is quick")
    parser.add_argument("--rounds", type=positive, default=20, help="samples of each contestant")
    parser.add_argument("--problems", type=several(list(PROBLEM_SETS)), default=["resnet18"], metavar="A,B",
                        help=f"sets of problems: {', '.join(PROBLEM_SETS)}")
    parser.add_argument("--threads", type=positive, nargs="+", default=[1, 2], help="of llvm kernels and their peers")
    run(parser.parse_args(arguments))


def run(given: argparse.Namespace) -> None:
    """Measure the sets and write the results."""
    check_ready(given.out)
    results = published(given.out, "layers")
    warm_threads(max(given.threads))  # a pool of threads is as large as its first use
    with TemporaryDirectory() as folder, Journal(given.journal or Path(folder) / "trials.sqlite") as journal:
        for name in given.problems:
            problem_set = PROBLEM_SETS[name]
            teams = teams_of(problem_set, given.threads)
            rows = [row for team in teams for row in measure(problem_set, team, journal, given)]
            devices = [device for team in teams for device in team]
            results[name] = {"machine": machine(devices, pytorch=True), "rows": rows}
    written = page(results)
    print(json.dumps(results, allow_nan=False) if given.json else written.tables)
    publish(given.out, page, results, partial(draw, results))


def teams_of(problem_set: ProblemSet, threads: Sequence[int]) -> list[list[Device]]:
    """The devices whose kernels take part in the same contests; those of OpenCL are the CPUs that are here.

    Raises UnavailableError for fewer devices than the set compares.
    """
    from seqtune.tuner.backends.discovery import devices

    if problem_set.backend == "llvm":
        return [[device] for device in llvm_devices(threads)]
    team = [device for device in devices() if device.backend == "opencl" and device.threads]
    if len(team) < 1 + problem_set.runtimes:
        raise UnavailableError(f"{problem_set.name} needs {1 + problem_set.runtimes} OpenCL runtimes for CPUs, "
                               f"{len(team)} are here: pip install 'seqtune[intel-opencl]'")
    return [team if problem_set.runtimes else team[:1]]


def measure(problem_set: ProblemSet, team: Sequence[Device], journal: Journal, given: argparse.Namespace) -> list[Row]:
    """Choose our kernels for all problems, then compare all methods of each in a contest."""
    from seqtune.tuner.measuring.runner import Runner

    problems = problem_set.make()
    warm_threads(threads_of(team[0]))
    chosen: dict[str, list[OurKernel]] = {label: [] for label in problems}
    for device in team:
        with Runner(device) as runner:
            for label, problem in problems.items():
                chosen[label] += chosen_kernels(problem_set, problem, device, device is team[0], journal, given.trials,
                                                runner)
    return [row for label, problem in problems.items()
            for row in contest(label, problem_set, problem, team[0], chosen[label], given.rounds)]


def contest(label: str, problem_set: ProblemSet, problem: Problem, device: Device, kernels: Sequence[OurKernel],
            rounds: int) -> list[Row]:
    """Time all methods of one layer, beside PyTorch on as many threads as the device has."""
    threads = threads_of(device)
    layers = {own: Layer.of(own, threads, problem_set)
              for own in dict.fromkeys([problem, *(kernel.problem for kernel in kernels)])}
    layer, flop = layers[problem], problem.size("flop")
    with ExitStack() as stack:
        contestants = peers_of(layer, [name for name in problem_set.peers if name != OPENVINO])
        for kernel in kernels:
            contestants += (built_contestants(kernel, layers[kernel.problem], stack) if problem_set.built else
                            [our_contestant(kernel, layers[kernel.problem], stack)])
        seconds = take_turns(contestants, rounds)
        say(f"{label}, {threads} threads: " + ", ".join(
            f"{method} {typical * 1e6:.0f} us" for method, typical in seconds.items()))
        rows = rows_of(label, threads, contestants, seconds, flop)
        if READ in seconds:
            least = max(seconds[READ], flop / device.peak_gflops / 1e9)
            rows += rows_of(label, threads, [Contestant(LIMIT, int, 0.0)], {LIMIT: least}, flop)
        if OPENVINO in problem_set.peers and is_here(OPENVINO):
            fastest = problem_set.answer(seconds)
            rows += node_rows(label, layer, next(entry for entry in contestants if entry.method == fastest))
    return rows


def threads_of(device: Device) -> int:
    """The threads of a CPU; OpenCL calls them compute units."""
    return device.threads if device.backend == "llvm" else device.compute_units
