"""Dataset: many trials as a table, stored as one Parquet file, with the columns that learning needs.

One row per measurement. Columns (Parquet types in SCHEMA):

    device         Device.key; its facts are in the metadata
    problem        Problem.key; its features are in the metadata
    kernel         name of the kernel family
    kernel_version the family's version when measured
    configuration  the settings as compact JSON, in the kernel's order
    status         a word of `seqtune.data.record.Status`; `chosen` if a foreign tuner stored its choice but no times
    seconds        shortest sample of one launch; if the status is not `correct`, null on disk and infinite in memory
    spread         interquartile range / median of the samples
    samples        number of samples; few if the trial was stopped early because it was slow
    error          max|difference| / max|reference|; null if it was not computed, or left out of a reduced file
    build_seconds  seconds of the compiler; 0 if an earlier build was reused; only those of reading the cache if the
                   kernel had been compiled ahead or earlier
    run            purpose of the measurement: a strategy, or `final`, `verify` or `again` for an intended repetition
    toolchain      Device.toolchain when measured
    workspace      bytes that the kernel needs besides its tensors; 0 if none, or not known
    registers      registers of a thread, as built; 0 if the resources are not known (then the next three are 0, too)
    shared_bytes   bytes of shared memory of a block, static and dynamic
    spill_bytes    bytes that a thread stores and loads because its registers do not suffice
    occupancy      share of a unit's warps that run at a time, 0 to 1

If the parameters of a kernel are not known (a foreign one of which only a time is known), the configuration is `{}`.

The file's metadata holds, under `seqtune`, a JSON object: version, devices (key -> facts), problems (key -> features,
for problems whose key does not contain them), held_out (keys of problems that no model may learn from), provenance (any
words about the source of the data) and, if there are any, kernels (declarations of foreign kernel families, as
`seqtune.kernels.declaration` writes them) and versions (the parts of the versions of kernels that a library's file
declares, `seqtune.kernels.libraries.versions`).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from seqtune.errors import DeviceError, FormatError, MisuseError, SeqtuneWarning
from seqtune.kernels.declaration import to_json
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import replacing
from seqtune.kernels.kernel import Configuration, Kernel, is_setting
from seqtune.kernels.libraries.versions import KernelVersions
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import parse_keys
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.resource_usage import ResourceUsage
from seqtune.kernels.say import Say

from .dataset_facts import VERSION, dataset_errors, held_out_elsewhere, read_facts
from .hold_out import held_out_keys, note_empty
from .journal.batches import columns_of_machines
from .journal.journal import REPEATED, Journal
from .machines import device_labels, named_devices, other_machines, separated, with_capabilities
from .parquet_file import LARGEST_COLUMNS, open_parquet, read_columns, unpacked_size
from .provenance import joined
from .record import Measurement, Record, Status
from .shipped_machines import SHIPPED

MOST_ROWS = 20_000_000  # of a data set, which is held in memory as a whole
LABELLED = ("miopen",)  # backends of which data sets hold another tuner's labels and solver times, no measurements
_WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema([
    ("device", _WORD), ("problem", _WORD), ("kernel", _WORD), ("kernel_version", pa.int32()),
    ("configuration", _WORD), ("status", _WORD), ("seconds", pa.float32()), ("spread", pa.float32()),
    ("samples", pa.int32()), ("error", pa.float32()), ("build_seconds", pa.float32()), ("run", _WORD),
    ("toolchain", _WORD), ("workspace", pa.int64()),
    ("registers", pa.int32()), ("shared_bytes", pa.int32()), ("spill_bytes", pa.int32()), ("occupancy", pa.float32()),
])
TYPES: dict[str, Any] = {  # the types of numeric columns in memory
    name: SCHEMA.field(name).type.to_pandas_dtype() for name in SCHEMA.names if SCHEMA.field(name).type != _WORD}
ADDED: dict[str, Any] = {  # columns that older files lack -> the default, which means unknown
    "workspace": np.int64(0), "registers": np.int32(0), "shared_bytes": np.int32(0), "spill_bytes": np.int32(0),
    "occupancy": np.float32(0)}
MANY_PROBLEMS = 5_000  # up to which `Dataset.write` repeats the features that keys contain


@dataclass(frozen=True)
class Dataset:
    """Rows with the columns of SCHEMA, and the devices, problems and kernels that they name."""

    rows: pd.DataFrame
    devices: Mapping[str, Device]  # by Device.key
    known_problems: Mapping[str, Problem]  # by Problem.key
    held_out: frozenset[str] = frozenset()  # Problem.key
    provenance: Mapping[str, str] = field(default_factory=dict)
    kernels: Mapping[str, Kernel] = field(default_factory=dict)  # by name: foreign kernels declared in this data set
    versions: KernelVersions = field(default_factory=KernelVersions)  # of kernels that a library's file declares

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def holds_labels(self) -> bool:
        """Whether it holds labels and solver times (`LABELLED`) instead of measurements and other tuners' choices."""
        return bool(len(self)) and all(device.backend in LABELLED for device in self.devices.values())

    @property
    def frame(self) -> pd.DataFrame:
        """The rows with one more column, `held_out`, in the form that training reads."""
        return self.rows.assign(held_out=self.rows["problem"].isin(self.held_out))

    @classmethod
    def from_journal(cls, journal: Journal, provenance: Mapping[str, str] | None = None,
                     held_out: Iterable[str] = ()) -> Dataset:
        """The data set of the records of a journal, of one machine for each device key.

        The machine is that of the device's stored facts, the latest. Warns if records of other machines are left out.
        """
        devices, versions = journal.devices(), journal.versions()
        problems = {problem.key: problem for problem in journal.problems()}
        columns, left_out = columns_of_machines(journal.batches(), devices)
        for note in filter(None, (journal.unknown_problems(), other_machines(left_out) if left_out else None,
                                  *journal.outdated())):
            warnings.warn(note, SeqtuneWarning, stacklevel=2)
        return cls(_frame(columns), devices, problems, frozenset(held_out), dict(provenance or {}), versions=versions)

    @classmethod
    def read(cls, path: Path | str) -> Dataset:
        """Read a data set from a Parquet file. Raises FormatError if the file is not Parquet or has another schema."""
        path = Path(path)
        with dataset_errors(path):
            file = open_parquet(path, MOST_ROWS)
            facts = read_facts(path, file)
            present = _present_columns(path, file.schema_arrow.names)
            table = read_columns(path, file, present).cast(pa.schema([SCHEMA.field(name) for name in present]))
            frame = table.to_pandas()  # texts are categories
            frame = frame.assign(**{name: value for name, value in ADDED.items() if name not in frame})
            problems = dict(facts.problems)
            problems |= parse_keys(set(frame["problem"].cat.categories) - set(problems), parse_problem)
            rows = _with_todays_versions(_checked(frame[SCHEMA.names], path, facts.devices, problems), facts.versions)
            return cls(rows, facts.devices, problems, facts.held_out, facts.provenance, facts.kernels, facts.versions)

    @classmethod
    def shipped(cls) -> Dataset:
        """The shipped data sets, merged into one. Raises FormatError if there is none."""
        files = sorted(SHIPPED.glob("*.parquet"))  # one for each machine
        if not files:
            raise FormatError("no data set is shipped here; name one")
        first, *others = map(cls.read, files)
        return first.merge(*others)

    def write(self, path: Path | str, many_problems: int = MANY_PROBLEMS) -> None:
        """Write a Parquet file, completely or not at all. Rows are sorted, so equal data sets make equal files.

        Of more than `many_problems` problems, the features are written only where the key does not contain them.
        Raises MisuseError if the columns would be larger than any that are read.
        """
        listed = {key: problem for key, problem in self.known_problems.items()
                  if len(self.known_problems) <= many_problems or problem.type == "recorded"}
        facts = {"version": VERSION,
                 "devices": {key: device.to_json() for key, device in sorted(self.devices.items())},
                 "problems": {key: problem.to_json() for key, problem in sorted(listed.items())},
                 "held_out": sorted(self.held_out), "provenance": dict(self.provenance),
                 **({"kernels": [to_json(kernel) for _, kernel in sorted(self.kernels.items())]}
                    if self.kernels else {}),
                 **({"versions": self.versions.to_json()} if self.versions.parts else {})}
        rows = self.rows.assign(**{name: value for name, value in ADDED.items() if name not in self.rows})
        rows = rows.sort_values(["device", "problem", "kernel", "configuration", "run"], kind="stable")
        rows = rows.assign(seconds=rows["seconds"].where(np.isfinite(rows["seconds"]), np.nan))
        table = pa.Table.from_pandas(rows, schema=SCHEMA, preserve_index=False)
        table = table.replace_schema_metadata({"seqtune": json.dumps(facts, separators=(",", ":"))})
        with replacing(path) as scratch:
            pq.write_table(table, scratch, compression="zstd", compression_level=19)
            size = unpacked_size(pq.ParquetFile(scratch))
            if size > LARGEST_COLUMNS:
                raise MisuseError(f"{path} is not written: {len(rows):,} records take {size >> 20:,} MiB, and at most "
                                  f"{LARGEST_COLUMNS >> 20:,} MiB are read; write several data sets")

    def merge(self, *others: Dataset) -> Dataset:
        """Merge data sets. Of a trial in several, the first one is kept; all repetitions are kept.

        A problem is held out if any of them holds it out, with a warning if another learns from it. Devices of
        machines that share a key are kept apart.
        """
        parts, merged, overlapping = [self.rows], self, False
        for other in others:
            others_devices = separated(merged.devices, other.devices)
            keys = {key: device.key for key, device in others_devices.items() if device.key != key}
            parts.append(other.rows.assign(device=other.rows["device"].replace(keys)) if keys else other.rows)
            added = {device.key: device for device in others_devices.values()}
            devices = {**added, **{key: with_capabilities(device, added.get(key, device))
                                   for key, device in merged.devices.items()}}
            # Only data sets that share a device can share trials.
            overlapping |= len(devices) < len(merged.devices) + len(others_devices)
            merged = Dataset(self.rows, devices, {**other.known_problems, **merged.known_problems},
                             merged.held_out | other.held_out, joined(merged.provenance, other.provenance),
                             {**other.kernels, **merged.kernels},
                             KernelVersions({**other.versions.parts, **merged.versions.parts}))
        if merged.held_out and (note := held_out_elsewhere([
                (set(part.rows["problem"].unique()), part.held_out) for part in (self, *others)])):
            warnings.warn(note, SeqtuneWarning, stacklevel=2)
        rows = pd.concat(parts, ignore_index=True)
        if overlapping:
            trial = ["device", "problem", "kernel", "kernel_version", "configuration", "toolchain"]
            again = rows.duplicated()
            again |= rows[~rows["run"].isin(REPEATED)].duplicated(trial).reindex(rows.index, fill_value=False)
            rows = rows[~again].reset_index(drop=True)
        return replace(merged, rows=rows)

    def holding_out(self, names: Sequence[str], note: Say) -> Dataset:
        """The same data set, in which no model may learn from the problems of these names, either.

        `held_out_keys` says what a name may be, and which errors are raised. `note` receives a line for each name that
        none of the data set's problems has.
        """
        named = held_out_keys(self.known_problems.values(), names)
        note_empty(named, self.known_problems, note)
        return replace(self, held_out=self.held_out.union(*named.values()))

    def on(self, device: str) -> Dataset:
        """The same data set with only the rows of a device (its key)."""
        return replace(self, rows=self.rows[self.rows["device"] == device].reset_index(drop=True))

    def named(self, name: str) -> list[str]:
        """The keys of the devices with this name, key or label; see `machines.named_devices`."""
        return named_devices(self.devices, name)

    def device(self, name: str | None) -> Device:
        """The device that `named` finds for the name, or the only device if it is None. Raises DeviceError.

        If several machines have a device of that name, it is the one with the most rows.
        """
        devices = [self.devices[key] for key in (self.devices if name is None else self.named(name))]
        if len(devices) > 1 and name is not None and len({device.name for device in devices}) == 1:
            return max(devices, key=lambda device: int((self.rows["device"] == device.key).sum()))
        if len(devices) == 1:
            return devices[0]
        listed = ", ".join(device_labels(self.devices.values()).values()) or "none"
        count = "several devices are" if devices else "no device"
        complaint = "name a device" if name is None else f"{count} {name!r:.60}"
        raise DeviceError(f"{complaint}; the data set has {listed}")

    def problems(self) -> list[Problem]:
        """The problems that have rows, in the order of their keys."""
        return [self.known_problems[key] for key in sorted(self.rows["problem"].unique())]

    def outdated(self) -> list[str]:
        """A line for each known kernel with records of earlier versions."""
        counts = self.rows.groupby(["kernel", "kernel_version"], observed=True).size().reset_index()
        return self.versions.notes({(str(name), int(version)): int(count)
                                    for name, version, count in counts.itertuples(index=False)})

    def records(self) -> Iterator[Record]:
        """The rows as records with one sample, the shortest; for replaying."""
        rows: Iterable[Any] = self.rows.itertuples(index=False)
        for row in rows:
            correct = row.status == Status.CORRECT.value
            measurement = Measurement(Status(row.status), (float(row.seconds),) if correct else (),
                                      None if np.isnan(row.error) else float(row.error), float(row.build_seconds),
                                      resources=_resources(row))
            yield Record(self.known_problems[row.problem], row.device, int(row.kernel_version),
                         configuration(row.kernel, row.configuration), row.toolchain, measurement, run=row.run)


