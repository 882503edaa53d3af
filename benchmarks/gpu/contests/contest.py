"""Contests on one problem: our configurations and PyTorch's operations in one process, in turns.

Everything is checked against the reference before it is timed (`benchmarks.gpu.contests.turns`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.common.contest import Contestant
from benchmarks.gpu.contests.torch_peers import peers_of, torch_contestants
from benchmarks.gpu.contests.turns import Clocked, clock_of, take_timed_turns
from seqtune.data.record import Status
from seqtune.errors import one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.backend import Backend, BuildError, LaunchError, open_backend
from seqtune.tuner.measuring.timing import Expected, check, prepare

GPUS = ("cuda", "triton")  # backends of GPUs that PyTorch calls cuda


@dataclass(frozen=True, slots=True)
class Entry:
    """One of our configurations in a contest, and the name under which it takes part."""

    device: Device
    method: str
    configuration: Configuration


def contest(problem: Problem, entries: Sequence[Entry], rounds: int,
            compiled: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Hold a contest; returns a row for each contestant, and notes about those that are left out.

    `compiled` says whether torch.compile takes part, whose autotuning takes half a minute.
    """
    operands, expected = prepare(problem)
    torch_device = "cuda" if any(entry.device.backend in GPUS for entry in entries) else "cpu"
    peers, notes = torch_contestants(problem, operands, expected, torch_device, compiled)
    clock = clock_of(torch_device)
    contestants = [Clocked(peer, clock(peer.run)) for peer in peers]
    backends: dict[str, Backend] = {}
    with ExitStack() as stack:
        for entry in entries:
            if entry.device.key not in backends:
                backends[entry.device.key] = backend = open_backend(entry.device)
                stack.callback(backend.close)
            try:
                contestants.append(our_contestant(stack, backends[entry.device.key], problem, entry, operands,
                                                  expected))
            except (BuildError, LaunchError) as error:
                notes.append(f"{problem.brief()}: {entry.method} is left out: {one_line(error)}")
        seconds = take_timed_turns(contestants, rounds)
    return rows_of_contest(problem, [entry.contestant for entry in contestants], seconds), notes


def our_contestant(stack: ExitStack, backend: Backend, problem: Problem, entry: Entry, operands: Operands,
                   expected: Expected) -> Clocked:
    """Build a configuration and check its result. Raises BuildError, LaunchError (also for a wrong result)."""
    configuration = entry.configuration
    executable = backend.build(problem, kernel(configuration.kernel), configuration)
    stack.callback(executable.close)
    checked, _ = check(executable, operands, expected)
    if checked.status is not Status.CORRECT or checked.error is None:
        raise LaunchError(checked.message)
    return Clocked(Contestant(entry.method, executable.run, checked.error, {
        "kernel": configuration.kernel, "configuration": dict(configuration.settings)}), executable.time)


def rows_of_contest(problem: Problem, contestants: Sequence[Contestant],
                    seconds: dict[str, float]) -> list[dict[str, Any]]:
    """A row for each contestant."""
    return [{"problem": problem.key, "method": contestant.method, "seconds": seconds[contestant.method],
             "gflops": round(problem.size("flop") / seconds[contestant.method] / 1e9, 1), "error": contestant.error,
             **contestant.details} for contestant in contestants]


def stand_in_contest(problem: Problem, entries: Sequence[Entry], compiled: bool) -> list[dict[str, Any]]:
    """The rows of a dry run's contest, with invented times; each row says that it is a stand-in."""
    methods = [*peers_of(problem, compiled), *(entry.method for entry in entries)]
    return [{"problem": problem.key, "method": method, "stand_in": True,
             "seconds": 1e-5 * (1 + zlib.crc32(f"{problem.key} {method}".encode()) / 2**32)} for method in methods]
