"""Threads: a pool of pinned threads that run compiled phases. They wake within microseconds and sleep when idle.

The caller is thread 0. The others are Python threads inside a compiled loop (ctypes releases the interpreter lock):
they spin on a generation counter for a moment and then sleep on it (a futex on Linux, 0.1 ms at a time elsewhere).
Systems without pinning (macOS, Windows) choose the cores themselves.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.files import sections
from seqtune.kernels.llvm.launch import Launch
from seqtune.kernels.operations.operation import MOST_OPERANDS

from ...processes import unpinned
from .arm_features import is_arm
from .compiler import CompiledModule, Compiler
from .cores import usable_cpus

SPINS = 4000  # pauses before a thread sleeps: some tens of microseconds
# Indices of the words in the state; those that different threads write are on different cache lines.
_GENERATION, _SLEEPERS, _FINISHED, _JOB, _PHASE, _THREADS, _WORDS = 0, 16, 32, 48, 49, 50, 64

_pins = 0  # number of pools that pin the calling thread
# The CPU of the calling thread, where the system tells it
_cpu: Any = getattr(ctypes.PyDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None

_PARTS = sections(__file__, "threads.ll")
SHARE = _PARTS["share"].rstrip("\n")  # IR of `share`, which runs one thread's part of one phase of a job
# What ends a thread's turn, and what sleeps 0.1 ms (on Windows, which counts in milliseconds, 1 ms), elsewhere than on
# Linux: system -> name of the function, declaration, call.
_YIELDS = {"Windows": ("SwitchToThread", "declare i32 @Sleep(i32)", "call i32 @Sleep(i32 1)")}
_POSIX = ("sched_yield", "declare i32 @usleep(i32)", "call i32 @usleep(i32 100)")


def pool_text(system: str, machine: str) -> str:
    """The IR of the pool's functions on an operating system and a machine, as `platform` names them."""
    arm = is_arm(machine)
    pause = '"yield", ""' if arm else '"pause", ""'
    turn, declarations, wait = _YIELDS.get(system, _POSIX)
    wake = "add i32 0, 0"
    if system == "Linux":
        number = 98 if arm else 202
        call = "call i64 (i64, ...) @syscall(i64 {0}, ptr %state, i64 {1}, i64 {2}, ptr null, ptr null, i64 0)"
        declarations = "declare i64 @syscall(i64, ...)"
        wait, wake = call.format(number, 128, "%seen"), call.format(number, 129, 2147483647)
    declarations += f"\ndeclare i32 @{turn}()"
    words = "".join(
        f"  %{name} = getelementptr i64, ptr %state, i64 {index}\n" for name, index in (
            ("sleepers", _SLEEPERS), ("finished", _FINISHED), ("job_p", _JOB), ("phase_p", _PHASE),
            ("threads_p", _THREADS)))
    return Template(_PARTS["pool"]).substitute(
        share=SHARE, declarations=declarations, words=words, wait=wait, wake=wake, turn=turn, pause=pause, spins=SPINS)


