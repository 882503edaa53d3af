"""RayMember: runs on the machine of a device, measures batches and hands out events when asked.

Batches, members and events are Python objects, which Ray carries. The class needs no Ray, nor do its tests.

The processes of one machine take turns on its CPUs, so that no measurement disturbs another one. A batch is built in
its turn, too: compilers run on the CPUs that its kernels are measured on. GPUs need no turns, because each has a member
of its own.
"""

from __future__ import annotations

import os
import queue
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seqtune.errors import MisuseError, SeqtuneError, UnavailableError, one_line
from seqtune.kernels.devices.accelerators import BACKENDS as GPU_BACKENDS
from seqtune.kernels.libraries.bundle import bundles_in_use, package_digest, use_bundles
from seqtune.kernels.version import VERSION

from ...backends import discovery
from ...load import LoadMeter
from ...measuring.runner import Runner
from ..batch import MeasuringBatch, Purpose, answers
from ..engine import QUIET, Answered, Event, Finished, Member

MOST_EVENTS = 256  # in one answer to the driver
OPEN = "disabled"  # RAY_AUTH_MODE where the user lets everybody in
BESIDE = "beside"  # Ray's group of the calls that it serves while a batch is measured


def hello(device: str, authentication: str) -> dict[str, Any]:
    """The first message to a member. `authentication` is the RAY_AUTH_MODE of the driver. Raises MisuseError."""
    return {"version": VERSION, "sources": package_digest("seqtune"), "device": device,
            "libraries": bundles_in_use(), "authentication": authentication}


class RayMember:
    """A member of the fleet. Ray calls `open`, `measure` and `close` in one thread, in the driver's order."""

    def __init__(self, name: str, greeting: dict[str, Any]) -> None:
        self._name, self._hello = name, greeting
        self._cancelled: set[int] = set()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._folder: TemporaryDirectory[str] | None = None  # of the files of libraries
        self._runner: Runner | None = None
        self._note = ""

    def open(self) -> Member | str:
        """Open the device; return the member, or the reason why it does not take part. Call it first, and once."""
        try:
            self._check()
            if self._hello["libraries"]:
                self._folder = TemporaryDirectory(prefix="seqtune-member-")
                use_bundles(self._hello["libraries"], Path(self._folder.name))
            backend = self._hello["device"].partition(":")[0]
            with nullcontext() if backend in GPU_BACKENDS else cpu_turn():  # its rates may be measured now
                device = discovery.find(self._hello["device"])
                discovery.check_present(device)
            self._runner = Runner(device)
            return Member(self._name, device, socket.gethostname(), self._runner.open())
        except Exception as error:
            self.close()
            return _reason(error)

    def measure(self, batch: MeasuringBatch) -> None:
        """Measure a batch. Its answers and its end are events."""
        runner, error, load = self._runner, "", QUIET
        assert runner is not None
        on_cpu = runner.device.backend not in GPU_BACKENDS and runner.device.threads > 0
        try:
            with cpu_turn() if on_cpu else nullcontext(), closing(answers(runner, batch)) as measuring:
                meter = LoadMeter() if on_cpu and batch.purpose is Purpose.CONTROL else None
                if batch.number not in self._cancelled:
                    for index, measurement in measuring:
                        self._events.put(Answered(self._name, batch.number, index, measurement))
                        if batch.number in self._cancelled:
                            break
                load = QUIET if meter is None else meter.well_known_load()
        except Exception as failure:  # a mistake ends the batch, not the member
            error = _reason(failure)
        self._cancelled.discard(batch.number)
        self._events.put(Finished(self._name, batch.number, error, load))

    def close(self) -> None:
        """Remove the files of libraries, and end the worker."""
        self.remove_files()
        if self._runner is not None:
            self._runner.close()

    def remove_files(self) -> None:
        """Remove the files of libraries, also while a batch is measured; no further batch may follow."""
        if self._folder is not None:
            self._folder.cleanup()

    def events(self, seconds: float) -> list[Event]:
        """Wait for events, at most `seconds`; return at most MOST_EVENTS. Only one call may be under way."""
        listed: list[Event] = []
        with suppress(queue.Empty):
            listed.append(self._events.get(timeout=seconds))
            while len(listed) < MOST_EVENTS:
                listed.append(self._events.get_nowait())
        return listed

    def cancel(self, number: int) -> None:
        """End a batch after its current configuration."""
        self._cancelled.add(number)

    def note(self, text: str) -> None:
        """Keep the driver's view of the whole fleet, as JSON, for those who ask for the status."""
        self._note = text

    def noted(self) -> str:
        """The text that `note` kept last."""
        return self._note

    def _check(self) -> None:
        """Check that this machine has the sources of the driver, and a Ray with a token. Raises MisuseError."""
        if package_digest("seqtune") != self._hello["sources"]:
            raise MisuseError(f"its seqtune {VERSION} has other sources than the driver's {self._hello['version']}; "
                              "install the same wheel on both")
        if self._hello["authentication"] != OPEN and os.environ.get("RAY_AUTH_MODE") != "token":
            raise MisuseError("its Ray lets everybody in; start it with RAY_AUTH_MODE=token, or set RAY_AUTH_MODE="
                              f"{OPEN} for the driver where you trust the whole network")


for _method in (RayMember.events, RayMember.cancel, RayMember.note, RayMember.noted, RayMember.remove_files):
    setattr(_method, "__ray_concurrency_group__", BESIDE)  # noqa: B010 - as `ray.method` does; mypy knows no such name


def _reason(error: Exception) -> str:
    """An error as a reason in one line; one that is not ours with its type."""
    return one_line(error if isinstance(error, SeqtuneError) else f"{type(error).__name__}: {error}")


PAUSE = 0.002  # seconds after a turn, so that those who wait wake up before the same process asks again


@contextmanager
def cpu_turn() -> Iterator[None]:
    """Wait for this user's turn on the CPUs of this machine, and hold it. The turn of a process that dies ends, too.

    Raises UnavailableError if the file that marks the turn cannot be locked.
    """
    # The name of the machine: the temporary folder may be one that several machines share.
    path = Path(tempfile.gettempdir()) / f"seqtune-turn-{os.getuid()}-{socket.gethostname()}"
    try:
        import fcntl

        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except (ImportError, OSError) as error:  # Linux and macOS have such locks
        raise UnavailableError(f"members cannot take turns by {path}: {error}") from None
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise UnavailableError(f"{path} belongs to another user; remove it, or set TMPDIR")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # ends the turn
        time.sleep(PAUSE)
