"""Measurements: the records of a journal or of a data set as one table, with the machine that each was made on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from seqtune.data.journal.journal import Journal
from seqtune.data.machines import named_devices
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import is_registered, kernel

from ..api.inputs import as_device, check_journal
from ..errors import DeviceError, MisuseError

SQLITE = b"SQLite format 3\0"  # a journal begins so; https://sqlite.org/fileformat.html
COLUMNS = ("machine", "problem", "kernel", "version", "configuration", "toolchain", "status", "seconds", "run", "when",
           "message")


@dataclass(frozen=True, slots=True)
class MeasuringMachine:
    """A device of one machine: two machines may share a device's key and differ in their caches."""

    key: str  # Device.key
    fingerprint: str  # Device.fingerprint
    device: Device | None  # None if the facts of this machine are not stored
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measurements:
    """A row for each record, with COLUMNS: `machine` is an index into `machines`, `seconds` is NaN for a failure.

    `when` is in seconds since 1970 (0: not known). Rows are in the order of measuring if `ordered`.
    """

    rows: pd.DataFrame
    machines: tuple[MeasuringMachine, ...]
    problems: Mapping[str, Problem]  # key -> problem
    ordered: bool
    held_out: frozenset[str] = frozenset()
    declared: Mapping[str, Kernel] = field(default_factory=dict)  # kernels that the data declares itself
    notes: tuple[str, ...] = ()

    def kernel(self, name: str) -> Kernel | None:
        """The declaration of a kernel family, or None if neither the data nor a library in use declares it."""
        if name in self.declared:
            return self.declared[name]
        return kernel(name) if is_registered(name) else None

    def on(self, name: str) -> Measurements:
        """The measurements of the devices with this name, key or alias. Raises DeviceError if there are none."""
        facts = {machine.key: machine.device for machine in self.machines if machine.device is not None}
        keys = named_devices(facts, name) or [machine.key for machine in self.machines
                                              if f"{machine.key} ".startswith(f"{name.strip()} ")]
        if not keys and name.partition(":")[2].isdigit():  # llvm:0 means a device of this machine
            keys = named_devices(facts, as_device(name).name)
        if not keys:
            listed = ", ".join(dict.fromkeys(machine.key for machine in self.machines))
            raise DeviceError(f"no device {name!r:.60}; there are records of {listed}")
        chosen = [index for index, machine in enumerate(self.machines) if machine.key in keys]
        return self._with(self.rows[self.rows["machine"].isin(chosen)])

    def of(self, problem: str) -> Measurements:
        """The measurements of the problem with this key, and the devices that have any."""
        return self._with(self.rows[self.rows["problem"] == problem])

    def _with(self, rows: pd.DataFrame) -> Measurements:
        """The measurements of some rows, and the devices that have any."""
        chosen = sorted(set(rows["machine"].tolist()))
        numbers = {index: number for number, index in enumerate(chosen)}
        return replace(self, rows=rows.assign(machine=rows["machine"].map(numbers)).reset_index(drop=True),
                       machines=tuple(self.machines[index] for index in chosen))


def read(source: str | Path) -> Measurements:
    """Read a journal or a data set (`shipped`: the shipped ones). Raises FormatError, MisuseError."""
    path = Path(source)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(SQLITE)) == SQLITE:
                return _journal(path)
    elif str(source) != "shipped" and not path.exists():
        raise MisuseError(f"no file {source}; name a journal or a data set (`shipped`: the shipped ones)")
    return _dataset(source)


def _journal(path: Path) -> Measurements:
    check_journal(path)
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    numbers: dict[tuple[str, str], int] = {}
    hosts: list[dict[str, None]] = []
    problems: dict[str, Problem] = {}
    with Journal(path) as journal:
        devices = journal.devices()
        unknown = journal.unknown_problems()
        for batch in journal.batches():
            stored = [(key, machine or (devices[key].fingerprint if key in devices else ""))
                      for key, machine in zip(batch.devices, batch.machines, strict=True)]
            for pair in dict.fromkeys(stored):
                numbers.setdefault(pair, len(numbers))
            hosts += [{} for _ in range(len(numbers) - len(hosts))]
            machine_numbers = [numbers[pair] for pair in stored]
            for machine, host in dict.fromkeys(zip(machine_numbers, batch.hosts, strict=True)):
                if host:
                    hosts[machine][host] = None
            problems.update(zip(batch.problem_keys, batch.problems, strict=True))
            values: tuple[Sequence[object], ...] = (
                machine_numbers, batch.problem_keys, batch.kernels, batch.kernel_versions, batch.keys,
                batch.toolchains, batch.statuses, batch.seconds, batch.runs, batch.whens, batch.messages)
            for name, column in zip(COLUMNS, values, strict=True):
                columns[name].extend(column)
    machines = []
    for (key, fingerprint), names in zip(numbers, hosts, strict=True):
        device = devices.get(key)
        same = device is not None and device.fingerprint == fingerprint
        machines.append(MeasuringMachine(key, fingerprint, device if same else None, tuple(names)))
    if not machines:
        raise MisuseError(f"the journal {path} holds no trials" + (f": {unknown}" if unknown else ""))
    return Measurements(_typed(columns).sort_values("when", kind="stable", ignore_index=True), tuple(machines),
                        problems, True, notes=(unknown,) if unknown else ())


def _dataset(source: str | Path) -> Measurements:
    from seqtune.data.formats.dataset_file import read_dataset

    data = read_dataset(None if str(source) == "shipped" and not Path(source).exists() else source)
    if data.holds_labels:
        raise MisuseError(f"{source} holds MIOpen's labels, not measured times to report on")
    if not len(data):
        raise MisuseError(f"the data set {source} holds no records")
    keys = list(dict.fromkeys(data.rows["device"]))
    machines = tuple(MeasuringMachine(key, data.devices[key].fingerprint, data.devices[key]) for key in keys)
    rows = data.rows
    columns: dict[str, Any] = {
        "machine": rows["device"].map({key: index for index, key in enumerate(keys)}).to_numpy(),
        "version": rows["kernel_version"].to_numpy(), "when": np.zeros(len(rows)), "message": [""] * len(rows),
        **{name: rows[name].to_numpy() for name in ("problem", "kernel", "configuration", "toolchain", "status",
                                                    "seconds", "run")}}
    return Measurements(_typed(columns), machines, data.known_problems, False, data.held_out, data.kernels)


def _typed(columns: Mapping[str, Any]) -> pd.DataFrame:
    rows = pd.DataFrame({name: columns[name] for name in COLUMNS})
    rows = rows.astype({"machine": np.int64, "version": np.int64, "seconds": np.float64, "when": np.float64})
    correct = rows["status"].to_numpy() == "correct"
    return rows.assign(seconds=rows["seconds"].where(correct & (rows["seconds"] > 0) & np.isfinite(rows["seconds"])))
