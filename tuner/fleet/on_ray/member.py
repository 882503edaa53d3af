"""RayMember: runs on the machine of a device, measures batches in a thread and hands out events when asked.

Messages are text in both directions: JSON objects that both sides check. The class itself needs no Ray, so its
tests need none.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
import time
from contextlib import closing, nullcontext
from typing import Any

from seqtune.errors import MisuseError, SeqtuneError, one_line
from seqtune.kernels.devices.accelerators import BACKENDS as GPU_BACKENDS
from seqtune.kernels.devices.device import Device
from seqtune.kernels.libraries.bundle import Bundle, bundles_in_use, use_bundles
from seqtune.kernels.libraries.package_digest import package_digest
from seqtune.kernels.version import VERSION

from ...backends import discovery
from ...load import Load, LoadMeter
from ...measuring.runner import Runner
from ..batch import MeasuringBatch, Purpose, answers
from ..member import Member
from .local_folder import MEMBER_PREFIX, LocalFolder
from .turn import turn

CPU_TURN = "cpu"
MOST_EVENTS = 256  # in one answer to the driver
OPEN = "disabled"  # RAY_AUTH_MODE where the user lets everybody in

Message = dict[str, Any]


def hello(device: str, authentication: str) -> Message:
    """The first message to a member. `authentication` is the RAY_AUTH_MODE of the driver. Raises MisuseError."""
    bundles: list[Bundle] = bundles_in_use()
    return {"version": VERSION, "sources": package_digest("seqtune"), "device": device,
            "libraries": bundles, "authentication": authentication}


class RayMember:
    """A member of the fleet. Its methods may be called from several threads; one thread of its own measures."""

    def __init__(self, name: str, greeting: str) -> None:
        self._name = name
        self._hello: Message = json.loads(greeting)
        self._orders: queue.SimpleQueue[MeasuringBatch | None] = queue.SimpleQueue()
        self._early: dict[int, str] = {}  # batches that came before their predecessors, by order
        self._next = 0
        self._lock = threading.Lock()
        self._cancelled: set[int] = set()
        self._events: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._folder: LocalFolder | None = None  # of the files of libraries
        self._status: Message = {"name": name, "state": "starting", "problem": "", "done": 0, "failed": 0, "rate": 0.0}
        self._note = ""
        self._ready: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def describe(self) -> str:
        """The member as JSON (`member`), or the reason why it does not take part (`refused`). Call it once."""
        return json.dumps(self._ready.get())

    def submit(self, order: int, batch: str) -> None:
        """Take a batch. Orders are numbered from 0, and batches are measured in the order of these numbers."""
        with self._lock:
            self._early[order] = batch
            while self._next in self._early:
                self._orders.put(MeasuringBatch.from_json(json.loads(self._early.pop(self._next))))
                self._next += 1

    def cancel(self, number: int) -> None:
        """End a batch after its current configuration."""
        self._cancelled.add(number)

    def events(self, seconds: float) -> str:
        """Wait for events, at most `seconds`; return them as a JSON list of at most MOST_EVENTS.

        An event is `answered` with index and measurement, or `finished`. Only one call may be under way.
        """
        listed = []
        try:
            listed.append(self._events.get(timeout=seconds))
            while len(listed) < MOST_EVENTS:
                listed.append(self._events.get_nowait())
        except queue.Empty:
            pass
        return json.dumps(listed)

    def note(self, text: str) -> None:
        """Keep the driver's view of the whole fleet for those who ask for the status."""
        self._note = text

    def status(self) -> str:
        """The state of the member as JSON: name, state, problem, done, failed, rate (1/s); `fleet` as noted last."""
        return json.dumps({**self._status, "fleet": json.loads(self._note) if self._note else None})

    def close(self) -> None:
        """Remove the files of libraries, and end the worker unless it measures."""
        self._orders.put(None)
        self._remove_files()
        self._thread.join(timeout=0.5)

    def _remove_files(self) -> None:
        if self._folder is not None:
            self._folder.remove()

    def _run(self) -> None:
        """Open the device, then measure batch after batch. The runner belongs to this thread."""
        try:
            self._check()
            if self._hello["libraries"]:
                self._folder = LocalFolder(MEMBER_PREFIX)
                use_bundles(self._hello["libraries"], self._folder.path)
            backend = self._hello["device"].partition(":")[0]
            with nullcontext() if backend in GPU_BACKENDS else turn(CPU_TURN):  # its rates may be measured now
                device = discovery.find(self._hello["device"])
                discovery.check_present(device)
            with Runner(device) as runner:
                member = Member(self._name, device, socket.gethostname(), runner.open())
                self._status |= {"state": "waiting"}
                self._ready.put({"member": member.to_json()})
                while (batch := self._orders.get()) is not None:
                    self._status |= {"state": "measuring", "problem": batch.problem.brief()}
                    self._measure(runner, batch)
                    self._status |= {"state": "waiting"}
        except SeqtuneError as error:
            self._ready.put({"refused": one_line(error)})
        except Exception as error:  # the driver must learn of it; a thread's traceback goes nowhere
            self._ready.put({"refused": one_line(f"{type(error).__name__}: {error}")})
        finally:
            self._remove_files()

    def _check(self) -> None:
        """Check that this machine has the seqtune of the driver's, and a Ray with a token. Raises MisuseError."""
        if self._hello["version"] != VERSION:
            raise MisuseError(f"it has seqtune {VERSION}, the driver {self._hello['version']}; install the "
                              "same wheel on both")
        if package_digest("seqtune") != self._hello["sources"]:
            raise MisuseError("its seqtune has other sources than the driver's; install the same wheel on both")
        if self._hello["authentication"] != OPEN and os.environ.get("RAY_AUTH_MODE") != "token":
            raise MisuseError("its Ray lets everybody in; start it with RAY_AUTH_MODE=token, or set RAY_AUTH_MODE="
                              f"{OPEN} for the driver where you trust the whole network")

    def _measure(self, runner: Runner, batch: MeasuringBatch) -> None:
        began, error, load = time.monotonic(), "", Load()
        on_cpu = _on_cpu(runner.device)
        try:
            with turn(CPU_TURN) if on_cpu else nullcontext(), closing(answers(runner, batch)) as measuring:
                meter = LoadMeter() if on_cpu and batch.purpose is Purpose.CONTROL else None
                if batch.number not in self._cancelled:
                    for index, measurement in measuring:
                        self._events.put({"answered": batch.number, "index": index, "measurement": measurement})
                        self._count(measurement, time.monotonic() - began)
                        began = time.monotonic()
                        if batch.number in self._cancelled:
                            break
                load = Load() if meter is None else meter.well_known_load()
        except SeqtuneError as failure:
            error = one_line(failure)
        except Exception as failure:  # a mistake ends the batch, not the member
            error = one_line(f"{type(failure).__name__}: {failure}")
        self._cancelled.discard(batch.number)
        self._events.put({"finished": batch.number, "error": error, "load": load.to_json()})

    def _count(self, measurement: Message, seconds: float) -> None:
        """Count an answer. The rate follows the last ten answers, about."""
        status, rate = self._status, 1 / max(seconds, 1e-6)
        status["done"] += 1
        status["failed"] += measurement.get("status") != "correct"
        status["rate"] = rate if status["done"] == 1 else 0.9 * status["rate"] + 0.1 * rate


def _on_cpu(device: Device) -> bool:
    return device.backend not in GPU_BACKENDS and device.threads > 0
