"""Measures the data set that ships with seqtune: `python -m benchmarks.shipped_data --journal J.sqlite --out FILE`.

Problems: ResNet-18, ResNet-50, every other layer of VGG-16, two in three of the transformers' matrix products and
seeded samples (more of them with few channels, with groups or depthwise) to learn from; MobileNet-V2, the rest of these
two and a few samples of their own are held out, and what is near a held-out problem is not learnt from. A problem is
held out on every device or on none.

What is learnt from has a hundred or so random configurations measured; a held-out problem has its whole space measured
where that is up to 3,000 configurations (400 on OpenCL), else 1,000 random ones and a local search from the best until
it runs dry (on OpenCL 400 in all, half of them random before that search). What took suspiciously long is measured
again, and so are, interleaved, the finalists. Run it again to resume; nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.data.journal import Journal
from seqtune.data.measured_tasks import measured_tasks
from seqtune.data.record import Record
from seqtune.kernels.cache_lines import PERIOD
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.tune import Budget, Finals, TuningOptions, tune

EXHAUSTIBLE = {"llvm": 3000, "opencl": 400}  # configurations; PoCL builds slowly
SEARCHED = {"llvm": None, "opencl": 400}  # trials in a larger space; None: 1,000 and the climb from their best
MEASURING = Options(longest_seconds=0.03)  # a kernel of 10 ms is less noisy than one of 100 us: fewer samples
AT_LEISURE = Options(samples=6, longest_seconds=0.012, drop_factors=(1e9,))
FINALS, HELD_OUT_FINALS = Finals(count=4, rounds=8), Finals(count=12, rounds=16)
SUSPICIOUS = 0.3  # log of measured over expected time; of what is expected to be among the fast ones:
SUSPICIOUS_IF_FAST = 0.0  # where choices are made: a trial of few samples is off by a quarter now and then
FAST = 0.25  # log of expected over best time
IMAGES = (1, 3, 4, 6)  # channels
RARE = 32  # problems of a kind that a plain sample has few of: images, groups, planes that share cache sets
LARGEST_ON_SLOW = 6e8  # FLOP of a problem measured on the devices beside the first two


@dataclass(frozen=True)
class Problems:
    """The split: what is learnt from and what is held out."""

    training: tuple[Problem, ...]
    held_out: tuple[Problem, ...]


def problems() -> Problems:
    """The same problems at every call."""
    vgg, products = network("vgg16"), network("transformers")
    held = [*network("mobilenet_v2"), *vgg[::2], *products[1::3]]
    held += sample_problems("conv2d", 8, seed=2, avoid=held) + sample_problems("gemm", 4, seed=2, avoid=held)
    known = [*network("resnet18"), *network("resnet50"), *vgg[1::2],
             *(one for place, one in enumerate(products) if place % 3 != 1)]
    known += sample_problems("conv2d", 96, seed=1, avoid=held) + sample_problems("gemm", 24, seed=1, avoid=held)
    drawn = sample_problems("conv2d", 1200, seed=3, avoid=held)
    known += [one for one in drawn if one["c"] in IMAGES][:RARE] + [one for one in drawn if one["groups"] != 1][:RARE]
    known += [one for one in drawn if one["groups"] == one["c"] != 1][:2 * RARE]
    known += [one for one in drawn if one.size("out_h") * one.size("out_w") % PERIOD == 0 and one["groups"] == 1][:RARE]
    # named problems stay unless they are a held-out one's twin; sampled ones near a held-out one were never drawn
    training = [one for one in dict.fromkeys(known) if one not in held and not any(near(one, other) for other in held)]
    return Problems(tuple(training), tuple(dict.fromkeys(held)))


def of_device(split: Problems, device: Device, first: bool) -> Problems:
    """All of them on the two first devices; on the others the smaller ones, of those held out a third."""
    if first:
        return split
    small = [[one for one in part if one.size("flop") <= LARGEST_ON_SLOW] for part in (split.training, split.held_out)]
    return Problems(tuple(small[0]), tuple(small[1][::3]))


def like_sources_together(chosen: Sequence[Problem]) -> list[Problem]:
    """Problems that share their kernels' sources side by side, so that what is built once is measured many times."""
    def kind(problem: Problem) -> tuple[str, ...]:
        names = ("layout", "r", "s", "stride_w") if problem.type == "conv2d" else ("trans_a", "trans_b", "k")
        return (problem.type, *(str(problem[name]) for name in names))
    return sorted(chosen, key=kind)


def collect(device: Device, chosen: Problems, journal: Journal, trials: int) -> None:
    """Measures on one device; resumes."""
    start = time.monotonic()
    with Runner(device) as runner:
        work = [(one, True) for one in like_sources_together(chosen.held_out)]
        work += [(one, False) for one in like_sources_together(chosen.training)]
        for place, (problem, held_out) in enumerate(work):
            task = Task.of(problem, device)
            if not held_out:
                strategy, budget = "random", Budget(trials=trials)
            elif len(task) <= EXHAUSTIBLE[device.backend]:
                strategy, budget = "random", Budget()  # all, in random order
            else:
                strategy, budget = "local", Budget(trials=SEARCHED[device.backend])
            began = time.monotonic()
            result = tune(task, journal, runner, budget,
                          TuningOptions(strategy, seed=place, measuring=MEASURING, finals=Finals(count=0)))
            best = result.measurement.seconds * 1e6 if result.measurement else float("nan")
            print(f"{device.name} {place + 1}/{len(work)} {'held out' if held_out else 'training'} "
                  f"{problem.brief()}: {result.done} of {len(task)} in {time.monotonic() - began:.1f} s, "
                  f"best {best:.1f} us ({time.monotonic() - start:.0f} s so far)", file=sys.stderr, flush=True)


