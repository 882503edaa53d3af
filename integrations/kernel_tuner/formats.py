"""Import of Kernel Tuner's cache files (.json, .json.gz), such as those of a brute-force run, into a data set.

A cache contains the kernel, the device, the problem's size, all values of all parameters, and the mean time or failure
of each configuration. It does not contain the restrictions: the space has all combinations of the listed values, and
configurations that are not in the cache count as not measured. A cache of an interrupted run lacks its last brackets.

`--keys` names further features of the problem: a parameter with a single value in each cache, or an entry of the cache
beside `tune_params`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from seqtune.data.formats.foreign_records import (
    STATUSES,
    UNKNOWN_OUTCOME,
    ForeignRecord,
    ForeignRecords,
    as_listed,
    check_times,
    feature_value,
    import_result,
    is_setting,
    milliseconds,
    setting,
    single_name,
    why_no_settings,
)
from seqtune.data.formats.format import Format, ImportResult, Reader, check_names
from seqtune.data.json_content import read_object
from seqtune.data.record import Measurement, Status
from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Setting
from seqtune.kernels.operations.feature import Value


def read_cache(path: Path, device: str | None = None, keys: Sequence[str] = ()) -> ForeignRecords:
    """Read one cache; `device` replaces the file's name of the device, `keys` are features of the problem.

    Raises FormatError.
    """
    content = read_object(path, mend=True)
    entries, names = content.get("cache"), content.get("tune_params_keys")
    listed = content.get("tune_params", {})
    if (not isinstance(entries, dict) or not isinstance(names, list) or not isinstance(listed, dict)
            or not all(isinstance(name, str) and isinstance(listed.get(name, []), list) for name in names)):
        raise FormatError(f"{path} is no cache of Kernel Tuner's: it needs cache, tune_params_keys and tune_params")
    if len(set(names)) < len(names):
        raise FormatError(f"{path} names a parameter twice")
    for name in names:
        for value in listed.get(name, []):
            if reason := why_no_settings({name: value}):
                raise FormatError(f"{path}: {reason}")
    features = {key: _feature(path, key, content, listed) for key in keys}
    sizes = content.get("problem_size", [])
    device_name = str(content.get("device_name") or "").strip()
    records = ForeignRecords(
        path.name, str(content.get("kernel_name") or path.name.partition(".")[0]),
        device or device_name or path.name.partition(".")[0],
        {name: [setting(value) for value in listed.get(name, [])] for name in names if name not in features},
        sizes if isinstance(sizes, list) else [sizes], model=device_name, features=features)
    readers = {name: as_listed(values) for name, values in records.parameters.items()}
    for entry in entries.values():
        row = _row(readers, entry)
        if isinstance(row, str):
            records.skipped[row] += 1
        else:
            records.rows.append(row)
    objective = content.get("objective", "time")
    if objective != "time" and not any(row.status is Status.CORRECT for row in records.rows):
        raise FormatError(f"{path} holds no time (its objective is {str(objective)[:40]!r})")
    check_times(path, records.rows, records.skipped, len(entries))
    return records


def _feature(path: Path, key: str, content: Mapping[str, Any], listed: Mapping[str, Sequence[Any]]) -> Value:
    """The value of a feature of a cache's problem. Raises FormatError if it has none, or several."""
    if key in listed and len(listed[key]) != 1:
        raise FormatError(f"{path}: the parameter {key[:40]} has {len(listed[key])} values; a key of problems has one "
                          "in each cache")
    value = listed[key][0] if key in listed else content.get(key)
    if not is_setting(value):
        raise FormatError(f"{path} has neither a parameter nor an entry {key[:40]!r} that is a number or a word")
    return feature_value(value)


def _read(files: Sequence[Path], devices: Sequence[str | Device], keys: Sequence[str] = ()) -> ImportResult:
    return import_result([read_cache(file, single_name(devices), keys) for file in files], "kernel-tuner")


def _named(keys: Sequence[str]) -> Reader:
    check_names(keys)
    return partial(_read, keys=tuple(keys))


KERNEL_TUNER = Format(("*.json", "*.json.gz"), read=_read, devices=1, named=_named)


def _row(readers: Mapping[str, Callable[[Setting], Setting]], entry: object) -> ForeignRecord | str:
    """One configuration's measurement, or the reason why it is left out; `readers` read the parameters' values."""
    if not isinstance(entry, dict) or not all(name in entry for name in readers):
        return "a configuration without its parameters"
    values = {name: entry[name] for name in readers}
    if reason := why_no_settings(values):
        return reason
    settings = tuple(read(setting(values[name])) for name, read in readers.items())
    return _measured(settings, entry) or UNKNOWN_OUTCOME


def _measured(settings: tuple[Setting, ...], entry: Mapping[str, Any]) -> ForeignRecord | None:
    time, build = entry.get("time"), milliseconds(entry.get("compile_time"))
    if isinstance(time, str):
        status = STATUSES.get(time, Status.CORRECT)
        return None if status is Status.CORRECT else ForeignRecord(settings, status, math.inf, build_seconds=build)
    seconds = milliseconds(time)
    if seconds <= 0:
        return None
    times = entry.get("times")
    samples = tuple(filter(None, map(milliseconds, times))) if isinstance(times, list) else ()
    spread = Measurement(Status.CORRECT, samples).spread
    return ForeignRecord(settings, Status.CORRECT, seconds, len(samples) or 1, spread, build)
