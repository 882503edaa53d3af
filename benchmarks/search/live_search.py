"""Run search strategies with real measurements: `python -m benchmarks.live_search [--out docs]`.

Every strategy tunes the same held-out problems on this machine. Each run has its own process, an empty journal and an
empty cache of compiled kernels; for OpenCL matrix products Kernel Tuner tunes the same kernel through its own API. Runs
take turns: all strategies with one seed, then all with the next.

A strategy sees its own measurements, but it is scored with the times of the shipped data set, in which these spaces are
complete: with the share of the best recorded speed that the best configuration tried so far has, and at the end with
the share of the winner (after the finals of `tune`, or the fastest measurement of Kernel Tuner). Seconds are elapsed
time since the call and include building and checking. Kernel Tuner gets no reference result and checks none; our runs
check every result.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import llvm_devices, positive, run_program
from benchmarks.common.report import Row, machine, markdown, write_json
from seqtune.cli.arguments import parts
from seqtune.errors import MisuseError
from seqtune.tuner.simulation import best_shares

if TYPE_CHECKING:
    from seqtune.kernels.device import Device
    from seqtune.tuner.simulation import RecordedSpace

PROBLEMS = (  # held out and completely recorded; a random search needs 60 to 170 trials to 95 % on average
    ("llvm", "conv2d c=16 h=112 w=112 k=96 r=1 s=1"),
    ("llvm", "conv2d c=24 h=56 w=56 k=144 r=1 s=1"),
    ("llvm", "gemm m=64 n=1000 k=2048 trans_b=yes"),
    ("opencl", "gemm m=64 n=2048 k=512 trans_b=yes"),
    ("opencl", "conv2d c=144 h=28 w=28 k=32 r=1 s=1"),
)
OURS = ("portfolio", "predictor", "autotvm", "droplet", "evolutionary", "annealing", "random")
LEVELS = (0.95, 0.97, 0.99)
FEW = 5  # trials, for the claim of the page
Step = tuple[int, float]  # number of a configuration in the task, seconds since the call
Run = tuple[list[Step], int | None]  # the steps and the number of the winner


def searched(recorded: RecordedSpace, device: str, strategy: str, trials: int, seed: int) -> Run:
    """Run one of our strategies, as `seqtune tune` does. It is called in a fresh process."""
    from seqtune.api import tune

    steps: list[Step] = []
    start = time.monotonic()

    def note(step: Any) -> None:
        steps.append((recorded.task.number(step.configuration), time.monotonic() - start))

    with tempfile.TemporaryDirectory(prefix="seqtune-") as folder:
        report = tune(recorded.task.problem, device, strategy=strategy, trials=trials, seed=seed,
                      journal=Path(folder) / "trials.sqlite", progress=note)
    winner = report.results[0].best
    return steps, None if winner is None else recorded.task.number(winner)


def peer_searched(recorded: RecordedSpace, strategy: str, trials: int, seed: int) -> Run:
    """Run one of Kernel Tuner's strategies on the kernel text of ours. It is called in a fresh process."""
    import random
    from datetime import datetime

    import numpy as np
    from kernel_tuner import tune_kernel

    from benchmarks.common.peers import recorded_values
    from seqtune.kernels.implementation import Implementation
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.lookup import resolve
    from seqtune.kernels.operations.table import operation
    from seqtune.tuner.backends.opencl.discovery import devices, handle, load

    space = recorded_values(recorded.task.spaces[0])
    kernel, problem = space.kernel, space.problem
    # listing the devices also repairs PoCL
    device = next(entry for entry in devices() if entry.key == space.device.key)
    handles = {entry: (p, d) for p, platform in enumerate(load().get_platforms())
             for d, entry in enumerate(platform.get_devices())}
    platform, opencl_device = handles[handle(device.name)]
    assert kernel.implementation is not None
    implementation: Implementation = resolve(kernel.implementation)  # type: ignore[assignment]
    values = {entry.name: list(entry.values) for entry in kernel.parameters}
    valid = {tuple(value for _, value in configuration.settings) for configuration in space}

    def configured(settings: Any) -> Configuration:
        return Configuration(kernel.name, tuple((name, settings[name]) for name in values))

    def text(settings: Any) -> str:
        """The kernel, and a second one with the same arguments for all configurations, which calls it."""
        source = implementation.source(problem, device, configured(settings))
        launch = implementation.launch(problem, device, configured(settings))
        buffers = "__global float *x, __global float *w, __global float *b, __global float *y, __global float *s"
        positional = ", ".join(["x", "w", "b", "y", "s", *map(str, launch.arguments)])
        return f"{source.text}\n__kernel void tuned({buffers}) {{ {launch.phases[0].entry}({positional}); }}\n"

    def size(settings: Any) -> tuple[int, ...]:
        return implementation.launch(problem, device, configured(settings)).phases[0].global_size

    def allowed(*positional: Any, **keywords: Any) -> bool:
        """Whether a configuration is valid; Kernel Tuner passes positional or keyword arguments."""
        return (positional or tuple(keywords[name] for name in values)) in valid

    work = operation(problem.type)
    shapes, y = work.operands(problem), work.output(problem)
    configurations = list(space)
    zeros = np.zeros(shapes["weights"], np.float32)
    packed = max(implementation.pack(problem, device, entry, zeros).size for entry in configurations)
    scratch = max(implementation.launch(problem, device, entry).workspace for entry in configurations)
    arguments = [np.zeros(max(1, math.prod(shape)), np.float32)
                 for shape in (shapes["x"], (packed,), shapes.get("bias", (0,)), y, (scratch,))]
    options = implementation.source(problem, device, configurations[0]).options
    random.seed(seed)
    np.random.seed(seed)
    start = time.time()
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results, _ = tune_kernel(
            "tuned", text, size, arguments, values, lang="OpenCL", platform=platform, device=opencl_device,
            block_size_names=["work_group"], grid_div_x=[], grid_div_y=[], defines={}, compiler_options=list(options),
            restrictions=[allowed],
            strategy=strategy, strategy_options={"max_fevals": trials}, quiet=True)
    steps: dict[int, Step] = {}
    best, winner = math.inf, None
    for result in results:
        number = recorded.task.number(configured(result))
        steps.setdefault(number, (number, datetime.fromisoformat(result["timestamp"]).timestamp() - start))
        if isinstance(result["time"], int | float) and result["time"] < best:
            best, winner = float(result["time"]), number
    return list(steps.values()), winner