def suspects(tasks_of_device: Sequence[MeasuredTask]) -> list[tuple[Problem, list[Configuration]]]:
    """Configurations measured much slower than trees, fitted on all of them, would have it, or slower at all where they
    expect them among the fast ones.

    A trial that looks hopeless is dropped after a sample or two, so one that met another process's time slice has an
    invented time. Who is suspected is measured again at leisure; what was slow stays slow.
    """
    trees = Trees(tasks_of_device, TreesOptions(models=1))
    found: dict[Problem, list[Configuration]] = {}
    for measured in tasks_of_device:
        expected = trees.predict(measured.task.spaces)
        surplus = np.nan_to_num(np.log(measured.seconds / measured.best) - expected, nan=-1.0, posinf=-1.0)
        rows = np.flatnonzero(surplus > np.where(expected < FAST, SUSPICIOUS_IF_FAST, SUSPICIOUS))
        if len(rows):
            found[measured.problem] = [measured.task[int(number)] for number in rows]
    return [(problem, found[problem]) for problem in like_sources_together(list(found))]


def again(device: Device, journal: Journal, held_out: Sequence[str]) -> int:
    """Measures the suspects of a device once more, without dropping any early; the least time counts."""
    table = of_one(device, journal, held_out)
    chosen = suspects(every(table))
    count = sum(len(some) for _, some in chosen)
    print(f"{device.name}: {count} of {len(table.rows)} trials are measured again", file=sys.stderr, flush=True)
    with Runner(device) as runner:
        for problem, configurations in chosen:
            versions = {one.name: one.version for one in kernels_for(problem, device)}
            for configuration, measurement in runner.measure(problem, configurations, AT_LEISURE):
                journal.add(Record(problem, device.key, versions[configuration.kernel], configuration,
                                   device.toolchain, measurement, time.time(), "again"))
    return count


def finalists(tasks_of_device: Sequence[MeasuredTask],
              held_out: Sequence[str]) -> list[tuple[Problem, list[Configuration]]]:
    """The configurations with the least trials of each problem; of held-out ones also those that trees, fitted on all
    of them, expect to be fastest. The least of many trials is a lucky one: compared with that, what methods propose
    would always look slow."""
    trees = Trees(tasks_of_device, TreesOptions(models=1))
    found: dict[Problem, list[Configuration]] = {}
    for measured in tasks_of_device:
        ran = np.isfinite(measured.seconds)
        count, orders = FINALS.count, [measured.seconds]
        if measured.problem.key in held_out:
            count, orders = HELD_OUT_FINALS.count, [measured.seconds, trees.predict(measured.task.spaces)]
        rows = dict.fromkeys(int(row) for order in orders for row in np.argsort(np.where(ran, order, np.inf))[:count]
                             if ran[row])
        found[measured.problem] = [measured.task[number] for number in rows]
    return [(problem, found[problem]) for problem in like_sources_together(list(found))]


def finals(device: Device, journal: Journal, held_out: Sequence[str]) -> int:
    """Measures the finalists of a device, interleaved, twice, each time newly built; resumes."""
    table = of_one(device, journal, held_out)
    done = set(table.rows["problem"][table.rows["run"].astype(str) == "final"].astype(str))
    chosen = [one for one in finalists(every(table), held_out) if one[0].key not in done]
    print(f"{device.name}: finals of {len(chosen)} problems", file=sys.stderr, flush=True)
    with Runner(device) as runner:
        for problem, some in chosen:
            versions = {one.name: one.version for one in kernels_for(problem, device)}
            rounds = (HELD_OUT_FINALS if problem.key in held_out else FINALS).rounds
            for ordered in (some, some[::-1]):
                for one, measurement in zip(ordered, runner.compare(problem, ordered, rounds, MEASURING), strict=True):
                    journal.add(Record(problem, device.key, versions[one.kernel], one, device.toolchain, measurement,
                                       time.time(), "final"))
    return len(chosen)


def of_one(device: Device, journal: Journal, held_out: Sequence[str]) -> Dataset:
    """What the journal holds of a device."""
    data = Dataset.from_journal(journal, held_out=held_out)
    return replace(data, rows=data.rows[data.rows["device"] == device.key])


def every(table: Dataset) -> list[MeasuredTask]:
    """Its measured tasks, held out or not."""
    return [*measured_tasks(table, held_out=False), *measured_tasks(table, held_out=True)]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--devices", nargs="+", default=["llvm:0", "opencl:0", "llvm:avx2:2", "llvm:sse:2",
                                                         "llvm:avx512:1"])
    parser.add_argument("--trials", type=int, default=256, help="random configurations of a problem to learn from")
    parser.add_argument("--out", type=Path, help="write the data set here, from all that the journal holds")
    options = parser.parse_args()
    split = problems()
    held_out = [one.key for one in split.held_out]
    with Journal(options.journal) as journal:
        for place, name in enumerate(options.devices):
            device = find(name)
            first = name in ("llvm:0", "opencl:0")
            print(f"{place + 1}/{len(options.devices)} {device.key}", file=sys.stderr)
            collect(device, of_device(split, device, first), journal, options.trials)
            again(device, journal, held_out)
            finals(device, journal, held_out)
        if options.out is not None:
            provenance = {"made_by": "python -m benchmarks.shipped_data", "operating_system": platform.system(),
                          "machine": f"{device.model}, {os.cpu_count()} cores"}
            Dataset.from_journal(journal, provenance, held_out).write(options.out)


if __name__ == "__main__":
    main()
