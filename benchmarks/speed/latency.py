"""Time a prediction: `python -m benchmarks latency [--out docs]`.

Warm: predictions of 5 configurations in a running process, for many problems on each device: `new` problems, whose
search space has to be enumerated, and the same ones `again`; some rows are of GPUs that need not be here. First: the
first problem of a process that has loaded its checkpoint. NumPy keeps its own number of threads, of which a prediction
takes one. Busy: known problems on the first device, beside no, one and two busy processes in turns. Cold: the least
time of several new processes, with byte code as an installed package has it, and without a journal; `seqtune predict`
uses its default beam there. Calls: a kernel with almost no work, called from Python on threads that are awake; the
second row has the dispatch to the threads in addition.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, machine, markdown
from benchmarks.speed.busy_processes import beside_busy_processes, busy_table, percentiles
from benchmarks.speed.prediction_parts import bulk, cold_parts, first_problem, parts_tables, warm_parts
from seqtune.errors import KernelError, SeqtuneError

if TYPE_CHECKING:
    from seqtune.kernels.problem import Problem

PROBLEM = "conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1"
CHECKPOINT = "default"
BEAM = 5
WARM_UP = 10  # problems that are not counted
MIOPEN = ("miopen", "miopen:gfx906_60")  # checkpoint and device of MIOpen's parameters, which are never measured here
GPUS = ("cuda:h100", "triton:h200")  # answered by the shipped checkpoint of GPUs
FIRST = "gemm m=1024 n=768 k=512"  # solved on every device
SEED = 77
CALLS = 500  # calls of a block: about a millisecond, so that most blocks are not interrupted


def least(arguments: list[str], times: int) -> float:
    """The least seconds of a new process that runs Python with these arguments."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def cold(device: str, times: int) -> dict[str, float]:
    """The seconds of each command in a new process. Raises SeqtuneError if one fails; it has printed the reason."""
    from seqtune.predictor.trees.ranker import PROPOSALS

    program = ["-m", "seqtune"]
    commands = {"an empty interpreter": ["-c", "pass"], "import seqtune": ["-c", "import seqtune"],
                "seqtune --help": [*program, "--help"], "seqtune devices": [*program, "devices"],
                f"seqtune predict (beam {PROPOSALS})": [
                    *program, "predict", PROBLEM, "--checkpoint", CHECKPOINT, "--device", device, "--no-evidence"]}
    try:
        return {name: least(arguments, times) for name, arguments in commands.items()}
    except subprocess.CalledProcessError as error:
        raise SeqtuneError(f"{' '.join(map(str, error.cmd[1:4]))} ended with exit code {error.returncode}") from None


def warm(checkpoint: str | None, name: str, problems: Sequence[Problem]) -> Row:
    """Make the row of a device: milliseconds of new problems, and of the same problems again.

    The first WARM_UP problems are not counted. Without a checkpoint, that of the device's backend answers.
    """
    from seqtune.api.inputs import as_device
    from seqtune.predictor.answering import answering

    device = as_device(name)

    def answer(problem: Problem) -> None:
        answering(problem, device, checkpoint).propose(BEAM)

    row: Row = {"device": device.name}
    for pass_name in ("new", "again"):
        times = [timed(answer, problem) for problem in problems][WARM_UP:]
        solved = [milliseconds for milliseconds in times if milliseconds is not None]
        if not solved:
            raise SeqtuneError(f"no kernel of {device.name} solves any of the problems; ask for more")
        row[pass_name] = {"problems": len(solved), **percentiles(solved)}
    return row