def used() -> list[Device]:
    """The llvm device with the widest vectors and one thread, and the first OpenCL device. Raises DeviceError."""
    from seqtune.tuner.backends.discovery import find

    return [*llvm_devices([1]), find("opencl:0")]


def judged(recorded: RecordedSpace, steps: Sequence[Step], winner: int | None) -> dict[str, Any]:
    """The trials and seconds to each level (None if not reached within the budget), and the share of the winner."""
    shares = best_shares(recorded, [number for number, _ in steps], len(steps))
    scores: dict[str, Any] = {"trials": len(steps), "seconds": steps[-1][1] if steps else 0.0,
                             "share": 0.0 if winner is None else recorded.optimum / float(recorded.seconds[winner])}
    for level in LEVELS:
        trials_below = int((shares < level).sum())
        scores[f"trials_to_{level * 100:.0f}"] = trials_below + 1 if trials_below < len(steps) else None
        scores[f"seconds_to_{level * 100:.0f}"] = steps[trials_below][1] if trials_below < len(steps) else None
    return scores


def runs(trials: int, repeats: int, ours: Sequence[str], theirs: Sequence[str], work: Path,
         backends: Sequence[str]) -> Iterator[Row]:
    """Make a row for each problem, strategy and seed; a run that is stored in WORK is not repeated."""
    from benchmarks.common.peers import PREFIX
    from seqtune.data.dataset import Dataset
    from seqtune.strategy_replay import recorded_spaces

    devices = {device.backend: device for device in used()}
    spaces = {(space.task.device.key, space.space): space
             for space in recorded_spaces(Dataset.shipped(), complete=True, held_out=True)}
    for backend, text in PROBLEMS:
        if backend not in backends:
            continue
        if (devices[backend].key, text) not in spaces:
            raise MisuseError(f"the shipped data set has no times of {text} on {devices[backend].name}; "
                              "run this program on the machine of the data set")
        recorded, device_name = spaces[devices[backend].key, text], devices[backend].name
        methods = list(ours) + [f"{PREFIX}{name}" for name in theirs if backend == "opencl"
                                and len(recorded.task.spaces) == 1]
        for seed in range(repeats):
            for method in methods:
                path = work / f"{device_name} {text} {method} {seed} {trials}.json".replace(":", "-").replace(" ", "_")
                if not path.is_file():
                    print(f"{device_name} {text}: {method}, seed {seed}", file=sys.stderr, flush=True)
                    call = ((peer_searched, recorded, method.removeprefix(PREFIX), trials, seed)
                            if method.startswith(PREFIX) else (searched, recorded, device_name, method, trials, seed))
                    write_json(path, judged(recorded, *_in_new_process(*call)))
                yield {"device": device_name, "problem": text, "method": method, "seed": seed,
                       **json.loads(path.read_text())}


def _in_new_process(*call: Any) -> Run:
    """Call a function in a new process with an empty cache of compiled kernels."""
    with tempfile.TemporaryDirectory(prefix="seqtune-pocl-") as cache, \
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _compile_into, (cache,)) as pool:
        run: Run = pool.submit(*call).result()
        return run


