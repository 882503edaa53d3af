"""Search strategies at work: `python -m benchmarks.live_search [--out docs]`.

Every strategy tunes the same held-out problems on this machine, each run in a process of its own with an empty journal
and an empty cache of compiled kernels; on OpenCL products Kernel Tuner tunes the same kernel through its own API. Runs
take turns: all strategies with one seed, then with the next. A strategy sees what it measures; it is judged by the
shipped recordings, in which these spaces are complete: by the share of the best recorded speed that the best of what it
has tried so far has there, and at the end by that of the winner: after the finals of `tune`, or what measured fastest
in Kernel Tuner. Seconds are of the clock, from the call on, building and checking included. Kernel Tuner is given no
reference result and checks none; ours compare every result.
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
Step = tuple[int, float]  # number of a configuration in the recorded spaces, seconds since the call
Run = tuple[list[Step], int | None]  # and the winner's number


def searched(recorded: RecordedSpace, place: str, strategy: str, trials: int, seed: int) -> Run:
    """One of our strategies, as `seqtune tune` runs it. Called in a fresh process."""
    from seqtune.api import tune

    steps: list[Step] = []
    begin = time.monotonic()

    def note(step: Any) -> None:
        steps.append((recorded.task.number(step.configuration), time.monotonic() - begin))

    with tempfile.TemporaryDirectory(prefix="seqtune-") as folder:
        report = tune(recorded.task.problem, place, strategy=strategy, trials=trials, seed=seed,
                      journal=Path(folder) / "trials.sqlite", progress=note)
    winner = report.results[0].best
    return steps, None if winner is None else recorded.task.number(winner)


def peer_searched(recorded: RecordedSpace, strategy: str, trials: int, seed: int) -> Run:
    """One of Kernel Tuner's, on the kernel text that ours would build. Called in a fresh process."""
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
    device = next(one for one in devices() if one.key == space.device.key)  # which also repairs PoCL
    there = {one: (p, d) for p, platform in enumerate(load().get_platforms())
             for d, one in enumerate(platform.get_devices())}
    platform, place = there[handle(device.name)]
    assert kernel.implementation is not None
    implementation: Implementation = resolve(kernel.implementation)  # type: ignore[assignment]
    values = {one.name: list(one.values) for one in kernel.parameters}
    valid = {tuple(value for _, value in configuration.settings) for configuration in space}

    def configured(settings: Any) -> Configuration:
        return Configuration(kernel.name, tuple((name, settings[name]) for name in values))

    def text(settings: Any) -> str:
        """The kernel, and one that calls it with the numbers of this launch: its arguments are the same for all."""
        source = implementation.source(problem, device, configured(settings))
        launch = implementation.launch(problem, device, configured(settings))
        buffers = "__global float *x, __global float *w, __global float *b, __global float *y, __global float *s"
        given = ", ".join(["x", "w", "b", "y", "s", *map(str, launch.arguments)])
        return f"{source.text}\n__kernel void tuned({buffers}) {{ {launch.phases[0].entry}({given}); }}\n"

    def size(settings: Any) -> tuple[int, ...]:
        return implementation.launch(problem, device, configured(settings)).phases[0].global_size

    def allowed(*given: Any, **named: Any) -> bool:
        """It asks in both ways."""
        return (given or tuple(named[name] for name in values)) in valid

    work = operation(problem.type)
    shapes, y = work.operands(problem), work.output(problem)
    every = list(space)
    zeros = np.zeros(shapes["weights"], np.float32)
    packed = max(implementation.pack(problem, device, one, zeros).size for one in every)
    scratch = max(implementation.launch(problem, device, one).workspace for one in every)
    arguments = [np.zeros(max(1, math.prod(shape)), np.float32)
                 for shape in (shapes["x"], (packed,), shapes.get("bias", (0,)), y, (scratch,))]
    options = implementation.source(problem, device, every[0]).options
    random.seed(seed)
    np.random.seed(seed)
    begin = time.time()
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results, _ = tune_kernel(
            "tuned", text, size, arguments, values, lang="OpenCL", platform=platform, device=place,
            block_size_names=["work_group"], grid_div_x=[], grid_div_y=[], defines={}, compiler_options=list(options),
            restrictions=[allowed],
            strategy=strategy, strategy_options={"max_fevals": trials}, quiet=True)
    steps: dict[int, Step] = {}
    best, winner = math.inf, None
    for result in results:
        number = recorded.task.number(configured(result))
        steps.setdefault(number, (number, datetime.fromisoformat(result["timestamp"]).timestamp() - begin))
        if isinstance(result["time"], int | float) and result["time"] < best:
            best, winner = float(result["time"]), number
    return list(steps.values()), winner


