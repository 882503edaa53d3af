"""Programs: runs foreign programs with limits on time, memory and output, and leaves none of them behind.

A program gets no shell, no input and a small environment. It leads a process group of its own, which is killed when it
ends, at its time limit, and with the help of `guard` when this process is killed.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from seqtune.errors import one_line

from ..backend import LaunchError, TimeLimit

MOST_OUTPUT = 64 << 10  # bytes of standard output
MOST_ERRORS = 16 << 20  # bytes of standard error: a compiler's warnings about a large program are less
_ERRORS_KEPT = 4 << 10  # bytes of standard error, the last ones
_LARGEST_FILE = 1 << 30  # bytes that a program may write into one file
_POLL = 0.05  # seconds between looks whether a program ended while another one holds its output open
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
_ADOPTED_SECONDS = 2.0  # for killing what a program left in other sessions, should that start more and more
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "HOME": "/nonexistent"}


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The outcome of a program that ended by itself."""

    code: int
    output: bytes
    errors: bytes  # the end of standard error

    def reason(self) -> str:
        """The cause of a failure in one line: signal or exit status, and the first error of the last lines."""
        cause = (f"was ended by {signal.Signals(-self.code).name}" if -self.code in set(signal.Signals)
                 else f"ended with status {self.code}")
        lines = [line for line in self.errors.decode(errors="replace").splitlines() if line.strip()]
        message = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
        return one_line(f"{cause}: {message}" if message else cause, 300)


class Programs:
    """Runs programs one after another. `private` is a folder for built files, removed with this process."""

    def __init__(self) -> None:
        self.private = Path(tempfile.mkdtemp(prefix="seqtune-command-"))
        self._prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
        if self._prctl is not None:
            self._prctl(_ADOPT_ORPHANS, 1)  # a process that leaves its program's session becomes a child of this one
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), str(self.private)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            bufsize=0)

    def run(self, words: tuple[str, ...], folder: Path, seconds: float, memory: int) -> ProgramOutput:
        """Run a program in a folder. Raises LaunchError if it cannot start or prints too much, TimeLimit."""
        import resource  # which Windows has not

        parent, before = os.getpid(), _children()

        def limit() -> None:  # in the new process, before the program
            if self._prctl is not None:
                self._prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
                if os.getppid() != parent:
                    os._exit(1)
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))

        try:
            process = subprocess.Popen(
                words, cwd=folder, env={**_ENVIRONMENT, "TMPDIR": str(self.private)}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=limit)
        except (OSError, subprocess.SubprocessError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
            raise LaunchError(f"{words[0]!r:.60} cannot be run: {reason}") from None
        self._tell_guard("+", process.pid)
        try:
            output, errors = _communicate(process, seconds)
        finally:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # also what it started; before its number is free again
            process.wait()
            _kill_adopted(before)
            self._tell_guard("-", process.pid)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        return ProgramOutput(process.returncode, output, errors)

    def _tell_guard(self, change: str, group: int) -> None:
        assert self._guard.stdin is not None
        with suppress(OSError):
            self._guard.stdin.write(f"{change}{group}\n".encode())

    def close(self) -> None:
        """Remove the private folder."""
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
            self._guard.wait()


def _children() -> set[int]:
    """This process's children in other sessions than its own."""
    numbers = set()
    for child in psutil.Process().children():
        with suppress(OSError):
            if os.getsid(child.pid) != os.getsid(0):
                numbers.add(child.pid)
    return numbers


def _kill_adopted(before: set[int]) -> None:
    """Kill the children that were not there before: a program left them in sessions of their own."""
    deadline = time.monotonic() + _ADOPTED_SECONDS
    while (adopted := _children() - before) and time.monotonic() < deadline:
        for number in adopted:
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)


def _communicate(process: subprocess.Popen[bytes], seconds: float) -> tuple[bytes, bytes]:
    """Read standard output and the end of standard error until the program ends. Raises TimeLimit, LaunchError."""
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + seconds
    output, errors, error_bytes = bytearray(), bytearray(), 0
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ)
        ended = False
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0 and not ended:
                raise TimeLimit(f"the program ran longer than {seconds:g} s and was stopped")
            ready = selector.select(0 if ended else min(left, _POLL))
            for key, _ in ready:
                content = os.read(key.fd, 1 << 16)
                if not content:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    output += content
                else:
                    errors = (errors + content)[-_ERRORS_KEPT:]
                    error_bytes += len(content)
            if len(output) > MOST_OUTPUT:
                raise LaunchError(f"the program printed more than {MOST_OUTPUT >> 10} kB and was stopped")
            if error_bytes > MOST_ERRORS:
                raise LaunchError(f"the program printed more than {MOST_ERRORS >> 20} MB to standard error and was "
                                  "stopped")
            if ended and not ready:
                break
            ended = ended or _has_ended(process)
    _wait_until(process, deadline, seconds)
    return bytes(output), bytes(errors)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the program has ended; its process number stays taken until it is waited for."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _wait_until(process: subprocess.Popen[bytes], deadline: float, seconds: float) -> None:
    """Wait for a program that has closed its output. Raises TimeLimit."""
    while not _has_ended(process):
        if time.monotonic() > deadline:
            raise TimeLimit(f"the program ran longer than {seconds:g} s and was stopped")
        time.sleep(0.001)