def _compile_into(folder: str) -> None:
    os.environ["POCL_CACHE_DIR"] = folder


def table(rows: Sequence[Row], trials: int) -> str:
    """Make the table, by device and method, with separate lines for the problems that Kernel Tuner searched, too.

    A run that did not reach a level counts as infinite in the medians.
    """
    ran: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        ran.setdefault((row["device"], row["problem"]), set()).add(row["method"])
    lines = []
    for (device, methods) in dict.fromkeys((device, tuple(sorted(names))) for (device, _), names in ran.items()):
        group = [row for row in rows if tuple(sorted(ran[row["device"], row["problem"]])) == methods
                 and row["device"] == device]
        types = "+".join(dict.fromkeys(str(row["problem"]).split()[0] for row in group))
        for method in dict.fromkeys(row["method"] for row in group):
            method_rows = [row for row in group if row["method"] == method]
            cells = [f"{device} {types}", method, f"{sum(row['share'] for row in method_rows) / len(method_rows):.3f}"]
            for level in LEVELS:
                counts = sorted(row[f"trials_to_{level * 100:.0f}"] or math.inf for row in method_rows)
                seconds = sorted(row[f"seconds_to_{level * 100:.0f}"] or math.inf for row in method_rows)
                count, elapsed = counts[len(counts) // 2], seconds[len(seconds) // 2]
                cells.append(f"{count:.0f} ({elapsed:.0f} s)" if count < math.inf else f"> {trials}")
            lines.append([*cells, f"{len(method_rows)}"])
    return markdown(["device", "strategy", "winner's share", "to 95 %", "to 97 %", "to 99 %", "runs"], lines, left=2)


def page(results: Results) -> Page:
    """Make the page of the results."""
    problems = len({(row["device"], row["problem"]) for row in results["rows"]})
    seeded: dict[tuple[str, str], list[float]] = {}
    for row in results["rows"]:
        if row["method"] in ("portfolio", "predictor"):
            seeded.setdefault((row["device"], row["problem"]), []).append(row["trials_to_99"] or math.inf)
    quick = sum(max(trials) <= FEW for trials in seeded.values())
    return Page(
        "live_search", "Live searches",
        f"On {quick} of {problems} held-out problems, the strategies that begin with the translator's proposals "
        f"(`portfolio`, `predictor`) reach 99 % of the best recorded speed within {FEW} trials. No strategy has the "
        "best winner on every device.",
        "python -m benchmarks.live_search --out docs", table(results["rows"], results["trials"]), measured_on(results),
        f"Every run begins with an empty journal and has {results['trials']} trials. `winner's share`: the share of "
        "the best recorded speed that the winner of the search has, as a mean over the runs. `to 95 %`, `97 %`, "
        "`99 %`: the median number of trials (and seconds, with building and checking) until a configuration with this "
        "share was tried. `kt:` marks Kernel Tuner's strategies, which tune the same kernel through its own API.",
        ("There is one run of each problem: a single line shows little more than an example.",
         "The shares are computed from the times of the shipped data set, in which these spaces are complete. The "
         "winner of today can be some per cent slower than the configuration that was fastest in the data set."))


def main() -> None:
    """Run the command line."""
    from benchmarks.common.peers import STRATEGIES, check_installed
    from seqtune.tuner.strategies.table import strategy_factory

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=positive, default=60, help="number of trials of each run")
    parser.add_argument("--repeats", type=positive, default=2, help="number of seeds")
    parser.add_argument("--strategies", default=",".join(OURS), help="our strategies, separated by commas")
    parser.add_argument("--peers", default=",".join(STRATEGIES),
                        help="strategies of Kernel Tuner, separated by commas; may be empty")
    parser.add_argument("--backends", default="llvm,opencl", help="llvm, opencl or both, separated by a comma")
    parser.add_argument("--work", type=Path, help="folder that stores finished runs, so that a second call resumes")
    add_out(parser)
    given = parser.parse_args()
    check_ready(given.out)
    ours, theirs, backends = (parts(text) for text in (given.strategies, given.peers, given.backends))
    for name in ours:
        strategy_factory(name)
    unknown = set(backends) - {backend for backend, _ in PROBLEMS}
    if unknown:
        raise MisuseError(f"unknown backend {min(unknown)!r:.40}; choose llvm or opencl")
    if theirs:
        check_installed()
    with contextlib.ExitStack() as stack:
        work = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        rows = list(runs(given.trials, given.repeats, ours, theirs, work, backends))
    results = {"machine": machine(used()), "trials": given.trials, "rows": rows}
    written = page(results)
    print(f"{written.tables}\n\n{written.measured}")
    publish(given.out, page, results)


if __name__ == "__main__":
    run_program("live_search", main)