def used() -> list[Device]:
    """One thread of the widest vectors, and the first OpenCL device. Raises DeviceError."""
    from seqtune.tuner.backends.discovery import find

    return [*llvm_devices([1]), find("opencl:0")]


def judged(recorded: RecordedSpace, steps: Sequence[Step], winner: int | None) -> dict[str, Any]:
    """Trials and seconds to each level (None: not within the budget), and the winner's share."""
    shares = best_shares(recorded, [number for number, _ in steps], len(steps))
    found: dict[str, Any] = {"trials": len(steps), "seconds": steps[-1][1] if steps else 0.0,
                             "share": 0.0 if winner is None else recorded.optimum / float(recorded.seconds[winner])}
    for level in LEVELS:
        there = int((shares < level).sum())
        found[f"trials_to_{level * 100:.0f}"] = there + 1 if there < len(steps) else None
        found[f"seconds_to_{level * 100:.0f}"] = steps[there][1] if there < len(steps) else None
    return found


def runs(trials: int, repeats: int, ours: Sequence[str], theirs: Sequence[str], work: Path,
         backends: Sequence[str]) -> Iterator[Row]:
    """One row per problem, strategy and seed; what WORK has is not run again."""
    from benchmarks.common.peers import PREFIX
    from seqtune.data.dataset import Dataset
    from seqtune.strategy_replay import recorded_spaces

    places = {device.backend: device for device in used()}
    known = {(one.task.device.key, one.space): one
             for one in recorded_spaces(Dataset.shipped(), complete=True, held_out=True)}
    for backend, text in PROBLEMS:
        if backend not in backends:
            continue
        if (places[backend].key, text) not in known:
            raise MisuseError(f"{text} is not recorded on {places[backend].name}, which is another device than ours")
        recorded, place = known[places[backend].key, text], places[backend].name
        methods = list(ours) + [f"{PREFIX}{name}" for name in theirs if backend == "opencl"
                                and len(recorded.task.spaces) == 1]
        for seed in range(repeats):
            for method in methods:
                path = work / f"{place} {text} {method} {seed} {trials}.json".replace(":", "-").replace(" ", "_")
                if not path.is_file():
                    print(f"{place} {text}: {method}, seed {seed}", file=sys.stderr, flush=True)
                    call = ((peer_searched, recorded, method.removeprefix(PREFIX), trials, seed)
                            if method.startswith(PREFIX) else (searched, recorded, place, method, trials, seed))
                    write_json(path, judged(recorded, *_apart(*call)))
                yield {"device": place, "problem": text, "method": method, "seed": seed,
                       **json.loads(path.read_text())}


def _apart(*call: Any) -> Run:
    """In a process of its own that shares no compiled kernel with others."""
    with tempfile.TemporaryDirectory(prefix="seqtune-pocl-") as cache, \
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _compile_into, (cache,)) as pool:
        found: Run = pool.submit(*call).result()
        return found


def _compile_into(folder: str) -> None:
    os.environ["POCL_CACHE_DIR"] = folder


