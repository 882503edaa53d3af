"""Measure the data set that ships with seqtune: `python -m benchmarks.shipped_data --journal J.sqlite --out FILE`.

The problems are those of `seqtune.kernels.problem_sets.collected`.

A training problem has `--trials` random configurations measured. A held-out problem has its whole space measured if it
has at most 3,000 configurations (400 on OpenCL), else 1,000 random ones and a local search from the best until it finds
no improvement (on OpenCL 400 in all, half of them random). Suspiciously slow trials are measured again, and the
finalists are measured interleaved. Run the program again to resume; nothing else should run at the same time.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.data.journal import Journal
from seqtune.data.measured_tasks import measured_tasks
from seqtune.data.record import Record
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import ProblemSplit, of_device, problems
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.tune import Budget, Finals, TuningOptions, tune

EXHAUSTIBLE = {"llvm": 3000, "opencl": 400}  # configurations of a space that is measured completely; PoCL builds slowly
SEARCHED = {"llvm": None, "opencl": 400}  # trials in a larger space; None: 1,000 and the local search from the best
MEASURING = Options(longest_seconds=0.03)  # a kernel of 10 ms is less noisy than one of 100 us: fewer samples
AT_LEISURE = Options(samples=6, longest_seconds=0.012, drop_factors=(1e9,))
FINALS, HELD_OUT_FINALS = Finals(count=4, rounds=8), Finals(count=12, rounds=16)
SUSPICIOUS = 0.3  # log of measured over expected time; the next line is for configurations expected to be fast:
SUSPICIOUS_IF_FAST = 0.0  # fast ones decide: a trial of few samples is sometimes wrong by a quarter
FAST = 0.25  # log of expected over best time


def like_sources_together(chosen: Sequence[Problem]) -> list[Problem]:
    """Sort problems so that those with the same kernel source follow each other; a build is then used many times."""
    def kind(problem: Problem) -> tuple[str, ...]:
        names = ("layout", "r", "s", "stride_w") if problem.type == "conv2d" else ("trans_a", "trans_b", "k")
        return (problem.type, *(str(problem[name]) for name in names))
    return sorted(chosen, key=kind)


def collect(device: Device, chosen: ProblemSplit, journal: Journal, trials: int) -> None:
    """Measure the problems on one device, or resume."""
    start = time.monotonic()
    with Runner(device) as runner:
        work = [(one, True) for one in like_sources_together(chosen.held_out)]
        work += [(one, False) for one in like_sources_together(chosen.training)]
        for index, (problem, held_out) in enumerate(work):
            task = Task.of(problem, device)
            if not held_out:
                strategy, budget = "random", Budget(trials=trials)
            elif len(task) <= EXHAUSTIBLE[device.backend]:
                strategy, budget = "random", Budget()  # all, in random order
            else:
                strategy, budget = "local", Budget(trials=SEARCHED[device.backend])
            began = time.monotonic()
            result = tune(task, journal, runner, budget,
                          TuningOptions(strategy, seed=index, measuring=MEASURING, finals=Finals(count=0)))
            best = result.measurement.seconds * 1e6 if result.measurement else float("nan")
            print(f"{device.name} {index + 1}/{len(work)} {'held out' if held_out else 'training'} "
                  f"{problem.brief()}: {result.done} of {len(task)} in {time.monotonic() - began:.1f} s, "
                  f"best {best:.1f} us ({time.monotonic() - start:.0f} s so far)", file=sys.stderr, flush=True)


def suspects(tasks_of_device: Sequence[MeasuredTask]) -> list[tuple[Problem, list[Configuration]]]:
    """Choose the configurations that were much slower than boosted trees, fitted to all trials, expect.

    A configuration that the trees expect to be fast is chosen if it was slower at all. A trial that looks hopeless ends
    after a sample or two, so another process that runs at that moment can make it wrong. These trials are measured
    again with more samples; a slow configuration stays slow.
    """
    trees = Trees(tasks_of_device, TreesOptions(models=1))
    by_problem: dict[Problem, list[Configuration]] = {}
    for measured in tasks_of_device:
        expected = trees.predict(measured.task.spaces)
        surplus = np.nan_to_num(np.log(measured.seconds / measured.best) - expected, nan=-1.0, posinf=-1.0)
        rows = np.flatnonzero(surplus > np.where(expected < FAST, SUSPICIOUS_IF_FAST, SUSPICIOUS))
        if len(rows):
            by_problem[measured.problem] = [measured.task[int(number)] for number in rows]
    return [(problem, by_problem[problem]) for problem in like_sources_together(list(by_problem))]


def again(device: Device, journal: Journal, held_out: Sequence[str]) -> int:
    """Measure the suspects of a device again, without ending any early; the least time counts. Return their number."""
    table = of_one(device, journal, held_out)
    chosen = suspects(all_tasks(table))
    count = sum(len(configurations) for _, configurations in chosen)
    print(f"{device.name}: {count} of {len(table.rows)} trials are measured again", file=sys.stderr, flush=True)
    with Runner(device) as runner:
        for problem, configurations in chosen:
            versions = {kernel.name: kernel.version for kernel in kernels_for(problem, device)}
            for configuration, measurement in runner.measure(problem, configurations, AT_LEISURE):
                journal.add(Record(problem, device.key, versions[configuration.kernel], configuration,
                                   device.toolchain, measurement, time.time(), "again"))
    return count


def finalists(tasks_of_device: Sequence[MeasuredTask],
              held_out: Sequence[str]) -> list[tuple[Problem, list[Configuration]]]:
    """Choose the configurations of each problem with the least times, and for held-out ones also those that boosted
    trees, fitted to all trials, expect to be fastest.

    The least of many trials is lucky: compared with it, the proposals of all methods would look too slow.
    """
    trees = Trees(tasks_of_device, TreesOptions(models=1))
    by_problem: dict[Problem, list[Configuration]] = {}
    for measured in tasks_of_device:
        ran = np.isfinite(measured.seconds)
        count, orders = FINALS.count, [measured.seconds]
        if measured.problem.key in held_out:
            count, orders = HELD_OUT_FINALS.count, [measured.seconds, trees.predict(measured.task.spaces)]
        rows = dict.fromkeys(int(row) for order in orders for row in np.argsort(np.where(ran, order, np.inf))[:count]
                             if ran[row])
        by_problem[measured.problem] = [measured.task[number] for number in rows]
    return [(problem, by_problem[problem]) for problem in like_sources_together(list(by_problem))]


def finals(device: Device, journal: Journal, held_out: Sequence[str]) -> int:
    """Measure the finalists of a device interleaved, in two builds, or resume. Return the number of problems."""
    table = of_one(device, journal, held_out)
    finished = set(table.rows["problem"][table.rows["run"].astype(str) == "final"].astype(str))
    chosen = [one for one in finalists(all_tasks(table), held_out) if one[0].key not in finished]
    print(f"{device.name}: finals of {len(chosen)} problems", file=sys.stderr, flush=True)
    with Runner(device) as runner:
        for problem, configurations in chosen:
            versions = {one.name: one.version for one in kernels_for(problem, device)}
            rounds = (HELD_OUT_FINALS if problem.key in held_out else FINALS).rounds
            for ordered in (configurations, configurations[::-1]):
                for one, measurement in zip(ordered, runner.compare(problem, ordered, rounds, MEASURING), strict=True):
                    journal.add(Record(problem, device.key, versions[one.kernel], one, device.toolchain, measurement,
                                       time.time(), "final"))
    return len(chosen)


def of_one(device: Device, journal: Journal, held_out: Sequence[str]) -> Dataset:
    """The journal's records of one device as a data set."""
    data = Dataset.from_journal(journal, held_out=held_out)
    return replace(data, rows=data.rows[data.rows["device"] == device.key])


