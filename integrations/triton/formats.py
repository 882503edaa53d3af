"""Import of the results that triton.autotune keeps on disk (`TRITON_CACHE_AUTOTUNING=1`, vLLM's default).

A file `FUNCTION.autotune.json` holds one key of one kernel: `key` (the values of the autotuner's key arguments, then
the element types of the tensors) and the milliseconds (median, 20 %, 80 %) of each configuration, infinite where it
failed. The file names neither the GPU nor the key arguments, so the user gives them (`--device`, `--keys`). The kernel
becomes a declared one: each setting that a configuration names is a parameter, whose values are all that occur.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from seqtune.data.formats.foreign_records import (
    LARGEST_SIZE,
    UNKNOWN_OUTCOME,
    ForeignRecord,
    ForeignRecords,
    check_times,
    import_result,
    milliseconds,
    plain_word,
    setting,
    why_no_settings,
)
from seqtune.data.formats.format import NAME, Format, ImportResult, check_names
from seqtune.data.json_content import read_object
from seqtune.data.record import Status
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.devices.accelerators import described, similar_names
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Setting
from seqtune.kernels.operations.feature import Value

MOST_FAULTS = 10  # damaged files that are named; all are counted
MOST_KEYS = 64  # entries of a key
LONGEST_WORD = 60  # characters of an entry that is a word
OPTIONS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}  # a triton.Config's, with defaults
PLAIN = ("num_warps", "num_stages")  # always parameters; the other options only where a configuration sets them
_TYPE = re.compile(r"(?:torch\.)?(?:float|bfloat|int|uint|complex|bool)\d*\w*")


def read_autotune(path: Path, keys: Sequence[str] = ()) -> ForeignRecords:
    """Read one file, which does not tell the device. `keys` are the names of its key's first entries.

    Raises FormatError, and MisuseError for too many names.
    """
    content = read_object(path)
    key, listed = content.get("key"), content.get("configs_timings")
    if not isinstance(key, list) or not isinstance(listed, list) or len(key) > MOST_KEYS:
        raise FormatError(f"{path} is no result of triton.autotune: it needs key and configs_timings")
    records = ForeignRecords(path.name, path.name.partition(".")[0], "", {}, features=key_features(key, keys),
                             path=str(path))
    rows: list[tuple[dict[str, Setting], ForeignRecord]] = []
    for entry in listed:
        outcome = _row(entry)
        if isinstance(outcome, str):
            records.skipped[outcome] += 1
        else:
            rows.append(outcome)
    names = list(dict.fromkeys(name for settings, _ in rows for name in settings))
    defaults = {name: 0 if default is None else default for name, default in OPTIONS.items()}
    records.parameters = {name: [] for name in names}
    for settings, row in rows:
        whole = {**{name: defaults[name] for name in names if name in defaults}, **settings}
        if len(whole) < len(names):
            records.skipped["a configuration without all parameters"] += 1
        else:
            records.rows.append(row._replace(settings=tuple(whole[name] for name in names)))
    check_times(path, records.rows, records.skipped, len(listed))
    return records


def key_features(key: Sequence[object], names: Sequence[str] = ()) -> dict[str, Value]:
    """The features of a problem with this key; the first entries have the `names`, others `key_0`, `key_1` ...

    The element types that end a key are `dtype`, the first of them, and `dtypes`, all of them if they differ. Raises
    MisuseError for more names than there are entries.
    """
    entries = list(key)
    types: list[str] = []
    while len(entries) > len(names) and _TYPE.fullmatch(str(entries[-1])):
        types.insert(0, str(entries.pop()).removeprefix("torch."))
    if len(names) > len(entries):
        raise MisuseError(f"a key has {len(entries)} entries, and {len(names)} names were given ({', '.join(names)})")
    labels = [*names, *(f"key_{number}" for number in range(len(names), len(entries)))]
    features: dict[str, Value] = {label: _value(entry) for label, entry in zip(labels, entries, strict=True)}
    if types:
        features["dtype"] = types[0]
    if len(set(types)) > 1:
        features["dtypes"] = "-".join(types)
    return features


def config_settings(kwargs: Mapping[str, object], options: Mapping[str, object]) -> dict[str, Setting] | str:
    """A configuration's settings by name, or the reason why one of them is no value of a parameter.

    `options` are those of a triton.Config beside its kwargs. Options at their defaults are left out, except num_warps
    and num_stages.
    """
    settings = {**kwargs, **{name: value for name, default in OPTIONS.items()
                             if (value := options.get(name, default)) != default or name in PLAIN}}
    if reason := why_no_settings(settings):
        return reason
    return {name: setting(value) for name, value in settings.items()}


def _row(entry: object) -> tuple[dict[str, Setting], ForeignRecord] | str:
    """One configuration's settings and measurement, or the reason why it is left out."""
    config, times = entry if isinstance(entry, list) and len(entry) == 2 else (None, None)
    kwargs = config.get("kwargs") if isinstance(config, dict) else None
    if not isinstance(config, dict) or not isinstance(kwargs, dict):
        return "no configuration of Triton's"
    if config.get("ir_override") is not None:
        return "a configuration whose code was replaced (ir_override)"
    if not all(re.fullmatch(NAME, name) for name in kwargs):
        return "a configuration with a name that no parameter can have"
    settings = config_settings(kwargs, config)
    if isinstance(settings, str):
        return settings
    row = timed(times if isinstance(times, list) else [times])
    return UNKNOWN_OUTCOME if row is None else (settings, row)