def table(rows: Sequence[Row], trials: int) -> str:
    """A line per device and method, apart for the problems that Kernel Tuner searched, too: the winners' mean share;
    median trials and seconds, where a run that never came there counts as endless."""
    ran: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        ran.setdefault((row["device"], row["problem"]), set()).add(row["method"])
    lines = []
    for (place, methods) in dict.fromkeys((place, tuple(sorted(names))) for (place, _), names in ran.items()):
        there = [row for row in rows if tuple(sorted(ran[row["device"], row["problem"]])) == methods
                 and row["device"] == place]
        types = "+".join(dict.fromkeys(str(row["problem"]).split()[0] for row in there))
        for method in dict.fromkeys(row["method"] for row in there):
            mine = [row for row in there if row["method"] == method]
            cells = [f"{place} {types}", method, f"{sum(row['share'] for row in mine) / len(mine):.3f}"]
            for level in LEVELS:
                counts = sorted(row[f"trials_to_{level * 100:.0f}"] or math.inf for row in mine)
                seconds = sorted(row[f"seconds_to_{level * 100:.0f}"] or math.inf for row in mine)
                count, clock = counts[len(counts) // 2], seconds[len(seconds) // 2]
                cells.append(f"{count:.0f} ({clock:.0f} s)" if count < math.inf else f"> {trials}")
            lines.append([*cells, f"{len(mine)}"])
    return markdown(["device", "strategy", "winner's share", "to 95 %", "to 97 %", "to 99 %", "runs"], lines, left=2)


def page(found: Results) -> Page:
    """The page of the result."""
    runs_of = len({(row["device"], row["problem"]) for row in found["rows"]})
    return Page(
        "live_search", "Strategies at work",
        f"With an empty journal, the strategies that begin with the translator's proposals (`portfolio`, `predictor`) "
        f"are near the recorded winner after few trials on most of {runs_of} held-out problems, but no strategy wins "
        "on every device.",
        "python -m benchmarks.live_search --out docs", table(found["rows"], found["trials"]), measured_on(found),
        f"Every run has {found['trials']} trials. `winner's share`: the mean share of the recorded winner's speed. "
        "`to 95 %`, `97 %`, `99 %`: the median number of trials (and seconds, with building and checking) until "
        "something as fast was tried. `kt:` are Kernel Tuner's strategies, which tune the same kernel through its own "
        "API.",
        ("One run of each problem, so a single line is little more than an anecdote.",
         "The judge is the shipped recording, in which these spaces are complete; what wins today can be some per cent "
         "slower than what was fastest when it was recorded."))


def main() -> None:
    """The command."""
    from benchmarks.common.peers import STRATEGIES, check_installed
    from seqtune.tuner.strategies.table import strategy_factory

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=positive, default=60, help="of each run")
    parser.add_argument("--repeats", type=positive, default=2, help="seeds")
    parser.add_argument("--strategies", default=",".join(OURS), help="some of ours")
    parser.add_argument("--peers", default=",".join(STRATEGIES), help="some of Kernel Tuner's; may be empty")
    parser.add_argument("--backends", default="llvm,opencl", help="one or both")
    parser.add_argument("--work", type=Path, help="folder that keeps finished runs, so that a second call goes on")
    add_out(parser)
    given = parser.parse_args()
    check_ready(given.out)
    ours, theirs, backends = (parts(text) for text in (given.strategies, given.peers, given.backends))
    for name in ours:
        strategy_factory(name)
    unknown = set(backends) - {backend for backend, _ in PROBLEMS}
    if unknown:
        raise MisuseError(f"no problem is for the backend {min(unknown)!r:.40}")
    if theirs:
        check_installed()
    with contextlib.ExitStack() as stack:
        work = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        rows = list(runs(given.trials, given.repeats, ours, theirs, work, backends))
    found = {"machine": machine(used()), "trials": given.trials, "rows": rows}
    made = page(found)
    print(f"{made.tables}\n\n{made.measured}")
    publish(given.out, page, found)


if __name__ == "__main__":
    run_program("live_search", main)