def all_tasks(table: Dataset) -> list[MeasuredTask]:
    """All measured tasks of a data set, held out or not."""
    return [*measured_tasks(table, held_out=False), *measured_tasks(table, held_out=True)]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--devices", nargs="+", default=["llvm:0", "opencl:0", "llvm:avx2:2", "llvm:sse:2",
                                                         "llvm:avx512:1"])
    parser.add_argument("--trials", type=int, default=256, help="random configurations of a training problem")
    parser.add_argument("--out", type=Path, help="write all records of the journal to this data set")
    options = parser.parse_args()
    split = problems()
    held_out = [problem.key for problem in split.held_out]
    with Journal(options.journal) as journal:
        for index, name in enumerate(options.devices):
            device = find(name)
            first = name in ("llvm:0", "opencl:0")
            print(f"{index + 1}/{len(options.devices)} {device.key}", file=sys.stderr)
            collect(device, of_device(split, device, first), journal, options.trials)
            again(device, journal, held_out)
            finals(device, journal, held_out)
        if options.out is not None:
            provenance = {"made_by": "python -m benchmarks.shipped_data", "operating_system": platform.system(),
                          "machine": f"{device.model}, {os.cpu_count()} cores"}
            Dataset.from_journal(journal, provenance, held_out).write(options.out)


if __name__ == "__main__":
    main()