def timed(times: Sequence[Any]) -> ForeignRecord | None:
    """The measurement that `do_bench` returned: milliseconds (median, 20 %, 80 %); None if they are no times."""
    if not times or any(isinstance(time, bool) or not isinstance(time, int | float) for time in times):
        return None
    if times[0] == math.inf:
        return ForeignRecord((), Status.RUNTIME, math.inf)
    seconds = milliseconds(times[0])
    if seconds <= 0:
        return None
    low, high = (milliseconds(time) for time in times[1:3]) if len(times) >= 3 else (0.0, 0.0)
    return ForeignRecord((), Status.CORRECT, seconds, 1, max(0.0, high - low) / seconds)


def _value(entry: object) -> Value:
    if isinstance(entry, int) and not isinstance(entry, bool) and abs(entry) <= LARGEST_SIZE:
        return entry
    if isinstance(entry, float) and math.isfinite(entry):
        return entry
    return plain_word(str(entry)[:LONGEST_WORD], "word")


def _named_gpu(devices: Sequence[str | Device]) -> Device:
    """The GPU that the user named, `triton:h200`. Raises MisuseError."""
    if not devices:
        raise MisuseError("files of triton do not name their GPU; name it, for example --device triton:h200")
    given = devices[0]
    if isinstance(given, Device):
        device: Device | None = given
    else:
        backend, _, model = given.strip().lower().rpartition(":")
        device = described(backend or "triton", model)
    if device is not None and device.backend != "triton":
        raise MisuseError(f"files of triton hold times of devices of triton, such as triton:h200, not of {device.name}")
    if device is None:
        known = similar_names(str(given).rpartition(":")[2])
        raise MisuseError(f"no GPU {given!r:.60} is described; known ones are {known} (seqtune devices --all lists "
                          "them)")
    return device


def _read(files: Sequence[Path], devices: Sequence[str | Device], keys: Sequence[str] = ()) -> ImportResult:
    records, faults = [], []
    for file in files:
        try:
            records.append(read_autotune(file, keys))
        except FormatError as error:
            faults.append(str(error))
    if not records:
        raise FormatError(faults[0] + (f" (no other of {len(faults)} files is readable)" if faults[1:] else ""))
    device = _named_gpu(devices)
    for record in _numbered(records):
        record.device, record.facts = device.name, device
    result = import_result(records, "triton")
    count = (f"left out {len(faults)} of {len(files)} files",) if faults else ()
    return replace(result, notes=(*count, *faults[:MOST_FAULTS]))


def _numbered(files: list[ForeignRecords]) -> list[ForeignRecords]:
    """The files, with numbers in the names of kernels that have one name and different parameters."""
    seen: dict[str, list[frozenset[str]]] = {}
    for file in files:
        variants = seen.setdefault(file.kernel, [])
        parameters = frozenset(file.parameters)
        if parameters not in variants:
            variants.append(parameters)
        if (number := variants.index(parameters) + 1) > 1:
            file.kernel = f"{file.kernel}-{number}"
    return files


def _named(keys: Sequence[str]) -> Any:
    check_names(keys)
    return partial(_read, keys=tuple(keys))


TRITON = Format(("*.autotune.json", "*/*.autotune.json"), read=_read, devices=1, named=_named)
