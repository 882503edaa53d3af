"""Runner: the parent's handle on one measuring worker. It survives whatever a kernel does to the worker.

A configuration that takes too long, or takes the worker down, is recorded so; the worker is started anew and the rest
go on. A crash counts only when it repeats in a fresh worker, since an earlier kernel may have damaged the memory.
"""

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
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import seqtune
from seqtune.data.record import Measurement, Status
from seqtune.errors import SeqtuneError, UnavailableError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from .timing import OVERRUN, Options, one_line

START_SECONDS = 60.0  # opening a backend; a driver that takes longer hangs
SLOWEST_GFLOPS = 1.0  # a kernel slower than this on a large problem is given up
FEWEST_LAUNCHES = 3  # the check, and a sample or two of a kernel that slow
OPENCL_BUILD_SECONDS = 30.0  # PoCL takes about 1 s, seconds for large unrolled kernels, and links with ld

Message = dict[str, Any]


class Measurer(Protocol):
    """What the tuning loop and the verification need: a Runner, or records that answer in its place (replay)."""

    device: Device

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Each configuration with its measurement, in order, as they come."""
        ...

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """All measured in interleaved rounds of one sample each, in the given order."""
        ...


class _Died(Exception):
    """The worker ended."""


class _Late(Exception):
    """The worker did not answer in time."""


class Runner:
    """Owns the worker process of one device. Use it as a context manager, from the thread that made it.

    `backend`, `kernels` (name -> "module:attribute") and `path` (folders to import from) stand in for the tables of
    backends and kernels; tests use them.
    """

    def __init__(self, device: Device, backend: str | None = None, kernels: Mapping[str, str] | None = None,
                 path: Sequence[str] = ()) -> None:
        self.device = device
        self._hello = {"device": device.to_json(), "backend": backend, "kernels": dict(kernels or {}),
                       "path": list(path)}
        self._process: subprocess.Popen[bytes] | None = None
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._answered = 0  # by the present worker

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends the worker."""
        self._kill()
        self._errors.close()

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Each configuration with its measurement, in order, as they come. Closing the iterator cancels the rest."""
        place, suspect = 0, -1
        while place < len(configurations):
            kernel = configurations[place].kernel
            end = place
            while end < len(configurations) and configurations[end].kernel == kernel:
                end += 1
            batch = configurations[place:end]
            request = {"do": "measure", "problem": problem.to_json(), "kernel": kernel, "options": options.to_json(),
                       "configurations": [list(one.settings) for one in batch],
                       "best": None if math.isinf(best) else best}
            done = prepared = False
            try:
                self._start()
                fresh = self._answered == 0
                self._send(request)
                self._receive(self._prepare_limit(problem))
                prepared = True
                while place < end:
                    message = self._receive(self._build_limit(options))
                    if "built" in message:
                        message = self._receive(self._run_limit(problem, options))
                    found = Measurement.from_json(message["measurement"])
                    best = min(best, found.seconds)
                    self._answered += 1
                    fresh = False
                    place += 1
                    if message["restart"]:
                        self._kill()
                        done = True
                    yield configurations[place - 1], found
                    if done:
                        break
                if not done:
                    self._receive(self._build_limit(options))
                    done = True
            except _Late:
                self._kill()
                done = True
                if not prepared:
                    raise self._unprepared(problem) from None
                place += 1
                yield configurations[place - 1], Measurement(Status.TIMEOUT, message=self._late(problem, options))
            except _Died:
                message_text = self._post_mortem()
                done = True
                if not fresh and suspect != place:
                    suspect = place  # once more, in a fresh worker
                    continue
                if not prepared:
                    raise self._unprepared(problem, message_text) from None
                place += 1
                yield configurations[place - 1], Measurement(Status.CRASH, message=message_text)
            except SeqtuneError:
                done = True  # the request is at fault; the worker has forgotten it
                raise
            finally:
                if not done:
                    self._cancel(problem, options)

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """All measured in interleaved rounds of one sample each, in the given order; a crash takes out its cause."""
        found: dict[int, Measurement] = {}
        while len(found) < len(configurations):
            left = [place for place in range(len(configurations)) if place not in found]
            at = -1  # until the operands are prepared
            done = False
            try:
                self._start()
                fresh = self._answered == 0
                self._send({"do": "compare", "problem": problem.to_json(), "rounds": rounds,
                            "options": options.to_json(),
                            "entries": [[configurations[place].kernel, list(configurations[place].settings)]
                                        for place in left]})
                self._receive(self._prepare_limit(problem))
                while True:
                    message = self._receive(max(self._build_limit(options), self._run_limit(problem, options)))
                    if "compared" in message:
                        break
                    at = message["at"]
                self._receive(self._build_limit(options))
                done = True
                measured = [Measurement.from_json(one) for one in message["compared"]]
                wild = {place: one for place, one in zip(left, measured, strict=True)
                        if one.message.startswith(OVERRUN)}
                found.update(wild or zip(left, measured, strict=True))
                if wild:  # they may have damaged the others
                    self._kill()
            except _Late:
                done = True
                self._kill()
                if at < 0:
                    raise self._unprepared(problem) from None
                found[left[at]] = Measurement(Status.TIMEOUT, message=self._late(problem, options))
            except _Died:
                done = True
                message_text = self._post_mortem()
                if at >= 0:
                    found[left[at]] = Measurement(Status.CRASH, message=message_text)
                elif fresh:  # else once more, in a fresh worker: an earlier kernel may have damaged this one
                    raise self._unprepared(problem, message_text) from None
            finally:
                if not done:
                    self._kill()
        return [found[place] for place in range(len(configurations))]

    def _build_limit(self, options: Options) -> float:
        return max(options.build_seconds, OPENCL_BUILD_SECONDS if self.device.backend == "opencl" else 0.0)

    @staticmethod
    def _run_limit(problem: Problem, options: Options) -> float:
        flop = problem.names().get("flop")
        launch = flop / (SLOWEST_GFLOPS * 1e9) if isinstance(flop, int) else 0.0
        return options.run_seconds + FEWEST_LAUNCHES * launch

    def _prepare_limit(self, problem: Problem) -> float:
        return START_SECONDS + self._run_limit(problem, Options())

    def _unprepared(self, problem: Problem, reason: str = "") -> SeqtuneError:
        """No configuration is to blame where the operands and the reference cannot be made."""
        reason = reason or f"not within {self._prepare_limit(problem):.0f} s"
        return SeqtuneError(f"the operands of {problem.brief()} cannot be prepared ({reason}): is it too large here?")

    def _late(self, problem: Problem, options: Options) -> str:
        return (f"no answer within {self._build_limit(options):.0f} s of building or "
                f"{self._run_limit(problem, options):.0f} s of running")

    def _start(self) -> None:
        """A worker that is ready. Raises UnavailableError where its backend does not open."""
        if self._process is not None:
            return
        self._answered = 0
        self._messages = queue.SimpleQueue()
        here = str(Path(seqtune.__file__).resolve().parent.parent)
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
                       "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))}
        self._errors.seek(0)
        self._errors.truncate()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "seqtune.tuner.measuring.worker"], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0)
        threading.Thread(target=_listen, args=(self._process, self._messages), daemon=True).start()
        try:
            self._send(self._hello)
            message = self._receive(START_SECONDS)
        except _Died:
            raise UnavailableError(f"{self.device.name} does not open: {self._post_mortem()}") from None
        except _Late:
            self._kill()
            raise UnavailableError(f"{self.device.name} does not open within {START_SECONDS:.0f} s") from None
        except BaseException:
            self._kill()
            raise
        assert message.get("ready")

    def _send(self, message: Message) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        line = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        try:
            while line:
                line = line[self._process.stdin.write(line):]
        except OSError:
            raise _Died from None

    def _receive(self, seconds: float) -> Message:
        try:
            message = self._messages.get(timeout=seconds)
        except queue.Empty:
            raise _Late from None
        if message is None:
            raise _Died
        if "error" in message:
            if self._answered == 0:
                self._kill()
            raise SeqtuneError(str(message["error"]))
        return message

    def _cancel(self, problem: Problem, options: Options) -> None:
        """Let the worker finish the configuration at hand and forget the rest; kill it where it does not."""
        if self._process is None:
            return
        deadline = time.monotonic() + min(self._run_limit(problem, options), 5.0)  # the user waits
        try:
            self._send({"do": "cancel"})
            while "done" not in self._receive(max(0.0, deadline - time.monotonic())):
                pass
        except (_Died, _Late, SeqtuneError, KeyboardInterrupt):
            self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        if process.stdin is not None:
            process.stdin.close()
        process.wait()  # the listening thread closes the other pipe

    def _post_mortem(self) -> str:
        """How the worker died, with the last that it wrote to standard error."""
        process = self._process
        code = 0
        if process is not None:
            try:
                code = process.wait(timeout=5.0)
            except subprocess.TimeoutExpired:
                code = 0
            self._kill()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 2000))
        last = self._errors.read().decode(errors="replace").strip().splitlines()
        try:
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        except ValueError:
            how = f"signal {-code}"
        return one_line(f"the worker died ({how})" + (f": {last[-1]}" if last else ""))


def _listen(process: subprocess.Popen[bytes], messages: queue.SimpleQueue[Message | None]) -> None:
    """Passes the worker's lines on; None when it has ended."""
    assert process.stdout is not None
    try:
        with process.stdout as lines:
            buffer = b""
            while chunk := lines.read(65536):
                *whole, buffer = (buffer + chunk).split(b"\n")
                for line in whole:
                    messages.put(json.loads(line))
    finally:
        messages.put(None)