def sampled(count: int) -> list[Problem]:
    """WARM_UP problems that are not counted and `count` others, a fifth of them matrix products."""
    from seqtune.kernels.problem_sets.sampler import sample_problems

    products = max(1, count // 5)
    return [*sample_problems("conv2d", WARM_UP // 2, SEED), *sample_problems("gemm", WARM_UP // 2, SEED),
            *sample_problems("conv2d", count - products, SEED + 1), *sample_problems("gemm", products, SEED + 1)]


def convolutions_of_miopen(count: int) -> list[Problem]:
    """Sampled convolutions as MIOpen's solvers ask for them, WARM_UP of which are not counted."""
    from seqtune.kernels.operations.table import operation
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.problem_sets.sampler import sample_problems

    features = operation("convnd").by_name
    return [Problem.make("convnd", **{name: value for name, value in problem.features if name in features})
            for problem in sample_problems("conv2d", WARM_UP + count, SEED + 5)]


def beside(name: str, count: int, rounds: int) -> list[dict[str, Any]]:
    """Make a row for each number of busy processes: milliseconds of known convolutions on one device."""
    from seqtune.kernels.problem_sets.sampler import sample_problems
    from seqtune.predictor.predictors import cached_checkpoint
    from seqtune.tuner.backends.discovery import find

    loaded, device = cached_checkpoint(CHECKPOINT), find(name)

    def answer(problem: Problem) -> None:
        loaded.propose([loaded.task(problem, device)], BEAM)

    def milliseconds(problem: Problem) -> float | None:
        return timed(answer, problem)

    answered = [problem for problem in sample_problems("conv2d", count, SEED + 4) if milliseconds(problem) is not None]
    if not answered:
        raise SeqtuneError(f"no kernel of {name} solves any of the problems; ask for more")
    return beside_busy_processes(milliseconds, answered, rounds)


def calls(times: int) -> dict[str, float]:
    """The microseconds of a call of a tiny matrix product on one thread and on all, as medians of `times` blocks."""
    import numpy as np

    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.llvm.aligned import aligned
    from seqtune.kernels.problem import Problem
    from seqtune.networks.program.bound_kernels import KernelBinder
    from seqtune.tuner.backends.discovery import find
    from seqtune.tuner.backends.llvm.compiler import Compiler
    from seqtune.tuner.backends.llvm.threads import Threads

    best = find("llvm:0")
    problem = Problem.make("gemm", m=best.threads, n=4, k=1)
    one_row = Configuration.of("llvm.gemm", {"vector": 4, "vectors_n": 1, "tile_m": 1, "unroll_k": 1, "chunk": 1})
    x, y = aligned((best.threads, 1)), aligned((best.threads, 4))
    medians = {}
    for count in dict.fromkeys((1, best.threads)):
        device = find(f"llvm:{best.instruction_set}:{count}")
        compiler = Compiler(device.instruction_set)
        threads = Threads(compiler, count)
        try:
            call = KernelBinder(device, compiler, threads).bind(problem, one_row, np.ones((1, 4), np.float32), None)
            blocks = []
            for _ in range(times):
                start = time.perf_counter()
                for _ in range(CALLS):
                    call(x.ctypes.data, y.ctypes.data)
                blocks.append((time.perf_counter() - start) / CALLS * 1e6)
        finally:
            threads.close()
        medians[f"{count} thread{'s' * (count > 1)}, pinned"] = sorted(blocks)[times // 2]
    return medians


def timed(answer: Callable[[Any], None], problem: Any) -> float | None:
    """The milliseconds of an answer, or None if no kernel solves the problem."""
    start = time.perf_counter()
    try:
        answer(problem)
    except KernelError:
        return None
    return (time.perf_counter() - start) * 1e3


def first_table(first: dict[str, float]) -> str:
    """Make the table of a process's first problem."""
    return markdown(["a process's first problem", "ms"], [[name, f"{each:.0f}"] for name, each in first.items()])


def tables(rows: list[dict[str, Any]], starts: dict[str, float], dispatch: dict[str, float]) -> str:
    """Make the tables of whole predictions, programs and calls."""
    lines = [[row["device"], str(row["new"]["problems"]), *(f"{row[which][value]:.1f}" for which in ("new", "again")
                                                           for value in ("median_ms", "p90_ms"))] for row in rows]
    header = ["device", "problems", "new: median, ms", "p90", "again: median, ms", "p90"]
    return "\n\n".join([
        markdown(header, lines),
        markdown(["cold, a new process", "s"], [[name, f"{seconds:.2f}"] for name, seconds in starts.items()]),
        markdown(["a call", "µs"], [[name, f"{each:.1f}"] for name, each in dispatch.items()])])


def page(results: Results) -> Page:
    """Make the page of the results."""
    medians = [row["new"]["median_ms"] for row in results["warm"] if row["device"] not in (*GPUS, MIOPEN[1])]
    return Page(
        "latency", "How long a prediction takes",
        f"A prediction of {results['beam']} configurations for a new problem takes {min(medians):.0f} to "
        f"{max(medians):.0f} ms in a running process.",
        "python -m benchmarks latency --out docs",
        "\n\n".join([tables(results["warm"], results["cold_seconds"], results["call_microseconds"]),
                     first_table(results["first_problem_ms"]), busy_table(results["beside_busy"]),
                     parts_tables(results)]), measured_on(results),
        "The problems are sampled at random, and predictions use one thread. `new`: problems whose search space has to "
        "be enumerated; `again`: the same problems a second time. `beside a busy process`: known problems on the first "
        "device, while other processes compute without end; the rows were measured in turns. "
        f"The beam is {results['width']} wide, so that the boosted trees can choose from it. `cold`: whole programs, "
        "each in a new process that finds compiled modules, as an installed package has them, and no measurements of "
        "its own. `a call` is a kernel with almost no work, called from Python.",
        ("Each problem was asked once; the columns are medians and 90th percentiles over the problems. Of the new "
         "processes the least time counts.",))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--problems", type=positive, default=100,
                        help="number of sampled problems, a fifth of them matrix products")
    parser.add_argument("--times", type=positive, default=5, help="number of new processes of each kind")
    parser.add_argument("--bulk", type=positive, default=2000, help="number of problems that are answered in bulk")
    given = parser.parse_args(arguments)
    run(given)


def run(given: argparse.Namespace) -> None:
    """Measure and write the results; new processes find byte code, whatever the environment says."""
    check_ready(given.out)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["PYTHONPYCACHEPREFIX"] = scratch
        measure(given)


def measure(given: argparse.Namespace) -> None:
    """Measure, and write the results."""
    from seqtune.kernels.problem_sets.sampler import sample_problems
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.trees.ranker import PROPOSALS
    from seqtune.tuner.backends.discovery import devices, find

    model = Checkpoint.load(CHECKPOINT)
    words = model.vocabulary.words
    names = [device.name for device in devices() if f"backend={device.backend}" in words]
    if not names:
        raise SeqtuneError("the checkpoint knows none of the devices here")
    starts = cold(names[0], given.times)
    dispatch = calls(20 * given.times + 1)
    problems = sampled(given.problems)
    rows = [warm(CHECKPOINT, name, problems) for name in names]
    rows += [warm(None, name, problems) for name in GPUS if name not in names]
    rows.append(warm(*MIOPEN, convolutions_of_miopen(given.problems)))
    first, problems = find(names[0]), sample_problems("conv2d", given.problems, SEED + 2)
    results = {"machine": machine([find(name) for name in names]), "beam": BEAM, "warm": rows, "cold_seconds": starts,
             "call_microseconds": dispatch, "width": PROPOSALS,
             "first_problem_ms": {name: first_problem(checkpoint, name, FIRST, given.times) for checkpoint, name in (
                 (CHECKPOINT, names[0]), *((None, name) for name in GPUS))},
             "cold_parts": cold_parts(CHECKPOINT, names[0], PROBLEM, given.times),
             "beside_busy": beside(names[0], given.problems, given.times),
             "warm_parts": [warm_parts(model, find(name), problems, BEAM) for name in names],
             "bulk": bulk(CHECKPOINT, first, sample_problems("conv2d", given.bulk, SEED + 3))}
    written = page(results)
    print(f"{written.tables}\n\n{written.measured}")
    publish(given.out, page, results)
