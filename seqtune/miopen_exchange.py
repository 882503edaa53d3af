"""MIOpen's data in and out: import of its perf-dbs and find-dbs, export of what it will read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.kernels.device import Device
from seqtune.kernels.files import read_bounded
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from .errors import DeviceError, FormatError, MisuseError
from .inputs import Say, as_device, check_free, load_labels, warned

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset

LARGEST_FILE = 100_000_000  # bytes of predictions
_PATTERNS = ("gfx*.db", "gfx*.db.bz2", "gfx*.fdb.txt", "gfx*.fdb.txt.bz2", "gfx*.udb", "gfx*.udb.txt", "gfx*.ufdb.txt",
             "gfx*.db.txt")


def import_miopen(paths: Sequence[str | Path], out: str | Path, *, devices: Sequence[str | Device] = (),
                  force: bool = False, warn: Say = warned) -> dict[str, Any]:
    """Read MIOpen's perf-dbs and find-dbs (files, or folders of them) into one data set; returns a report.

    `devices` says what file names or the table of GPUs do not: `gfx1201_32 compute_units=64`.
    """
    from seqtune.data.formats.miopen_import import read_files
    from seqtune.kernels.miopen.gpus import is_known

    check_free(Path(out), force)
    found, reports = read_files(find_files(paths), [as_gpu(one) for one in devices])
    told = {as_gpu(one).name for one in devices if isinstance(one, Device) or len(one.split()) > 1}
    for place in found.devices.values():
        if not is_known(place) and place.name not in told:
            warn(f"no facts are known here of {place.architecture}: those of {place.name} are guessed from its name; "
                 f"--device '{place.name.removeprefix('miopen:')} compute_units={place.compute_units}' tells them")
    found.write(out)
    return {"out": str(out), "records": len(found), "problems": len(found.known_problems), "files": reports}


def as_gpu(said: str | Device) -> Device:
    """A GPU as MIOpen names it, with facts after the name or without. Raises DeviceError."""
    return said if isinstance(said, Device) else as_device(f"miopen:{said.strip().removeprefix('miopen:')}")


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files of MIOpen's in these places, which are files or folders of them. Raises MisuseError where none is."""
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise MisuseError(f"no such file: {path}")
        if path.suffix == ".parquet":
            raise MisuseError(f"{path} is a data set; MIOpen's own files are wanted here (perf-dbs, find-dbs)")
        files += sorted({file for pattern in _PATTERNS for file in path.glob(pattern)}) if path.is_dir() else [path]
    if not files:
        raise MisuseError(f"no file of MIOpen's in {paths[0]}" if paths else "name a file of MIOpen's")
    return files


def export_miopen(out: str | Path, form: str, *, data: str | Path | None = None,
                  predictions: str | Path | None = None, device: Device | str | None = None,
                  checkpoint: str | Path = "miopen", force: bool = False) -> dict[str, Any]:
    """Write configurations as MIOpen reads them: those of `predictions` (as `predict --json` prints them), else of a
    data set's `device`. Solvers with a table of rows have it from the data set, or without one from the checkpoint.
    Of each problem and solver the first is written; the report counts it as an entry, and the others as left out.
    """
    from seqtune.data.dataset import Dataset
    from seqtune.data.formats.miopen_export import FORMS, best_of, entries, needs_table
    from seqtune.data.formats.miopen_import import tables_of

    if form not in FORMS:
        raise MisuseError(f"no format {form!r:.40}; there are parquet, t4, {', '.join(FORMS)}")
    if data is None and predictions is None:
        raise MisuseError("name what to export: --data or --predictions")
    check_free(Path(out), force)
    place = None if device is None else as_gpu(device)
    known = None if data is None else Dataset.read(data)
    left = 0
    if predictions is not None:
        read = list(_predictions(Path(predictions)))
        if not read:
            raise FormatError(f"{predictions} holds no prediction; `seqtune predict ... --json` writes one")
        names = sorted({name for name, _, _ in read})
        if place is None:
            if len(names) != 1:
                raise DeviceError(f"the predictions are for {', '.join(names)[:200]}; say --device")
            place = as_gpu(names[0])
        chosen = [(problem, one) for name, problem, one in read if name == place.name]
        left = len(read) - len(chosen)
    else:
        assert known is not None
        place = _recorded(known, place)
        chosen = best_of(known, place)
    if not chosen:
        raise MisuseError(f"there is no configuration for {place.name}")
    tables: Mapping[str, Sequence[str]] = {}
    if known is not None:
        tables = tables_of(known)
    elif any(needs_table(one) for _, one in chosen):
        tables = load_labels(checkpoint).tables
    found = entries(chosen, place, tables)
    written = len({(one.key, one.solver) for one in found})
    FORMS[form](found, Path(out))
    return {"out": str(out), "device": place.name, "entries": written, "left_out": left + len(found) - written,
            "problems": len({one.key for one in found})}


def _recorded(data: Dataset, wanted: Device | None) -> Device:
    devices = [one for one in data.devices.values() if one.backend == "miopen"
               and (wanted is None or one.name == wanted.name)]
    if len(devices) != 1:
        names = ", ".join(sorted(one.name for one in data.devices.values()))
        asked = "which GPU? Say --device" if wanted is None else f"nothing is recorded of {wanted.name}"
        raise DeviceError(f"{asked}; the data set has {names}")
    return devices[0]


def _predictions(path: Path) -> Iterator[tuple[str, Problem, Configuration]]:
    """Device's name, problem and configuration of every candidate, most promising first."""
    text = read_bounded(path, LARGEST_FILE).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            problem, name = Problem.from_json(found["problem"]), str(found["device"])
            for one in found["candidates"]:
                settings = one["configuration"]
                if not all(isinstance(value, int | str) for value in settings.values()):
                    raise TypeError
                yield name, problem, Configuration.of(str(one["kernel"]), settings)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise FormatError(f"{path}:{number}: not a prediction as `seqtune predict --json` prints it") from None
