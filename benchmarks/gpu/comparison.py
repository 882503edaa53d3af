"""Comparison: our proposals beside libraries and compilers, in one process, in turns of a new random order each.

Ours are the safe default, the first proposal, the best of five, the best of five random ones (the same budget), and the
best of a tuning. They are chosen by measurements in a worker; then all contestants take turns, so that a drift of the
clocks affects all. Each is checked against the reference in float64 before it is timed.

On a GPU our kernels are timed by their backend: the GPU's events around each launch, after the second-level cache was
overwritten. PyTorch's calls get the same: the cache is overwritten, which takes longer than the host's part of the
call, and events stand around the call. On a CPU both are timed by the host's clock. The least of the samples counts.
"""

from __future__ import annotations

import importlib
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.common.contest import Contestant
from benchmarks.common.progress import say
from benchmarks.common.report import Row
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Status
from seqtune.errors import DeviceError, KernelError, SeqtuneError, UnavailableError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.task import Task
from seqtune.tuner.backends.backend import Backend, BuildError, LaunchError, open_backend, wall_clock
from seqtune.tuner.backends.discovery import check_present, find
from seqtune.tuner.measuring.runner import Measurer
from seqtune.tuner.measuring.timed_calls import Timed, time_in_rounds
from seqtune.tuner.measuring.timing import Expected, check, prepare
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions

from .measuring import MEASURING, RANDOM, group_of, measure_missing, proposals, task_of
from .peers import heuristics_answer, torch_contestants
from .run import Run, read_run

OURS = ("default", "first proposal", "best of 5", "random of 5", "tuned")
HEURISTICS = "nvidia-matmul-heuristics"
BUDGET = 5  # proposals, and random configurations, that are measured
GPUS = ("cuda", "triton")  # backends of GPUs that PyTorch calls cuda
OVERWRITTEN_BYTES = 512 << 20  # more than any L2, and 0.1 ms of time for the host to get ahead
SAMPLE_SECONDS = 2e-3


@dataclass(frozen=True, slots=True)
class Entry:
    """One of our configurations in a comparison, and the name under which it takes part."""

    device: Device
    method: str
    configuration: Configuration


def compare(run: Run) -> str:
    """Compare on the run's problems, held-out ones first, as far as no earlier call has.

    Raises UnavailableError if no kernel solves any, SeqtuneError if no comparison could be held.
    """
    stored = read_run(run.folder)
    rows, notes = list[Row](stored.get("compared", [])), list[str](stored.get("notes", []))
    compared = {row["problem"] for row in rows}
    held_out = run.options.problems.held_out
    problems = sorted(run.options.problems.ordered, key=lambda problem: problem.key not in held_out)
    tasks: list[Task] = []
    for problem in filter(run.gpu.can_measure, problems):
        if len(tasks) < run.options.compared and (task := task_of(run, problem)) is not None:
            tasks.append(task)
    if not tasks:
        raise UnavailableError(f"no kernel family solves these problems on {run.device.name}")
    with run.journal() as journal, run.gpu.measurer() as measurer:
        for number, task in enumerate(tasks, 1):
            if task.problem.key in compared:
                continue
            if not run.left:
                break
            try:
                more = _compare_one(run, journal, measurer, task, notes)
            except (SeqtuneError, BrokenProcessPool) as error:
                notes.append(f"{task.problem.brief()}: {error or 'the process of the comparison died'}")
            else:
                rows += more
                compared.add(task.problem.key)
                say(f"  {number} of {len(tasks)}: {task.problem.brief()}")
            notes = list(dict.fromkeys(notes))
            run.store({"compared": rows, "notes": notes})
    if not rows:
        raise SeqtuneError("; ".join(notes[:3]) or "there was no time for a comparison")
    return f"{len(compared)} of {len(tasks)} problems compared"


def _compare_one(run: Run, journal: Journal, measurer: Measurer, task: Task, notes: list[str]) -> list[Row]:
    """Choose our contestants of a problem and compare them with its peers; returns a row for each contestant.

    `compiled` in each row says whether torch.compile was asked to take part. On a CPU it is not: there it would be
    oneDNN again, where on a GPU its templates are a peer.
    """
    problem, on_gpu = task.problem, run.device.backend in GPUS
    compiled = run.options.with_compiler and on_gpu
    if run.gpu.simulated:
        chosen = ours(run, journal, measurer, task)
        answers = measurer.compare(problem, list(chosen.values()), run.options.rounds, MEASURING)
        rows = [{"problem": problem.key, "method": method, "seconds": answer.seconds, "error": answer.error}
                for method, answer in zip(chosen, answers, strict=True) if math.isfinite(answer.seconds)]
    else:
        with _own_process(import_torch=on_gpu) as process:
            entries = [Entry(run.device, method, configuration)
                       for method, configuration in ours(run, journal, measurer, task).items()]
            entries += _heuristics_entries(run, problem, notes)
            rows, more = process.submit(take_turns, problem, entries, run.options.rounds, compiled).result()
        notes += more
    return [{**row, "group": group_of(problem), "compiled": compiled} for row in rows]


