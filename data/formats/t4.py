"""T4, the auto-tuning community's format for results, in and out (github.com/odgaard/TuningSchema, version 1.0.0).

A file holds one search: per configuration its parameters, the times of its runs, and how it ended, in the words that
our statuses are. It does not say which kernel, problem or device: those stand in the file's name, and in ours under
`metadata`, which other readers pass over.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.device import Device
from seqtune.kernels.files import write_whole
from seqtune.kernels.problem import Problem

from ..dataset import Dataset
from ..journal import REPEATED, Journal
from ..record import Measurement, Record, Status
from .dataset_file import read_dataset
from .foreign_records import Recorded, Row, is_setting, milliseconds, named, reading, setting
from .format import ExportRequest, Format, Reading, Report
from .kernel_tuner import read_json

VERSION = "1.0.0"
_UNITS = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "": 1e-3, "milliseconds": 1e-3, "miliseconds": 1e-3, "us": 1e-6,
          "µs": 1e-6, "microseconds": 1e-6, "ns": 1e-9, "nanoseconds": 1e-9}  # Kernel Tuner leaves the unit out
_OURS = {Status.CRASH: Status.RUNTIME}  # T4 has no word for it


def results(records: Iterable[Record], problem: Problem, device: Device) -> dict[str, Any]:
    """The object that a T4 file holds, of the records of one problem on one device.

    Where kernel families compete, `kernel` is one more parameter.
    """
    found = [record for record in records if record.measurement.status is not Status.CHOSEN]
    families = list(dict.fromkeys(record.configuration.kernel for record in found))
    about = {"kernel": families[0] if len(families) == 1 else "", "problem": problem.key, "device": device.name,
             "model": device.model, "toolchain": device.toolchain}
    return {"schema_version": VERSION, "metadata": {"timeunit": "milliseconds", **about},
            "results": [_result(record, len(families) > 1) for record in found]}


def _result(record: Record, name_kernel: bool) -> dict[str, Any]:
    measured = record.measurement
    status = _OURS.get(measured.status, measured.status)
    runtimes = [seconds * 1e3 for seconds in measured.samples]
    settings = dict(record.configuration.settings)
    return {
        "timestamp": datetime.datetime.fromtimestamp(record.when, datetime.UTC).isoformat(),
        "configuration": {"kernel": record.configuration.kernel, **settings} if name_kernel else settings,
        "times": {"compilation_time": measured.build_seconds * 1e3, "runtimes": runtimes, "framework": 0,
                  "search_algorithm": 0, "validation": 0},
        "invalidity": status.value, "correctness": int(status is Status.CORRECT),
        "measurements": ([{"name": "time", "value": measured.seconds * 1e3, "unit": "ms"}]
                         if math.isfinite(measured.seconds) else []),
        "objectives": ["time"]}


def read_t4(path: Path, device: str | None = None) -> Recorded:
    """One file's results, as measurements of a kernel named as the metadata or else the file is. Raises FormatError."""
    content = read_json(path)
    entries, about = content.get("results"), content.get("metadata", {})
    if not isinstance(entries, list) or not isinstance(about, dict):
        raise FormatError(f"{path} is no file of T4 results: it needs a list of results")
    stem = path.name.partition(".")[0]
    said = about.get("device")
    unit = _unit(path, about.get("timeunit", "ms"))
    found = Recorded(path.name, str(about.get("kernel") or stem), device or (str(said) if said else stem), {},
                     [str(about["problem"])] if about.get("problem") else [], model=str(about.get("model", "")))
    rows: list[tuple[Mapping[str, Any], Row]] = []
    for entry in entries:
        row = _row(path, entry, unit) if isinstance(entry, dict) else None
        if row is None:
            found.skipped["neither a time nor a failure that is known"] += 1
        else:
            rows.append((entry["configuration"], row))
    names = list(dict.fromkeys(name for settings, _ in rows for name in settings))
    found.parameters = {name: [] for name in names}
    for settings, row in rows:
        if len(settings) < len(names):
            found.skipped["a configuration without all parameters"] += 1
        else:
            found.rows.append(row._replace(settings=tuple(setting(settings[name]) for name in names)))
    if not any(row.status is Status.CORRECT for row in found.rows):
        raise FormatError(f"{path} holds no time")
    return found


def _unit(path: Path, name: object) -> float:
    """In seconds."""
    if str(name).lower() not in _UNITS:
        raise FormatError(f"{path} has times in {name!r:.40}; there are {', '.join(filter(None, _UNITS))}")
    return _UNITS[str(name).lower()]


def _row(path: Path, entry: Mapping[str, Any], unit: float) -> Row | None:
    settings, times = entry.get("configuration"), entry.get("times")
    if not isinstance(settings, dict) or not settings or not isinstance(times, dict) or not all(
            map(is_setting, settings.values())):
        return None
    build = milliseconds(times.get("compilation_time", times.get("compilation"))) * unit / 1e-3
    word = str(entry.get("invalidity", "correct"))
    if word != Status.CORRECT.value:
        known = {status.value for status in Status} - {Status.CHOSEN.value}
        return Row((), Status(word), math.inf, build_seconds=build) if word in known else None
    listed = times.get("runtimes")
    runs = [milliseconds(one) * unit / 1e-3 for one in listed] if isinstance(listed, list) else []
    runs = [seconds for seconds in runs if seconds > 0]
    seconds = _measured(path, entry.get("measurements")) or (sum(runs) / len(runs) if runs else 0.0)
    if seconds <= 0:
        return None
    spread = Measurement(Status.CORRECT, tuple(runs)).spread
    return Row((), Status.CORRECT, seconds, len(runs) or 1, spread, build)


def _measured(path: Path, measurements: object) -> float:
    """Seconds of the measurement called `time`; 0 where there is none."""
    for one in measurements if isinstance(measurements, Sequence) else ():
        if isinstance(one, dict) and one.get("name") == "time":
            return milliseconds(one.get("value")) * _unit(path, one.get("unit", "")) / 1e-3
    return 0.0


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> Reading:
    return reading([read_t4(file, named(devices)) for file in files], "t4")


def _write(request: ExportRequest, out: Path) -> Report:
    """Write the trials of one problem on one device, of a data set or else of a journal.

    Neither the problem nor the device needs to be named where there is only one.
    """
    device, records = _trials(request)
    problems = list(dict.fromkeys(record.problem for record in records))
    if request.problem is None and len(problems) != 1:
        raise MisuseError(f"{len(problems)} problems on {device.name}; choose one with --problem")
    problem = problems[0] if request.problem is None else request.problem
    chosen = [record for record in records if record.problem == problem and record.run not in REPEATED]
    if not chosen:
        raise MisuseError(f"there is no trial of {problem.brief()} on {device.name}")
    content = results(chosen, problem, device)
    write_whole(out, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return {"device": device.name, "problem": problem.key, "results": len(content["results"])}


def _trials(request: ExportRequest) -> tuple[Device, list[Record]]:
    """The device and all of its records."""
    name = named(() if request.device is None else (request.device,))
    if request.data is not None:
        data = read_dataset(request.data)
        device = data.device(name)
        return device, list(data.on(device.key).records())
    assert request.journal is not None
    with Journal(request.journal) as journal:
        if not journal.devices():
            raise MisuseError(f"the journal {request.journal} holds no trials")
        device = Dataset(pd.DataFrame(), journal.devices(), {}).device(name)
        return device, list(journal.records(device=device.key))


T4 = Format(("*.json", "*.json.gz"), read=_read, devices=1, write=_write,
            takes=("journal", "data", "problem", "device"))
