"""DeviceEvidence: what the journal knows of this device, as corrections of a predictor's proposals.

A fitted correction is kept in the user's cache folder, under a name that holds all that it depends on: the trees and
the judge, the device and the state of the journal. Only the first prediction after a measurement fits a correction.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import FormatError, SeqtuneError, SeqtuneWarning
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import read_bounded, replacing
from seqtune.kernels.own_folders import cache_folder
from seqtune.kernels.task import Floats, Task

if TYPE_CHECKING:
    from ..checkpoint import Checkpoint
    from ..trees.ranker import Ranker
    from .correction import Correction

VERSION = 4  # of the correction's mathematics; a cached fit of another version is not used
LARGEST_FILE = 5_000_000  # bytes of a cached correction
MEASUREMENTS = "number of measurements"  # array of a file; no kernel has a blank in its name
KEPT_FILES = 8  # cached corrections; the oldest ones are deleted
_known: dict[tuple[object, ...], DeviceEvidence | None] = {}  # of this process, the latest only


@dataclass(frozen=True, slots=True)
class DeviceEvidence:
    """A correction and the number of measurements of the device that it rests on."""

    correction: Correction
    measurements: int


def device_evidence(predictor: Checkpoint, device: Device, journal: str | Path | None,
                    verified: bool = True) -> DeviceEvidence | None:
    """The evidence of a device in a journal (None: the default one); None if there is none or no trees to correct.

    Without `verified`, verifications do not count: what is verified must not depend on earlier verifications, or the
    same command would measure again and again. A default journal that cannot be read is not used, with a warning; one
    that was named raises FormatError or SeqtuneError.
    """
    from seqtune.data.journal.journal import default_path
    from seqtune.data.journal.schema import check_regular

    path = default_path() if journal is None else Path(journal)
    if journal is not None:
        check_regular(path)
    if predictor.ranker is None or not (path.is_file() and path.stat().st_size):
        return None
    key = (str(path), _stamp(path), device, id(predictor.ranker), verified)
    with suppress(KeyError):  # read once: other threads replace it
        return _known[key]
    try:
        evidence = _read(predictor, predictor.ranker, device, path, verified)
    except SeqtuneError as error:
        if journal is not None:
            raise
        warnings.warn(f"the proposals are not corrected by earlier measurements: {error}", SeqtuneWarning, stacklevel=3)
        evidence = None
    _known.clear()
    _known[key] = evidence
    return evidence


def _read(predictor: Checkpoint, ranker: Ranker, device: Device, path: Path,
          verified: bool) -> DeviceEvidence | None:
    from seqtune.data.device_times import device_times
    from seqtune.data.journal.journal import Journal

    own = _OwnTimes(path, device, verified)
    with Journal(path) as records:
        state = records.state(device.key)
        if not any(state):
            return None
        from .correction import Correction
        from .observations import LEAST_ROWS, MAX_ROWS

        name = _digest(predictor, ranker, device, path, state, verified)
        kept = _load(name)
        if kept is not None:
            arrays, measurements = kept
            with suppress(FormatError):
                correction = Correction.of_arrays(ranker, arrays, own, predictor.expected)
                return DeviceEvidence(correction, measurements) if measurements else None
        measured = device_times(records, device, MAX_ROWS // LEAST_ROWS, verified)
    correction, _ = Correction.fit(ranker, measured, own, predictor.expected)
    measurements = sum(int(np.isfinite(task.seconds).sum()) for task in measured)
    _keep(name, correction.arrays(), measurements)
    return DeviceEvidence(correction, measurements) if measurements else None


class _OwnTimes:
    """The measured times of tasks of a device, read from a journal when a correction asks for them.

    To open a journal takes a millisecond. One task alone is looked up; before the second one, the keys of all measured
    problems are read, and from then on the journal is opened for these alone.
    """

    def __init__(self, path: Path, device: Device, verified: bool) -> None:
        self._path, self._device, self._verified = path, device, verified
        self._known: dict[tuple[object, ...], Floats | None] = {}
        self._measured: frozenset[str] | None = None  # keys of problems; None: not read yet

    def __call__(self, task: Task) -> Floats | None:
        """The seconds of a task's configurations, as in MeasuredTask; None if none of them was measured."""
        identity = (task.problem, *((space.kernel.name, space.kernel.version, len(space)) for space in task.spaces))
        if identity not in self._known:
            self._known[identity] = self._read(task)
        return self._known[identity]

    def _read(self, task: Task) -> Floats | None:
        from seqtune.data.device_times import own_times
        from seqtune.data.journal.journal import Journal

        if self._known and self._measured is None:
            with Journal(self._path) as records:
                self._measured = records.measured(self._device.key)
        if self._measured is not None and task.problem.key not in self._measured:
            return None
        with Journal(self._path) as records:
            return own_times(records, task, self._verified)


def _stamp(path: Path) -> tuple[object, ...]:
    """Numbers that change when the journal's file, or the log of its latest changes, does."""
    stamps: list[int] = []
    for file in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError):
            status = file.stat()
            stamps += [status.st_mtime_ns, status.st_size]
    return tuple(stamps)


def _digest(predictor: Checkpoint, ranker: Ranker, device: Device, path: Path, state: tuple[int, ...],
            verified: bool) -> str:
    from seqtune.kernels.registry import kernel, table

    versions = {name: kernel(name).version for name in table(device.backend) if name in ranker.forests}
    content = json.dumps([VERSION, ranker.listed, device.to_json(), str(path.resolve()), state, verified, versions])
    digest = hashlib.sha256(content.encode())
    for name, forests in sorted(ranker.forests.items()):
        for forest in forests:
            digest.update(name.encode() + forest.value.tobytes())
    for name, array in sorted(predictor.state.items()):
        if name.startswith("judge."):  # no training changes the other tensors alone
            digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    if predictor.processes is not None:
        for name, array in predictor.processes.arrays().items():
            digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()[:32]


def _folder() -> Path:
    return cache_folder() / "corrections"


def _load(name: str) -> tuple[dict[str, NDArray[Any]], int] | None:
    """The arrays of a cached correction and its number of measurements; None if it is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    from ..trees.forest import UNREADABLE

    with suppress(FormatError, OSError, SafetensorError, ValueError, IndexError, *UNREADABLE):
        arrays = load(read_bounded(_folder() / f"{name}.safetensors", LARGEST_FILE, only_regular=True))
        return arrays, int(arrays.pop(MEASUREMENTS)[0])
    return None


def _keep(name: str, arrays: dict[str, NDArray[Any]], measurements: int) -> None:
    """Cache a correction, if the folder can be written."""
    from safetensors.numpy import save

    with suppress(OSError, SeqtuneError):
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / f"{name}.safetensors") as scratch:
            scratch.write_bytes(save({**arrays, MEASUREMENTS: np.array([measurements])}))
        for old in sorted(folder.glob("[!.]*"), key=lambda file: -file.stat().st_mtime)[KEPT_FILES:]:
            old.unlink()
