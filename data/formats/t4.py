"""T4, the auto-tuning community's format for results, in and out (github.com/odgaard/TuningSchema, version 1.0.0).

A file holds one search: the parameters of each configuration, the times of its runs, and its status, in the words of
`seqtune.data.record.Status`. It does not contain the kernel, problem and device: other tools put them into the file's
name, and seqtune also into `metadata`, which other readers ignore.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import write_whole
from seqtune.kernels.problem import Problem

from ..dataset import Dataset
from ..journal.journal import REPEATED, Journal
from ..json_content import read_object
from ..record import Measurement, Record, Status
from .dataset_file import read_dataset
from .foreign_records import (
    UNKNOWN_OUTCOME,
    ForeignRecord,
    ForeignRecords,
    check_times,
    import_result,
    milliseconds,
    setting,
    single_name,
    why_no_settings,
)
from .format import Format, ImportResult, Report

VERSION = "1.0.0"
_UNITS = {word: seconds for seconds, words in {  # Kernel Tuner once wrote "miliseconds"; there are two characters µ
    1.0: "s sec secs second seconds", 1e-3: "ms msec msecs millisecond milliseconds milisecond miliseconds",
    1e-6: "us \N{MICRO SIGN}s \N{GREEK SMALL LETTER MU}s usec usecs microsecond microseconds",
    1e-9: "ns nsec nsecs nanosecond nanoseconds"}.items() for word in words.split()}
_USUAL_UNIT = "ms"  # of files that name none, as Kernel Tuner's
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_WRITTEN_STATUS = {Status.CRASH: Status.RUNTIME}  # T4 has no word for a crash


def results(records: Iterable[Record], problem: Problem, device: Device) -> dict[str, Any]:
    """The content of a T4 file: the records of one problem on one device.

    If there are several kernel families, `kernel` is one more parameter.
    """
    measured = [record for record in records if record.measurement.status is not Status.CHOSEN]
    families = list(dict.fromkeys(record.configuration.kernel for record in measured))
    about = {"kernel": families[0] if len(families) == 1 else "", "problem": problem.key, "device": device.name,
             "model": device.model, "toolchain": device.toolchain}
    return {"schema_version": VERSION, "metadata": {"timeunit": "milliseconds", **about},
            "results": [_result(record, len(families) > 1) for record in measured]}


def _result(record: Record, name_kernel: bool) -> dict[str, Any]:
    measured = record.measurement
    status = _WRITTEN_STATUS.get(measured.status, measured.status)
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


def read_t4(path: Path, device: str | None = None) -> ForeignRecords:
    """Read one file's results. The kernel has its name in the metadata or else the file's name. Raises FormatError."""
    content = read_object(path)
    entries, about = content.get("results"), content.get("metadata")
    about = {} if about is None else about
    if not isinstance(entries, list) or not isinstance(about, dict):
        raise FormatError(f"{path} is no file of T4 results: it needs a list of results")
    stem = path.name.partition(".")[0]
    device_name = about.get("device")
    unit = _unit(path, about.get("timeunit"), _UNITS[_USUAL_UNIT])
    foreign = ForeignRecords(path.name, str(about.get("kernel") or stem),
                             device or (str(device_name) if device_name else stem), {},
                             [str(about["problem"])] if about.get("problem") else [], model=str(about.get("model", "")))
    rows: list[tuple[Mapping[str, Any], ForeignRecord]] = []
    for entry in entries:
        row = _row(path, entry, unit) if isinstance(entry, dict) else "no object"
        if isinstance(row, str):
            foreign.skipped[row] += 1
        else:
            rows.append((entry["configuration"], row))
    names = list(dict.fromkeys(name for settings, _ in rows for name in settings))
    foreign.parameters = {name: [] for name in names}
    for settings, row in rows:
        if len(settings) < len(names):
            foreign.skipped["a configuration without all parameters"] += 1
        else:
            foreign.rows.append(row._replace(settings=tuple(setting(settings[name]) for name in names)))
    check_times(path, foreign.rows, foreign.skipped, len(entries))
    return foreign


def _unit(path: Path, name: object, usual: float) -> float:
    """The seconds in one unit of this name; `usual` if it is missing, null or empty. Raises FormatError."""
    word = "" if name is None else str(name).strip().lower()
    if not word:
        return usual
    if word not in _UNITS:
        raise FormatError(f"{path} has times in {name!r:.40}; there are s, ms, us and ns, also written out")
    return _UNITS[word]


def _row(path: Path, entry: Mapping[str, Any], unit: float) -> ForeignRecord | str:
    """One configuration's measurement, or the reason why it is left out."""
    settings, times = entry.get("configuration"), entry.get("times")
    if not isinstance(settings, dict) or not settings or not isinstance(times, dict):
        return "a result without configuration and times"
    if reason := why_no_settings(settings):
        return reason
    build = milliseconds(times.get("compilation_time", times.get("compilation"))) * unit / 1e-3
    word = str(entry.get("invalidity", "correct"))
    if word != Status.CORRECT.value:
        statuses = {status.value for status in Status} - {Status.CHOSEN.value}
        return ForeignRecord((), Status(word), math.inf, build_seconds=build) if word in statuses else UNKNOWN_OUTCOME
    if entry.get("correctness") == 0:  # some tools say so here alone
        return ForeignRecord((), Status.CORRECTNESS, math.inf, build_seconds=build)
    listed = times.get("runtimes")
    runs = [milliseconds(time) * unit / 1e-3 for time in listed] if isinstance(listed, list) else []
    runs = [seconds for seconds in runs if seconds > 0]
    seconds = _measured(path, entry.get("measurements"), unit) or (sum(runs) / len(runs) if runs else 0.0)
    if seconds <= 0:
        return UNKNOWN_OUTCOME
    spread = Measurement(Status.CORRECT, tuple(runs)).spread
    return ForeignRecord((), Status.CORRECT, seconds, len(runs) or 1, spread, build)


