"""WorkerProcess: starts a measuring worker, exchanges JSON lines with it, and kills it."""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress

from seqtune.errors import FormatError, MisuseError, SeqtuneError, SeqtuneWarning, UnavailableError, one_line
from seqtune.kernels.devices.accelerators import BACKENDS as GPU_BACKENDS

from ...confinement import confined_start
from ...processes import THREADS, python_path, unpin
from ..deadline import OutOfTime
from .message import Message, lines, read_message

# Pins the threads of Intel's OpenCL runtime, unless the user decides otherwise. In some processes it does not do so by
# itself; after a pause of 5 ms Linux then runs them on one CPU for several milliseconds.
PINNED = {"SYCL_CPU_CU_AFFINITY": "close", "SYCL_CPU_PLACES": "threads"}
# The signals that end a process at an access outside its memory; Windows has one of them.
STRAY = tuple(getattr(signal, name) for name in ("SIGSEGV", "SIGBUS") if hasattr(signal, name))
MOST_WARNINGS = 8  # of all workers: kernels of a library that is not trusted can send any number
_issued: set[str] = set()  # warnings of workers in this process
REAPED = 0.05  # seconds to wait until a killed process has ended; with large operands on a busy machine it takes longer
START_SECONDS = 60.0  # seconds to open a backend; a driver that takes longer hangs


class WorkerDied(Exception):
    """The worker process ended."""


class WorkerLate(Exception):
    """The worker did not answer in time."""


class WorkerProcess:
    """A worker process. It opens its backend while the caller goes on; `open` waits for that."""

    def __init__(self, device: str, hello: Message) -> None:
        self.device = device
        self.answered = 0  # number of measurements that it has returned
        self.build_allowance = 0.0  # of its backend, once that is open; see `Backend`
        self._is_open = False
        self._fault = ""  # why what it sent is no message, if so
        self._messages: queue.SimpleQueue[Message | FormatError | None] = queue.SimpleQueue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in kill()
        environment = environment_for(hello["device"]["backend"])
        words = [sys.executable, "-P", "-m", "seqtune.tuner.measuring.worker.worker"]
        self._cache = confined_start.cache_folder(hello) if confined_start.needs_confinement(hello) else None
        if self._cache is not None:
            confined_start.warn_if_free()
            words, environment = confined_start.command(hello), confined_start.environment(environment, self._cache)
        self._process = subprocess.Popen(
            words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0,
            start_new_session=self._cache is not None)
        unpin(self._process.pid)
        self.alive = True
        threading.Thread(target=_listen, args=(self._process, self._messages), daemon=True).start()
        with suppress(WorkerDied):  # `open` finds it out
            self.send(hello)

    def open(self, seconds: float = math.inf) -> None:
        """Wait until the backend is open. Raises UnavailableError if it does not open.

        Raises OutOfTime if it is not open within `seconds`; it goes on opening.
        """
        if self._is_open:
            return
        try:
            ready = self.receive(min(START_SECONDS, seconds), "ready")
        except WorkerDied:
            raise UnavailableError(f"{self.device} does not open: {self.post_mortem()}") from None
        except WorkerLate:
            if seconds < START_SECONDS:
                raise OutOfTime(f"{self.device} is not open in time") from None
            self.kill()
            raise UnavailableError(f"{self.device} does not open within {START_SECONDS:.0f} s") from None
        except BaseException:
            self.kill()
            raise
        self.build_allowance = float(ready["build_allowance"])
        self._is_open = True

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, message: Message) -> None:
        """Write one message. Raises WorkerDied."""
        if not self.alive:
            raise WorkerDied
        assert self._process.stdin is not None
        line = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        try:
            while line:
                line = line[self._process.stdin.write(line):]
        except OSError:
            raise WorkerDied from None

    def receive(self, seconds: float, *kinds: str) -> Message:
        """The next message, if it comes within `seconds`. A worker that sends another than of the `kinds` is dead.

        Raises WorkerLate, WorkerDied, or SeqtuneError (MisuseError for a wrong input) with the worker's message.
        """
        deadline = time.monotonic() + seconds
        try:
            message = self._messages.get(timeout=seconds)
            while isinstance(message, dict) and "warning" in message:
                _warn(one_line(str(message["warning"])))
                message = self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise WorkerLate from None
        if isinstance(message, FormatError):
            self.refuse(str(message))
        if message is None or isinstance(message, FormatError):
            raise WorkerDied
        if "error" in message:
            if self.answered == 0:
                self.kill()
            raise (MisuseError if message["misuse"] else SeqtuneError)(message["error"])
        if kinds and not any(kind in message for kind in kinds):
            self.refuse(f"{next(iter(message))!r} instead of {' or '.join(map(repr, kinds))}")
            raise WorkerDied
        return message

    def refuse(self, fault: str) -> None:
        """Count the worker as dead, because of what it sent."""
        self._fault = fault
        self.kill()

    def kill(self) -> None:
        """Kill the process."""
        if not self.alive:
            return
        self.alive = False
        self._process.kill()
        if self._cache is not None and hasattr(os, "killpg"):  # what it started cannot leave its group
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(REAPED)  # the listening thread closes the other pipe
        except subprocess.TimeoutExpired:
            threading.Thread(target=self._process.wait, daemon=True).start()
        self._errors.close()

    def post_mortem(self) -> str:
        """Reap the process. Returns the cause of its end, with the last line that it wrote to standard error.

        A library that may run no commands may have spoilt what its own worker reads: the cause then names that folder.
        """
        if self._fault:
            self.kill()
            return one_line(f"the worker died: it sent what is no message: {self._fault}")
        try:
            code = self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            code = 0
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 2000))
        last = self._errors.read().decode(errors="replace").strip().splitlines()
        self.kill()
        try:
            cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            cause += ", as by an access outside a buffer" if -code in STRAY else ""
        except ValueError:
            cause = f"signal {-code}"
        message = f": {last[-1]}" if last and -code not in STRAY else ""  # Intel's runtime then asks for a bug report
        text = one_line(f"the worker died ({cause}){message}")
        return text if self._cache is None else f"{text}; if it dies again, remove {self._cache}"


def environment_for(backend: str) -> dict[str, str]:
    """The variables of a worker for a device of this backend."""
    # Threads of NumPy would disturb kernels on the CPU; for a GPU they make the reference sixteen times as fast.
    alone = {} if backend in GPU_BACKENDS else dict.fromkeys(THREADS, "1")
    return {**PINNED, **os.environ, **alone, "PYTHONPATH": python_path()}


def _warn(text: str) -> None:
    """Issue a worker's warning, unless it was issued before (every new worker sends it), or MOST_WARNINGS were."""
    if text not in _issued and len(_issued) < MOST_WARNINGS:
        _issued.add(text)
        warnings.warn(text, SeqtuneWarning, stacklevel=4)


def _listen(process: subprocess.Popen[bytes], messages: queue.SimpleQueue[Message | FormatError | None]) -> None:
    """Put the worker's messages into the queue, an error for the first that is none, and None when it has ended."""
    assert process.stdout is not None
    try:
        with process.stdout as pipe:
            for line in lines(pipe):
                messages.put(read_message(line))
    except FormatError as error:
        messages.put(error)
    finally:
        messages.put(None)
