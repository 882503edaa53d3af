"""Recorded spaces on disk: a Parquet file per kernel, a row per device and configuration, and one `spaces.json`.
`spaces.json` holds, by the Parquet file's name: kernel, tune_params (name -> values), restrictions, problem_size and
devices (name -> device_name, vendor). A single Parquet file without it has its part as the metadata `space`.
Columns: device, one per parameter, status (`ok` or Kernel Tuner's word for the failure), time_ms (mean of the runs),
and optionally `measured`, `n_runs` and `compile_ms`. Rows that are not `measured` have invented times and are left out;
valid configurations without a row were not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from seqtune.errors import FormatError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import read_bounded, reason
from seqtune.kernels.kernel import Setting

from ..dataset import Dataset
from ..json_content import parse_json
from ..parquet_file import open_parquet, read_columns, values_of
from ..record import Status
from .foreign_records import (
    MOST_ROWS,
    STATUSES,
    ForeignRecord,
    ForeignRecords,
    as_listed,
    import_result,
    is_setting,
    milliseconds,
    setting,
    to_dataset,
    why_no_settings,
)
from .format import Format, ImportResult

SPACES = "spaces.json"
MOST_RUNS = 1_000_000  # runs of one configuration
LARGEST_SPACES = 10_000_000  # bytes
_NUMBERS = {"time_ms": pa.float64(), "measured": pa.bool_(),
            "n_runs": pa.float64(), "compile_ms": pa.float64()}


class _Device(BaseModel):
    model_config = ConfigDict(strict=True)

    device_name: str = ""
    vendor: str = ""


class _Space(BaseModel):
    model_config = ConfigDict(strict=True)

    kernel: str
    tune_params: dict[str, list[Setting]]
    restrictions: list[str] = []
    problem_size: list[int] | int = []
    devices: dict[str, _Device] = {}


def is_recorded(path: Path) -> bool:
    """Whether the path is a folder with a spaces.json, or a Parquet file of recorded spaces."""
    if path.is_dir():
        return (path / SPACES).is_file()
    if not path.is_file():
        return False  # opening a pipe would wait for its writer
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        return False
    metadata = schema.metadata or {}
    return b"seqtune" not in metadata and (
        b"space" in metadata or (path.with_name(SPACES).is_file() and "time_ms" in schema.names))


def read_recorded(path: Path) -> Dataset:
    """Read a folder or file of recorded spaces as a data set. Raises FormatError."""
    return to_dataset(list(recordings(path)), "recorded spaces")


def recordings(path: Path) -> Iterator[ForeignRecords]:
    """Read the records of each kernel and device. Raises FormatError."""
    spaces_path = path / SPACES if path.is_dir() else path.with_name(SPACES)
    spaces = _spaces(spaces_path) if spaces_path.is_file() else {}
    if not path.is_dir():
        yield from _of_file(path, spaces.get(path.stem))
        return
    for name, space in spaces.items():
        yield from _of_file(path / f"{Path(name).name}.parquet", space)


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> ImportResult:
    return import_result([space for file in files for space in recordings(file)], "recorded")


RECORDED = Format(("*.parquet",), read=_read)


def _spaces(path: Path) -> dict[str, _Space]:
    try:
        content = parse_json(read_bounded(path, LARGEST_SPACES), path)
        if not isinstance(content, dict):
            raise FormatError(f"{path} is not an object of spaces")
        return {str(name): _Space.model_validate(space) for name, space in content.items()}
    except ValidationError as error:
        raise FormatError(f"{path} does not describe recorded spaces: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:300]


def _of_file(path: Path, space: _Space | None) -> Iterator[ForeignRecords]:
    try:
        file = open_parquet(path, MOST_ROWS)
        if space is None:
            text = (file.schema_arrow.metadata or {}).get(b"space", b"{}")
            space = _Space.model_validate(parse_json(text, f"{path}: its space"))
        if not space.tune_params:
            raise FormatError(f"{path}: its space names no parameter")
        present = set(file.schema_arrow.names)
        needed = ["device", "status", "time_ms", *space.tune_params]
        for name in needed:
            if name not in present:
                raise FormatError(f"{path} has no column {name!r:.40}")
        names = [*needed, *(name for name in ("measured", "n_runs", "compile_ms") if name in present)]
        table = read_columns(path, file, list(dict.fromkeys(names)))
        for name in ("device", "status"):
            if not pa.types.is_dictionary(table.column(name).type):
                raise FormatError(f"{path} is no Parquet file of a recorded space: the column {name} holds no text")
        columns = {name: values_of(table.column(name).cast(_NUMBERS[name]) if name in _NUMBERS else table.column(name))
                   for name in table.column_names}
    except OSError as error:
        raise FormatError(f"cannot read {path}: {reason(error)}") from None
    except ValidationError as error:
        raise FormatError(f"{path} says nothing about its space: {_first(error)}") from None
    except pa.ArrowException as error:
        message = one_line(error, 200)
        raise FormatError(f"{path} is no Parquet file of a recorded space: {message}") from None
    sizes: Sequence[int] = space.problem_size if isinstance(space.problem_size, list) else [space.problem_size]
    parameters = {name: [setting(value) for value in values] for name, values in space.tune_params.items()}
    readers = [as_listed(values) for values in parameters.values()]
    records: dict[str, ForeignRecords] = {}
    settings = list(zip(*(columns[name] for name in parameters), strict=True))
    blank = [None] * len(settings)
    rest = zip(columns["device"], columns["status"], columns["time_ms"], columns.get("measured", blank),
               columns.get("n_runs", blank), columns.get("compile_ms", blank), strict=True)
    for values, (device, status, time, measured, runs, compiling) in zip(settings, rest, strict=True):
        if device not in records:
            facts = space.devices.get(str(device), _Device())
            records[device] = ForeignRecords(str(path), space.kernel, str(device), parameters, sizes,
                                             space.restrictions, facts.device_name, facts.vendor)
        record = records[device]
        if measured is False:
            record.skipped["not measured, but made up"] += 1
            continue
        outcome = _outcome(path, status, time)
        if not all(map(is_setting, values)):
            record.skipped[str(why_no_settings(dict(zip(parameters, values, strict=True))))] += 1
        elif not outcome:
            record.skipped["a time that no clock shows"] += 1
        else:
            read = tuple(read(value) for read, value in zip(readers, values, strict=True))
            record.rows.append(ForeignRecord(read, *outcome, _count(runs), 0.0, milliseconds(compiling)))
    yield from records.values()


def _outcome(path: Path, status: Any, time: Any) -> tuple[Status, float] | None:
    if status not in STATUSES:
        raise FormatError(f"{path}: unknown status {status!r:.40}")
    if STATUSES[status] is not Status.CORRECT:
        return STATUSES[status], math.inf
    seconds = milliseconds(time)
    return (Status.CORRECT, seconds) if seconds else None


def _count(runs: float | None) -> int:
    """The number of runs; 1 if the file does not give it."""
    return int(runs) if runs is not None and 1 <= runs <= MOST_RUNS else 1