def _measured(path: Path, measurements: object, unit: float) -> float:
    """The seconds of the measurement named `time`, which has the file's `unit` unless it names one; 0 if there is none.

    The schema allows a number, its text, and a list, whose mean counts.
    """
    for measurement in measurements if isinstance(measurements, Sequence) else ():
        if isinstance(measurement, dict) and measurement.get("name") == "time":
            value = measurement.get("value")
            times = [milliseconds(_number(each)) for each in (value if isinstance(value, list) else [value])]
            are_times = bool(times) and all(times)
            return sum(times) / len(times) * _unit(path, measurement.get("unit"), unit) / 1e-3 if are_times else 0.0
    return 0.0


def _number(value: object) -> object:
    """The number in a text; other values as they are."""
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value.strip()) else value


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> ImportResult:
    return import_result([read_t4(file, single_name(devices)) for file in files], "t4")


def _write(out: Path, *, journal: Path | None, data: Path | None, device: str | Device | None,
           problem: Problem | None) -> Report:
    """Write the trials of one problem on one device, from a data set or else from a journal.

    The problem and the device are needed only if there are several.
    """
    present, records = _trials(journal, data, device)
    problems = list(dict.fromkeys(record.problem for record in records))
    if problem is None and len(problems) != 1:
        raise MisuseError(f"{len(problems)} problems on {present.name}; choose one with --problem")
    problem = problems[0] if problem is None else problem
    chosen = [record for record in records if record.problem == problem and record.run not in REPEATED]
    if not chosen:
        raise MisuseError(f"there is no trial of {problem.brief()} on {present.name}")
    content = results(chosen, problem, present)
    write_whole(out, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return {"device": present.name, "problem": problem.key, "results": len(content["results"])}


def _trials(journal: Path | None, data: Path | None, device: str | Device | None) -> tuple[Device, list[Record]]:
    """The device and all of its records. Raises DeviceError and MisuseError."""
    name = single_name(() if device is None else (device,))
    if data is not None:
        known = read_dataset(data)
        present = known.device(name)
        return present, list(known.on(present.key).records())
    assert journal is not None
    with Journal(journal) as opened:
        if not opened.devices():
            raise MisuseError(f"the journal {journal} holds no trials")
        present = Dataset(pd.DataFrame(), opened.devices(), {}).device(name)
        return present, list(opened.records(device=present.key))


T4 = Format(("*.json", "*.json.gz"), read=_read, devices=1, write=_write)