def _with_todays_versions(rows: pd.DataFrame, versions: KernelVersions) -> pd.DataFrame:
    """The rows with today's version of kernels where theirs is of the same kernel."""
    column = rows["kernel_version"]
    for name, version in rows[["kernel", "kernel_version"]].drop_duplicates().itertuples(index=False):
        today = versions.todays(str(name), int(version))
        if today != version:
            column = column.where((rows["kernel"] != name) | (rows["kernel_version"] != version), np.int32(today))
    return rows if column is rows["kernel_version"] else rows.assign(kernel_version=column)


def _present_columns(path: Path, names: Sequence[str]) -> list[str]:
    """The columns of SCHEMA among `names` of a file. Raises FormatError if one outside of ADDED is missing."""
    for name in SCHEMA.names:
        if name not in names and name not in ADDED:
            raise FormatError(f"{path} is not a data set of seqtune: it has no column {name}")
    return [name for name in SCHEMA.names if name in names]


def _resources(row: Any) -> ResourceUsage | None:
    if not row.registers:
        return None
    return ResourceUsage(int(row.registers), int(row.shared_bytes), int(row.spill_bytes), float(row.occupancy))


def configuration(kernel: str, settings: str) -> Configuration:
    """Parse the configuration of a row. Raises FormatError."""
    try:
        values = json.loads(settings)
        if isinstance(values, dict) and all(map(is_setting, values.values())):
            return Configuration.of(kernel, values)
    except ValueError:
        pass
    raise FormatError(f"not a configuration: {settings[:60]!r}")


