"""CubinsAhead: kernels compiled into the cache that workers read, before a worker asks for them.

A worker compiles one kernel after the other, which takes longer than to measure it; here all cores compile, in a
process of its own. NVRTC may crash or hang there: the process is killed, and neither the caller nor a measurement is
disturbed. Failures are the worker's to meet and to record.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import is_registered, kernel

from ...processes import python_path

PROGRAM = ("-m", "seqtune.tuner.backends.cuda.cubins_process")  # the words after `python -P`


class CubinsAhead:
    """Compiles our kernels for a `cuda` device on all cores; others are left to the worker, which confines them.

    The process starts with the first source. If it ends by itself, nothing is compiled ahead any more: NVRTC is
    missing, or a kernel crashes it. Threads may share it.
    """

    def __init__(self, device: Device, program: Sequence[str] = PROGRAM) -> None:
        self.device, self._program = device, program
        self._lock = threading.RLock()
        self._process: CompilerProcess | None = None
        self._started: dict[str, Future[bool]] = {}  # digest of the source -> whether the cache has its image

    def start(self, problem: Problem, configurations: Sequence[Configuration]) -> list[Future[bool]]:
        """Begin to compile what the configurations need; each source is compiled once.

        A future is true when the cache has the image, and false when the compiler refused it or it was given up.
        """
        sources: dict[str, KernelSource] = {}
        for configuration in configurations:
            if is_registered(configuration.kernel) and is_ours(family := kernel(configuration.kernel)):
                with suppress(Exception):  # a mistake in a kernel's program is for the worker, which records it
                    source = call_of(family, problem, self.device, configuration).source
                    sources[digest_of(source)] = source
        with self._lock:
            for key, source in sources.items():
                if key not in self._started:
                    if self._process is None:
                        self._process = CompilerProcess(self.device, self._program)
                    self._started[key] = self._process.compile(key, source)
            return [self._started[key] for key in sources]

    def stop(self) -> None:
        """Kill the process: what is not compiled yet is given up for good. Later sources get a new process.

        A process that had ended by itself stays the last one.
        """
        with self._lock:
            if self._process is not None and self._process.kill():
                self._process = None


class CompilerProcess:
    """A process that compiles, and the futures of the sources that it was sent. Threads exchange the lines with it."""

    def __init__(self, device: Device, program: Sequence[str] = PROGRAM) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", *program], env={**os.environ, "PYTHONPATH": python_path()},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._lock = threading.Lock()
        self._ended = False
        self._waiting: dict[str, Future[bool]] = {}
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lines.put(json.dumps(device.to_json()))
        for work in (self._write, self._read):  # a process that hangs must not hold up the caller's end
            threading.Thread(target=work, daemon=True).start()

    def compile(self, key: str, source: KernelSource) -> Future[bool]:
        """Send a source; the future is false at once if the process has ended."""
        future: Future[bool] = Future()
        with self._lock:
            if self._ended:
                future.set_result(False)
            else:
                self._waiting[key] = future
                self._lines.put(json.dumps({"key": key, "text": source.text, "options": source.options}))
        return future

    def kill(self) -> bool:
        """Kill the process and give up what it has not compiled. Returns False if it had ended by itself."""
        with self._lock:
            alive = not self._ended and self._process.poll() is None
        self._process.kill()
        self._end()
        return alive

    def _end(self) -> None:
        """Reap the process, which has ended or closed its output, and give up the sources that it has not answered."""
        with self._lock:
            self._ended = True
            waiting, self._waiting = self._waiting, {}
        self._process.kill()
        self._process.wait()
        self._lines.put(None)
        for future in waiting.values():
            future.set_result(False)

    def _write(self) -> None:
        """Send the lines until the process ends."""
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as pipe:
            while (line := self._lines.get()) is not None:
                pipe.write(line.encode() + b"\n")
                pipe.flush()

    def _read(self) -> None:
        """Set the results of the sources that are answered, and give up the others when the process ends."""
        assert self._process.stdout is not None
        with suppress(ValueError, LookupError, TypeError), self._process.stdout as pipe:  # no answer: it is given up
            for line in pipe:
                answer = json.loads(line)
                with self._lock:
                    future = self._waiting.pop(answer["key"], None)
                if future is not None:
                    future.set_result(answer["compiled"] is True)
        self._end()


def digest_of(source: KernelSource) -> str:
    """A digest of all that a source consists of."""
    return hashlib.sha256(json.dumps([source.text, source.options]).encode()).hexdigest()


def is_ours(family: Kernel) -> bool:
    """Whether the kernel's code is in this package."""
    return isinstance(family.implementation, str) and family.implementation.startswith("seqtune.")