def ours(run: Run, journal: Journal, measurer: Measurer, task: Task) -> dict[str, Configuration]:
    """Choose our contestants by measuring: method -> configuration, without those that did not run."""
    def fastest(known: Mapping[Configuration, Measurement]) -> Configuration | None:
        ran = {key: value.seconds for key, value in known.items() if math.isfinite(value.seconds)}
        return min(ran, key=lambda key: ran[key]) if ran else None

    generator = np.random.default_rng(zlib.crc32(f"random {task.problem.key}".encode()))
    numbers = generator.choice(len(task), min(BUDGET, len(task)), replace=False)
    proposed = proposals(run, task, BUDGET)
    known = measure_missing(run, journal, measurer, task.problem, proposed, MEASURING, "proposal")
    drawn = measure_missing(run, journal, measurer, task.problem, [task[int(number)] for number in numbers], MEASURING,
                            RANDOM)
    tuned = tune(task, journal, measurer, Budget(run.options.trials, max(1.0, run.left)), TuningOptions(
        "portfolio", measuring=MEASURING, finals=Finals(count=3, rounds=8), seeds=lambda _: proposed))
    chosen = zip(OURS, (task.default, proposed[0] if proposed else None, fastest(known), fastest(drawn),
                        tuned.configuration), strict=True)
    return {method: configuration for method, configuration in chosen if configuration is not None}


def _heuristics_entries(run: Run, problem: Problem, notes: list[str]) -> list[Entry]:
    """The first answer of nvidia-matmul-heuristics as a configuration of our Triton kernel; empty without either."""
    if problem.type != "gemm" or run.device.backend not in GPUS:
        return []
    try:
        device = find("triton:0")
        check_present(device)
        answer = heuristics_answer(problem, run.device.model)
        default = Task.of(problem, device).default
    except (DeviceError, UnavailableError, KernelError) as error:
        notes.append(f"{HEURISTICS} is left out: {one_line(error)}")
        return []
    settings = {name: answer.get(name, value) for name, value in default.settings}  # also outside of our space
    return [Entry(device, HEURISTICS, Configuration.of(default.kernel, settings))]


@contextmanager
def _own_process(import_torch: bool) -> Iterator[ProcessPoolExecutor]:
    """A process for one comparison: a kernel that fails would spoil the context of the next one.

    For a GPU it imports PyTorch while our contestants are chosen; on a CPU that would disturb their measurements.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        if import_torch:
            process.submit(importlib.import_module, "torch")
        yield process


def take_turns(problem: Problem, entries: Sequence[Entry], rounds: int, compiled: bool) -> tuple[list[Row], list[str]]:
    """Time our entries and PyTorch's operations; returns their rows, and notes about those that are left out.

    `compiled` says whether torch.compile takes part.
    """
    operands, expected = prepare(problem)
    torch_device = "cuda" if any(entry.device.backend in GPUS for entry in entries) else "cpu"
    contestants, notes = torch_contestants(problem, operands, expected, torch_device, compiled)
    clock = _gpu_clock() if torch_device == "cuda" else lambda call: partial(wall_clock, call)
    timed = {contestant.method: clock(contestant.run) for contestant in contestants}
    backends: dict[str, Backend] = {}
    with ExitStack() as stack:
        for entry in entries:
            if entry.device.key not in backends:
                backends[entry.device.key] = backend = open_backend(entry.device)
                stack.callback(backend.close)
            try:
                contestant, time = _our_contestant(stack, backends[entry.device.key], problem, entry, operands,
                                                   expected)
            except (BuildError, LaunchError) as error:
                notes.append(f"{problem.brief()}: {entry.method} is left out: {one_line(error)}")
            else:
                contestants.append(contestant)
                timed[entry.method] = time
        seconds = {method: min(samples)
                   for method, samples in time_in_rounds(timed, rounds, SAMPLE_SECONDS).items()}
    return [{"problem": problem.key, "method": contestant.method, "seconds": seconds[contestant.method],
             "error": contestant.error, **contestant.details} for contestant in contestants], notes


def _our_contestant(stack: ExitStack, backend: Backend, problem: Problem, entry: Entry, operands: Operands,
                    expected: Expected) -> tuple[Contestant, Timed]:
    """Build a configuration and check its result. Raises BuildError, LaunchError (also for a wrong result)."""
    configuration = entry.configuration
    executable = backend.build(problem, kernel(configuration.kernel), configuration)
    stack.callback(executable.close)
    checked, _ = check(executable, operands, expected)
    if checked.status is not Status.CORRECT or checked.error is None:
        raise LaunchError(checked.message)
    return Contestant(entry.method, executable.run, checked.error, {
        "kernel": configuration.kernel, "configuration": dict(configuration.settings)}), executable.time


def _gpu_clock() -> Callable[[Callable[[], Any]], Timed]:
    """The clock for PyTorch's calls on a GPU."""
    import torch

    event: Any = torch.cuda.Event
    scratch = torch.empty(OVERWRITTEN_BYTES, dtype=torch.uint8, device="cuda")

    def timed(call: Callable[[], Any], launches: int) -> float:
        pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(launches)]
        for begin, end in pairs:
            scratch.zero_()
            begin.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return float(sum(begin.elapsed_time(end) for begin, end in pairs)) / 1e3  # milliseconds

    return lambda call: partial(timed, call)
