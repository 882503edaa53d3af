"""Peer slices: libraries and compilers beside our proposals, in one process, in turns of a new random order each.

Ours are the safe default, the first proposal, the best of five, the best of five random ones (the same budget), and the
best of a tuning. They are chosen by measurements in a worker; then all contestants take turns, so that a drift of the
clocks affects all. The figure is the ratio of times: the fastest peer's divided by ours.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from benchmarks.gpu.choices import proposals, random_choices, task_of
from benchmarks.gpu.collecting import MEASURING, measure
from benchmarks.gpu.contests.contest import GPUS, Entry, contest, stand_in_contest
from benchmarks.gpu.contests.heuristics import first_answer
from benchmarks.gpu.contests.ratios import OURS, summary
from benchmarks.gpu.day import Day
from benchmarks.gpu.devices import triton_device
from benchmarks.gpu.shapes import convolutions, products
from benchmarks.gpu.slices import SliceOutcome
from seqtune.data.journal import Journal
from seqtune.data.record import Measurement
from seqtune.errors import KernelError, SeqtuneError, UnavailableError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.tune import Budget, Finals, TuningOptions, tune

BUDGET = 5  # proposals, and random configurations, that are measured
PEER_OF_TRITON = "nvidia-matmul-heuristics"


def gemm(day: Day, name: str) -> SliceOutcome:
    """Compare matrix products in bf16 and fp16 in turn: held-out shapes."""
    both = zip(*(held_out(products(dtype, day.sizes.shapes)) for dtype in ("bf16", "fp16")), strict=False)
    return compare(day, name, [problem for pair in both for problem in pair])


def conv(day: Day, name: str) -> SliceOutcome:
    """Compare ResNet-50's convolutions in fp32 and fp16 in turn, held-out ones first."""
    def ordered(dtype: str) -> list[Problem]:
        chosen = convolutions(dtype, day.sizes.batches, day.sizes.layers)
        return sorted(chosen.ordered, key=lambda problem: problem.key not in chosen.held_out)

    both = zip(*(ordered(dtype) for dtype in ("fp32", "fp16")), strict=True)
    return compare(day, name, [problem for pair in both for problem in pair])


def held_out(problems: Any) -> list[Problem]:
    """The held-out problems in the order of measuring."""
    return [problem for problem in problems.ordered if problem.key in problems.held_out]


def compare(day: Day, name: str, problems: list[Problem]) -> SliceOutcome:
    """Compare on the problems that no earlier turn has compared. Raises UnavailableError if no kernel solves any."""
    rows: list[dict[str, Any]] = list((day.result(name) or {}).get("rows", []))
    compared = {row["problem"] for row in rows}
    wanted = [problem for problem in problems if task_of(problem, day.device) is not None][:day.sizes.peer_problems]
    if not wanted:
        raise UnavailableError(f"no kernel family solves these problems on {day.device.name}")
    notes: list[str] = []
    finished = True
    with day.journal(name) as journal, day.measurer(day.device) as measurer:
        journal.add_device(day.device)
        for problem in wanted:
            if problem.key in compared:
                continue
            if not day.left:
                finished = False
                break
            try:
                with contest_process(day) as process:
                    entries = [Entry(day.device, label, configuration) for label, configuration in
                               ours(day, journal, measurer, Task.of(problem, day.device)).items()]
                    entries += triton_entries(day, problem, notes)
                    rows += in_turns(day, process, problem, entries, notes)
            except (SeqtuneError, BrokenProcessPool) as error:
                notes.append(f"{problem.brief()}: {error or 'the process of the contest died'}")
            day.write_result(name, {"rows": rows, "summary": summary(rows), "notes": notes})
    if not rows:
        raise SeqtuneError("; ".join(notes[:3]) or "no contest was held")
    parts = summary(rows)
    text = "; ".join(f"{label}, {part['problems']} problems: " + ", ".join(
        f"{method} {value:.2f}x" for method, value in part["means"].items()) for label, part in parts.items())
    return SliceOutcome(finished, f"time of the fastest peer / ours {text}",
                        {"rows": rows, "summary": parts, "notes": notes})


def ours(day: Day, journal: Journal, measurer: Measurer, task: Task) -> dict[str, Configuration]:
    """Choose our contestants by measuring: label -> configuration, without those that did not run."""
    def fastest(known: Mapping[Configuration, Measurement]) -> Configuration | None:
        ran = {key: value.seconds for key, value in known.items() if math.isfinite(value.seconds)}
        return min(ran, key=lambda key: ran[key]) if ran else None

    trained = day.folder / "checkpoint"
    proposed = proposals(task, BUDGET, trained) if trained.exists() else proposals(task, BUDGET)
    known = measure(day, journal, measurer, task.problem, proposed, MEASURING, "proposal")
    drawn = measure(day, journal, measurer, task.problem, random_choices(task, BUDGET), MEASURING)
    tuned = tune(task, journal, measurer, Budget(day.sizes.trials, max(1.0, day.left)),
                 TuningOptions("portfolio", measuring=MEASURING, finals=Finals(count=3, rounds=8),
                               seeds=lambda _: proposed))
    chosen = zip(OURS, (task.default, proposed[0] if proposed else None, fastest(known), fastest(drawn),
                        tuned.configuration), strict=True)
    return {label: configuration for label, configuration in chosen if configuration is not None}


def triton_entries(day: Day, problem: Problem, notes: list[str]) -> list[Entry]:
    """The first answer of nvidia-matmul-heuristics as a configuration of our Triton kernel; empty without either."""
    if problem.type != "gemm" or day.dry:
        return []
    try:
        device = triton_device(day)
        answer = first_answer(problem, day.device.model)
        default = Task.of(problem, device).default
    except (UnavailableError, KernelError) as error:
        if str(error) not in notes:
            notes.append(str(error))
        return []
    settings = {name: answer.get(name, value) for name, value in default.settings}  # also outside of our space
    return [Entry(device, PEER_OF_TRITON, Configuration.of(default.kernel, settings))]


@contextmanager
def contest_process(day: Day) -> Iterator[ProcessPoolExecutor | None]:
    """A process for one contest: a kernel that fails would spoil the context of the next one. None in a dry run.

    For a GPU it imports PyTorch while our contestants are chosen; on a CPU that would disturb their measurements.
    """
    if day.dry:
        yield None
        return
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        if on_gpu(day):
            process.submit(importlib.import_module, "torch")
        yield process


def in_turns(day: Day, process: ProcessPoolExecutor | None, problem: Problem, entries: list[Entry],
             notes: list[str]) -> list[dict[str, Any]]:
    """Hold the contest in a process. `compiled` in each row says whether torch.compile was asked to take part.

    On a CPU it is not: there it would be oneDNN again, where on a GPU its templates are a peer.
    """
    compiled = day.sizes.compiled_peers and on_gpu(day)
    if process is None:
        rows = stand_in_contest(problem, entries, compiled)
    else:
        rows, more = process.submit(contest, problem, entries, day.sizes.rounds, compiled).result()
        notes += more
    return [{**row, "compiled": compiled} for row in rows]


def on_gpu(day: Day) -> bool:
    """Whether the day's device is a GPU that PyTorch and its compiler know, too."""
    return day.device.backend in GPUS
