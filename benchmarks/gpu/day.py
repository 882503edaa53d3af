"""Day: one GPU day in one folder. It knows the device, the sizes of everything, the time that is left, and its files.

    FOLDER/state.json            slices, their state and seconds
    FOLDER/journals/SLICE.sqlite measurements of a slice, committed one by one
    FOLDER/results/SLICE.json    result of a slice
    FOLDER/checkpoint/           model trained on the day's measurements
    FOLDER/home/                 everything worth bringing home (`benchmarks.gpu.home`)
    FOLDER/lock                  held by the process that works in the folder
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.report import today, write_json
from benchmarks.gpu.stand_in import DRY_RUN, StandInMeasurer
from seqtune.errors import FormatError, MisuseError, SeqtuneError, json_fault
from seqtune.kernels.files import read_bounded, reason

if TYPE_CHECKING:
    from seqtune.data.journal import Journal
    from seqtune.kernels.devices.device import Device
    from seqtune.tuner.measuring.runner import Measurer

VERSION = 1
LARGEST_STATE = 1_000_000  # bytes; a state has some hundred per slice
LONGEST = 1e9  # seconds of a slice
ROOMS = ("journals", "results", "home")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of problems, configurations and rounds of a day."""

    shapes: int = 250  # matrix products per element type
    layers: int = 100  # convolutions per element type
    configurations: int = 500  # of the pool that is measured on all of them
    batches: tuple[int, ...] = (1, 16)  # of ResNet-50's convolutions
    contract_configurations: int = 6  # for each family, element type and problem
    sanitizer_configurations: int = 6  # for each family and tool; a tool slows a kernel down up to a hundred times
    finalists: int = 12
    rounds: int = 16  # of finals and of contests with peers
    peer_problems: int = 12  # per slice of peers
    compiled_peers: bool = True  # whether torch.compile is one of them, whose autotuning takes half a minute
    trials: int = 64  # of a tuning in the contests with peers, and on the host
    epochs: int = 40  # of the translator
    extra: int = 500  # sampled problems whose times the translator's teacher estimates
    compiled: int = 100_000  # sources


DRY_SIZES = Sizes(shapes=5, layers=5, configurations=24, batches=(1,), contract_configurations=1,
                  sanitizer_configurations=1, finalists=3, rounds=2, peer_problems=2, trials=8, epochs=1, extra=4,
                  compiled=3)


