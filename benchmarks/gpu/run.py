"""Run: one call of `python -m benchmarks gpu`: what it measures, with which measurer, in which folder, until when.

    FOLDER/journal.sqlite    every measurement, committed one by one
    FOLDER/checks.sqlite     the measurements of the check, which are no training data
    FOLDER/run.json          the device, the packages, and what was compared
    FOLDER/measured.parquet  the journal as a data set, which `seqtune train` reads
    FOLDER/results/gpu.*     the page of results, and its figures as JSON

The folder is of one device. Every call goes on where the last one ended, also after a kill.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.common.report import today, write_json
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.provenance import DRY_RUN
from seqtune.data.shipped_machines import GPUS
from seqtune.errors import DeviceError, FormatError, MisuseError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import read_bounded, reason
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, table
from seqtune.tuner.backends.compilers import CompilerAhead, compiler_ahead
from seqtune.tuner.backends.discovery import check_present, find
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.measuring.recorded_measurer import RecordedMeasurer
from seqtune.tuner.measuring.runner import Measurer, Runner

from .problems import Problems

LARGEST_FILE = 64_000_000  # bytes of run.json
RECORDED = GPUS / "nvidia_h100.parquet"  # what a simulated GPU answers from
JOURNAL, CHECKS, RUN = "journal.sqlite", "checks.sqlite", "run.json"


@dataclass(frozen=True, slots=True)
class Gpu:
    """The device of a run, and how it is measured: by a worker process, or by a replay of records."""

    device: Device
    measurer: Callable[[], AbstractContextManager[Measurer]]
    compiler: Callable[[], CompilerAhead | None] = lambda: None  # compiles ahead of the measurer
    can_measure: Callable[[Problem], bool] = lambda problem: True
    simulated: bool = False  # no device runs anything, and whatever is written is marked

    @classmethod
    def present(cls, name: str) -> Gpu:
        """A GPU of this machine. Raises DeviceError if it is not here."""
        device = find(name)
        try:
            check_present(device)
        except DeviceError as error:
            raise DeviceError(f"{error}; --dry-run goes through the tasks without it") from None
        return cls(device, lambda: Runner(device), lambda: compiler_ahead(device))

    @classmethod
    def stored(cls, folder: Path) -> Gpu:
        """The GPU of an earlier call, which need not be here, for tasks that measure nothing. Raises MisuseError."""
        content = read_run(folder)
        if not content:
            raise MisuseError(f"{folder} holds no measurements of a GPU; name the folder of an earlier call with --out")
        device = Device.from_json(content["device"])
        return cls(device, lambda: Runner(device), simulated="dry_run" in content)

    @classmethod
    def replayed(cls) -> Gpu:
        """A simulated GPU: it answers from the shipped records of an H100, and has a name that nobody takes for it."""
        data = Dataset.read(RECORDED)
        recorded = next(device for device in data.devices.values() if device.backend == "cuda")
        device = replace(recorded, name="cuda:simulated", toolchain="replayed")
        replay = RecordedMeasurer(device, (
            replace(record, device=device.key, toolchain=device.toolchain)
            for record in data.records() if record.device == recorded.key), [*map(kernel, table("cuda"))])
        return cls(device, lambda: nullcontext(replay), can_measure=replay.__contains__, simulated=True)


@dataclass(frozen=True, slots=True)
class Options:
    """The problems and kernels of a run, and how much of them is measured."""

    problems: Problems
    kernels: tuple[str, ...] = ()  # names of families; empty: all of the device's backend
    checkpoint: str | None = None  # its proposals are measured; None: those of the backend's own predictor
    checked: int = 40  # random configurations of each family in the check
    configurations: int = 500  # the most configurations of each problem
    compared: int = 24  # problems in the comparison
    with_compiler: bool = True  # whether torch.compile takes part, whose autotuning takes half a minute a problem
    rounds: int = 16  # rounds of a comparison
    trials: int = 64  # trials of a tuning in the comparison
    seed: int = 0  # draws the configurations of the check


@dataclass(slots=True)
class Run:
    """One call in a folder. `deadline` is that of the task in progress; before the tasks begin, that of them all."""

    folder: Path
    gpu: Gpu
    options: Options
    deadline: Deadline = field(default_factory=Deadline)

    @property
    def device(self) -> Device:
        """The device that is measured."""
        return self.gpu.device

    @property
    def families(self) -> list[Kernel]:
        """The kernel families that are measured, of those that run here. Raises KernelError if one does not exist."""
        families = map(kernel, self.options.kernels or table(self.device.backend))
        return [family for family in families if family.implementation is not None]

    @property
    def left(self) -> float:
        """The seconds that are left for the task in progress; 0 when its time is up."""
        return self.deadline.left

    def journal(self, name: str = JOURNAL) -> Journal:
        """Open a journal of the folder, which knows the device."""
        journal = Journal(self.folder / name)
        journal.add_device(self.device)
        return journal

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Work in the folder alone; it is made if it is missing. Raises SeqtuneError, MisuseError.

        The system frees the lock when the process ends, also by a kill.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise MisuseError(f"cannot use the folder {self.folder}: {reason(error)}; --out names another") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SeqtuneError(f"another process works in {self.folder}; wait for it, or name another folder with "
                                   "--out") from None
            self._check_owner()
            yield
        finally:
            os.close(lock)

    def store(self, more: Mapping[str, Any]) -> None:
        """Write entries into run.json beside those that are there, with a mark if the GPU is simulated."""
        mark = {"dry_run": DRY_RUN} if self.gpu.simulated else {}
        write_json(self.folder / RUN, {**read_run(self.folder), **mark, "device": self.device.to_json(),
                                       "date": today(), **more})

    def _check_owner(self) -> None:
        """Check that the folder is of the same device and kind. Raises MisuseError, FormatError."""
        content = read_run(self.folder)
        if not content:
            return
        if ("dry_run" in content) != self.gpu.simulated:
            kind = "a dry run" if "dry_run" in content else "measurements"
            raise MisuseError(f"{self.folder} holds {kind}; name another folder with --out")
        if (known := Device.from_json(content["device"])).key != self.device.key:
            raise MisuseError(f"{self.folder} is of {known.key:.80}, not of {self.device.key}; name another folder "
                              "with --out")


def read_run(folder: Path) -> dict[str, Any]:
    """The content of a folder's run.json; empty if there is none. Raises FormatError."""
    path = folder / RUN
    if not path.exists():
        return {}
    try:
        content = json.loads(read_bounded(path, LARGEST_FILE))
        Device.from_json(content["device"])
        if all({"problem", "method", "seconds"} <= row.keys() for row in content.get("compared", [])):
            return dict(content)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, SeqtuneError):
        pass
    raise FormatError(f"{path} is damaged; remove it: measurements are kept, and comparisons run again")