def _frame(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    frame = pd.DataFrame({name: columns[name] for name in SCHEMA.names})
    return frame.astype(TYPES)


def _checked(frame: pd.DataFrame, path: Path, devices: Mapping[str, Device],
             problems: Mapping[str, Problem]) -> pd.DataFrame:
    """Convert rows from their form on disk: plain strings, infinite seconds for failures. Raises FormatError."""
    for name in SCHEMA.names:
        if SCHEMA.field(name).type == _WORD:
            frame[name] = frame[name].astype(object)
        if name not in ("seconds", "error") and frame[name].isna().any():
            raise FormatError(f"{path}: the column {name} has empty rows")
    words = (("status", {status.value for status in Status}), ("device", devices), ("problem", problems))
    for name, allowed in words:
        strange = [word for word in frame[name].unique() if word not in allowed]
        if strange:
            raise FormatError(f"{path}: unknown {name} {strange[0]!r:.80}")
    correct = frame["status"] == Status.CORRECT.value
    if not bool(frame.loc[correct, "seconds"].between(0, np.inf, inclusive="neither").all()):
        raise FormatError(f"{path}: a correct trial needs seconds above 0 that are finite")
    needs = frame[["registers", "shared_bytes", "spill_bytes", "occupancy"]]
    if bool((needs < 0).any(axis=None)) or bool((frame["occupancy"] > 1).any()):
        raise FormatError(f"{path}: the resources of a kernel are at least 0, and its occupancy at most 1")
    frame["seconds"] = frame["seconds"].where(correct, np.inf).astype(np.float32)
    return frame