@dataclass(slots=True)
class Day:
    """A day in a folder. `deadline` is that of the slice in progress, in seconds of `time.monotonic`."""

    folder: Path
    device: Device
    dry: bool = False
    sizes: Sizes = field(default_factory=Sizes)
    deadline: float = math.inf
    pause: float = 0.0  # dry run: seconds that an answer of the stand-in takes

    @property
    def left(self) -> float:
        """Seconds left for the slice in progress; 0 when its time is up."""
        return max(0.0, self.deadline - time.monotonic())

    def say(self, text: str) -> None:
        """Show progress on standard error."""
        print(text, file=sys.stderr, flush=True)

    def path(self, room: str, name: str) -> Path:
        """The path of a file in a folder of the day, which is created. Raises SeqtuneError."""
        folder = self.folder / room
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SeqtuneError(f"cannot make the folder {folder}: {reason(error)}; --out names another") from None
        return folder / name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Work in the folder alone, and remove what a killed process left half-written. Raises SeqtuneError.

        The system frees the lock when the process ends, also by a kill.
        """
        path = self.path("", "lock")
        for room in ROOMS:
            if (self.folder / room).exists() and not (self.folder / room).is_dir():
                raise MisuseError(f"{self.folder / room} is no folder; name another folder with --out")
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise SeqtuneError(f"cannot open {path}: {reason(error)}") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SeqtuneError(f"another process works in {self.folder}; wait for it, or name another folder with "
                                   "--out") from None
            except OSError as error:
                raise SeqtuneError(f"cannot lock {path}: {reason(error)}") from None
            for room in ("", *ROOMS):
                for scratch in (self.folder / room).glob(".*.new"):
                    with suppress(OSError):
                        scratch.unlink()
            yield
        finally:
            os.close(lock)

    def journal(self, name: str) -> Journal:
        """Open the journal of a slice."""
        from seqtune.data.journal import Journal

        return Journal(self.path("journals", f"{name}.sqlite"))

    @contextmanager
    def measurer(self, device: Device) -> Iterator[Measurer]:
        """A measurer for a device: a worker process, or in a dry run a stand-in that never opens the device."""
        if self.dry:
            yield StandInMeasurer(device, self.pause)
            return
        from seqtune.tuner.measuring.runner import Runner

        with Runner(device) as runner:
            yield runner

    def write_result(self, name: str, result: Mapping[str, Any]) -> None:
        """Write the result of a slice, marked if this is a dry run."""
        mark: dict[str, Any] = {"dry_run": DRY_RUN} if self.dry else {}
        write_json(self.path("results", f"{name}.json"), {**mark, "slice": name, "device": self.device.key,
                                                          "date": today(), **result})

    def result(self, name: str) -> dict[str, Any] | None:
        """The result of a slice, None if there is none yet. Raises FormatError."""
        path = self.folder / "results" / f"{name}.json"
        return read_object(path, 16 * LARGEST_STATE) if path.exists() else None


def read_object(path: Path, most: int) -> dict[str, Any]:
    """Read a JSON object of at most `most` bytes. Raises FormatError."""
    try:
        content = json.loads(read_bounded(path, most), parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON: {json_fault(error)}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path} is not a JSON object")
    return content


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    return float(text) if math.isfinite(float(text)) else _refuse(f"{text:.20}")


class DayState:
    """The slices' state in state.json, written after every change.

    A slice is `done`, `partial` (its time was up or it was stopped), `failed` or `skipped`. Raises MisuseError if the
    folder holds a day of another device or kind, FormatError if the file is damaged.
    """

    def __init__(self, day: Day) -> None:
        self._path, self._day = day.path("", "state.json"), day
        self.slices: dict[str, dict[str, Any]] = {}
        if not self._path.exists():
            self._write()
            return
        content = read_object(self._path, LARGEST_STATE)
        slices = content.get("slices")
        if content.get("version") != VERSION or not isinstance(slices, dict):
            raise FormatError(f"{self._path} is not the state of a GPU day of version {VERSION}; name another folder")
        if bool(content.get("dry_run")) != day.dry:
            kind = "a dry run" if content.get("dry_run") else "measurements"
            raise MisuseError(f"{day.folder} holds {kind}; name another folder with --out")
        if content.get("device") != day.device.key:
            raise MisuseError(f"{day.folder} is of {content.get('device')!s:.80}, not of {day.device.key}; name "
                              "another folder with --out")
        for name, entry in slices.items():
            if not _is_entry(entry):
                raise FormatError(f"{self._path} is damaged: the entry of {name!r:.40}; delete the entry, and the "
                                  "slice runs again")
        self.slices = slices

    def get(self, name: str) -> str:
        """The state of a slice; empty before its first turn."""
        return str(self.slices.get(name, {}).get("state", ""))

    def spent(self, name: str) -> float:
        """The seconds of all turns of a slice."""
        return float(self.slices.get(name, {}).get("seconds", 0.0))

    def set(self, name: str, state: str, seconds: float, message: str) -> None:
        """Store the end of a slice's turn that took `seconds`."""
        self.slices[name] = {"state": state, "seconds": round(self.spent(name) + seconds, 2), "message": message,
                             "turns": int(self.slices.get(name, {}).get("turns", 0)) + 1}
        self._write()

    def reopen(self, name: str) -> None:
        """Let a slice that is done go on; its results and its seconds are kept."""
        self.slices[name]["state"] = "partial"
        self._write()

    def forget(self, name: str) -> None:
        """Forget a slice's state, so that it runs again; its measurements are kept."""
        self.slices.pop(name, None)
        self._write()

    def _write(self) -> None:
        mark: dict[str, Any] = {"dry_run": DRY_RUN} if self._day.dry else {}
        write_json(self._path, {**mark, "version": VERSION, "device": self._day.device.key, "slices": self.slices})


def _is_entry(entry: Any) -> bool:
    """Whether this is the state of a slice as `DayState.set` stores it."""
    return (isinstance(entry, dict) and isinstance(entry.get("state"), str) and type(entry.get("turns")) is int
            and type(entry.get("seconds")) in (int, float) and 0 <= entry["seconds"] <= LONGEST)