class Threads:
    """A pool of `count` threads, one of which is the thread that calls it; one thread may call it at a time.

    With `pins_caller`, the pool pins the thread that creates it, which then is the only one that calls it, until
    `close`. Without it any thread may call it and keeps its CPUs: pinning one for its call alone costs up to a tenth
    of a short kernel's speed. Only a caller that the system has put on another thread's CPU, where both would share
    it, is moved to the first. A forked process has none of the other threads: its own one runs all.
    """

    def __init__(self, compiler: Compiler, count: int, pins_caller: bool = True) -> None:
        global _pins
        self.count = count
        cpus = usable_cpus()
        self._pins_caller = pins_caller and hasattr(os, "sched_setaffinity")
        self._first = cpus[0]
        self._taken = frozenset(() if pins_caller or _cpu is None else cpus[1:count])  # CPUs that no caller should keep
        if self._pins_caller:
            if not _pins:
                unpinned.update(os.sched_getaffinity(0))
            _pins += 1
            os.sched_setaffinity(0, {cpus[0]})
        self._module, _ = compiler.build(pool_text(platform.system(), platform.machine()))
        raw = np.zeros(_WORDS + 8, np.int64)
        self._state = raw[(-raw.ctypes.data % 64) // 8:][:_WORDS]
        self._state[_THREADS] = count
        self._process = os.getpid()
        self._address = self._state.ctypes.data
        pointer = ctypes.c_void_p
        self._launch = ctypes.CFUNCTYPE(None, pointer, pointer)(self._module.address("launch"))
        self._wake = ctypes.CFUNCTYPE(None, pointer)(self._module.address("wake"))
        self._work = ctypes.CFUNCTYPE(None, pointer, ctypes.c_int64, ctypes.c_int64)(self._module.address("work"))
        self._workers = [
            threading.Thread(target=self._run_worker, args=(index, cpus[index % len(cpus)]), daemon=True)
            for index in range(1, count)]
        for worker in self._workers:
            worker.start()
        self._open = True

    def _run_worker(self, index: int, cpu: int) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {cpu})
        self._work(self._address, index, 0)

    def run(self, job: int) -> None:
        """Run the job at this address (see `make_job`) and wait until it has finished."""
        if os.getpid() != self._process:
            self._state[_THREADS] = 1
        elif self._taken and _cpu() in self._taken:
            self._move_caller()
        self._launch(self._address, job)

    def _move_caller(self) -> None:
        """Move the calling thread to the first CPU, where it may stay: the CPUs that it may use remain the same."""
        usable = os.sched_getaffinity(0)
        if self._first in usable:
            os.sched_setaffinity(0, {self._first})
            os.sched_setaffinity(0, usable)

    def run_all(self, jobs: NDArray[np.int64]) -> None:
        """Run the jobs at these addresses, one after the other."""
        for job in jobs:
            self.run(int(job))

    def close(self) -> None:
        """End the threads, and let the calling thread use all its CPUs again."""
        global _pins
        if not self._open:
            return
        self._open = False
        self._state[_JOB] = 0
        self._wake(self._address)
        for worker in self._workers:
            worker.join()
        if self._pins_caller:
            _pins -= 1
            if not _pins:
                os.sched_setaffinity(0, unpinned)
                unpinned.clear()


def phases_of(launch: Launch, address: Callable[[str], int]) -> list[tuple[int, int, int]]:
    """The phases of a launch, as `make_job` takes them; `address` returns the address of an entry by its name."""
    return [(address(phase.entry), phase.tasks // phase.runs, phase.runs) for phase in launch.phases]


def make_job(buffers: tuple[int, ...], arguments: NDArray[np.int64],
             phases: list[tuple[int, int, int]]) -> NDArray[np.int64]:
    """Make a job, an int64 array: the addresses of three operands, output and workspace (0: none) and of the arguments,
    the number of phases, and for each phase the address of the entry, the tasks of a run and the number of runs.
    """
    flat = [number for phase in phases for number in phase]
    return np.array([*buffers, arguments.ctypes.data, len(phases), *flat], np.int64)


class Turn:
    """A lock that a thread may take several times. A forked process does not wait for threads that it does not have."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_others)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def _forget_others(self) -> None:
        if self._lock.acquire(blocking=False):  # it is free, or the forking thread has it
            self._lock.release()
        else:
            self._lock = threading.RLock()


_ADDRESSES = struct.Struct(f"={MOST_OPERANDS + 2}q")  # the first words of a job


class KernelJob:
    """A job of `Threads`. `bind` writes its memory and the threads read it, so one caller uses it at a time."""

    def __init__(self, module: CompiledModule, launch: Launch) -> None:
        self._module = module  # its code lives as long as the job
        self._arguments = np.array(launch.arguments, np.int64)
        self._job = make_job((0,) * (MOST_OPERANDS + 2), self._arguments, phases_of(launch, module.address))
        self._words = self._job.data
        self.address = int(self._job.ctypes.data)

    def bind(self, operands: Sequence[int], y: int, workspace: int) -> None:
        """Set the addresses of the operands, in the operation's order, of the output and of the workspace."""
        further = operands[MOST_OPERANDS:]
        absent = (0,) * (MOST_OPERANDS - len(operands))
        _ADDRESSES.pack_into(self._words, 0, *operands[:MOST_OPERANDS], *absent, y, workspace)  # cheaper than NumPy's
        if further:
            self._arguments[len(self._arguments) - len(further):] = further
