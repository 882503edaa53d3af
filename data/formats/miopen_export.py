"""Export for MIOpen: configurations as its user perf-db holds them, as text or SQLite, and as override strings.

Where the files belong: `~/.config/miopen/` or $MIOPEN_USER_DB_PATH, named as the installed library names its own:
`<gpu>.<suffix>.udb.txt` for text, `<gpu>_1.1.0.udb` for SQLite builds. Every configuration is checked against its space
before it is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from seqtune.errors import ConfigurationError, DeviceError, FormatError, KernelError, MisuseError, SeqtuneError
from seqtune.kernels.device import Device
from seqtune.kernels.files import replacing, write_whole
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.membership import Membership
from seqtune.kernels.miopen.solver import PREFIX, Solver, find_solver
from seqtune.kernels.miopen.xdlops_tables import RowSolver
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

from ..dataset import Dataset, configuration
from ..record import Status
from .format import ExportRequest, Format, Report
from .miopen_import import MIOPEN, as_gpu, tables_of, with_table
from .miopen_terms import COLUMNS, NUMBERS_BEFORE, as_convnd, miopen_terms
from .predictions import read_predictions


@dataclass(frozen=True, slots=True)
class Entry:
    """One solver's parameters for one problem, in MIOpen's words."""

    terms: tuple[int | str, ...]  # values of COLUMNS
    solver: str
    params: str

    @property
    def key(self) -> str:
        """The problem as the text form writes it."""
        return "x".join(map(str, self.terms))


def entries(chosen: Iterable[tuple[Problem, Configuration]], device: Device,
            tables: Mapping[str, Sequence[str]] | None = None) -> list[Entry]:
    """The entries of configurations, by solver; `tables` are those that data or a checkpoint has of solvers' rows.

    Raises KernelError, ProblemError or ConfigurationError where one can't be written.
    """
    by_kernel: dict[str, list[tuple[Problem, Configuration]]] = {}
    for problem, one in chosen:
        by_kernel.setdefault(one.kernel, []).append((as_convnd(problem), one))
    found = []
    for name, some in by_kernel.items():
        solver = with_table(find_solver(name.removeprefix(PREFIX)), tables or {})
        if isinstance(solver, RowSolver) and solver.is_open:
            raise KernelError(f"{solver.name} has a table of its own, and nothing here spells it out; name a data set "
                              "(--data) or a checkpoint (--checkpoint) with labels of it")
        found.extend(_entries(solver, some, device))
    return found


def needs_table(one: Configuration) -> bool:
    """Whether it is a row of its solver's table. Raises KernelError where there is no such solver."""
    return isinstance(find_solver(one.kernel.removeprefix(PREFIX)), RowSolver)


def _entries(solver: Solver, chosen: Sequence[tuple[Problem, Configuration]], device: Device) -> list[Entry]:
    for _, one in chosen:
        if set(dict(one.settings)) != set(solver.kernel.by_name):
            raise ConfigurationError(f"{one.brief()[:200]!r} is no configuration of {solver.name}")
    problems = ProblemColumns.of([problem for problem, _ in chosen])
    settings = {name: np.array([one[name] for _, one in chosen]) for name in solver.kernel.by_name}
    member = Membership(solver.kernel, problems, device, settings)
    for (problem, one), reason in zip(chosen, member.reasons, strict=True):
        if reason is not None:
            raise ConfigurationError(f"{solver.name} {one.brief():.200} for {problem.brief()}: {reason}")
    values = [settings[field] if isinstance(field, str) else member.evaluate(field.expression)
              for field in solver.fields]
    return [Entry(terms, solver.name, solver.write(row)) for terms, row in
            zip(miopen_terms(problems), zip(*(column.tolist() for column in values), strict=True), strict=True)]


def best_of(data: Dataset, device: Device) -> list[tuple[Problem, Configuration]]:
    """Of a data set's rows on that device: of each problem and solver, the fastest configuration, else the chosen."""
    rows = data.rows[(data.rows["device"] == device.key) & data.rows["kernel"].str.startswith(PREFIX)
                     & data.rows["status"].isin([Status.CHOSEN.value, Status.CORRECT.value])
                     & (data.rows["configuration"] != "{}")]
    rows = rows.sort_values("seconds", kind="stable").drop_duplicates(["problem", "kernel"])
    rows = rows.sort_values(["problem", "kernel"], kind="stable")
    return [(data.known_problems[problem], configuration(kernel, settings)) for problem, kernel, settings in
            zip(rows["problem"], rows["kernel"], rows["configuration"], strict=True)]


def _by_problem(found: Iterable[Entry]) -> dict[str, list[Entry]]:
    by_problem: dict[str, dict[str, Entry]] = {}
    for one in found:
        by_problem.setdefault(one.key, {}).setdefault(one.solver, one)
    return {key: list(some.values()) for key, some in by_problem.items()}


def user_text(found: Iterable[Entry]) -> str:
    """Lines `KEY=Solver:params;Solver2:params`; the first entry of a problem and solver counts."""
    return "".join(f"{key}={';'.join(f'{one.solver}:{one.params}' for one in some)}\n"
                   for key, some in _by_problem(found).items())


def override(found: Iterable[Entry]) -> str:
    """The value of MIOPEN_DEBUG_PERFDB_OVERRIDE, which counts for every problem: so it must be one problem's."""
    by_problem = _by_problem(found)
    if len(by_problem) != 1:
        raise FormatError(f"an override is for one problem, and these are {len(by_problem)}")
    return ":".join(f"{one.solver};{one.params}" for some in by_problem.values() for one in some)


# As in MIOpen's system perf-dbs.
_SCHEMA = (
    "CREATE TABLE `config` (`id` INTEGER PRIMARY KEY ASC,"
    + ",".join(f"`{name}` {'INT' if name in NUMBERS_BEFORE else 'TEXT'} NOT NULL" for name in COLUMNS) + ")",
    "CREATE TABLE `perf_db` (`id` INTEGER PRIMARY KEY ASC,`solver` TEXT NOT NULL,`config` INTEGER NOT NULL,"
    "`params` TEXT NOT NULL)",
    f"CREATE UNIQUE INDEX `idx_config` ON config( {','.join(COLUMNS)} )",
    "CREATE UNIQUE INDEX `idx_perf_db` ON perf_db(solver, config)",
)


def write_udb(found: Iterable[Entry], path: Path) -> None:
    """An SQLite user perf-db, whole or not at all."""
    with replacing(path) as scratch:
        try:
            _fill(scratch, found)
        except sqlite3.Error as error:
            raise SeqtuneError(f"cannot write {path}: {error}") from None


def _fill(path: Path, found: Iterable[Entry]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in _SCHEMA:
            connection.execute(statement)
        marks = ",".join("?" * len(COLUMNS))
        for some in _by_problem(found).values():
            place = connection.execute(f"INSERT INTO config({','.join(COLUMNS)}) VALUES({marks})",
                                       some[0].terms).lastrowid
            connection.executemany("INSERT INTO perf_db(solver, config, params) VALUES(?, ?, ?)",
                                   [(one.solver, place, one.params) for one in some])
        connection.commit()


def write_text(found: Iterable[Entry], path: Path) -> None:
    """A text user perf-db, whole or not at all."""
    write_whole(path, user_text(found))


def write_override(found: Iterable[Entry], path: Path) -> None:
    """An override string on a line of its own."""
    write_whole(path, override(found) + "\n")


Write: TypeAlias = Callable[[Iterable[Entry], Path], None]


def _export(write: Write, request: ExportRequest, out: Path) -> Report:
    """Write the configurations of predictions, else those of a data set's device. Solvers with a table of rows have it
    from the data set, or without one from the checkpoint. Of each problem and solver the first is written; the report
    counts it as an entry, and the others as left out.
    """
    if request.data is None and request.predictions is None:
        raise MisuseError("name what to export: --data or --predictions")
    data = None if request.data is None else Dataset.read(request.data)
    device = None if request.device is None else as_gpu(request.device)
    left = 0
    if request.predictions is not None:
        device, chosen, left = _predicted(request.predictions, device)
    else:
        assert data is not None
        device = _recorded(data, device)
        chosen = best_of(data, device)
    if not chosen:
        raise MisuseError(f"there is no configuration for {device.name}")
    tables: Mapping[str, Sequence[str]] = {}
    if data is not None:
        tables = tables_of(data)
    elif any(needs_table(configuration) for _, configuration in chosen):
        tables = request.tables()
    found = entries(chosen, device, tables)
    count = len({(entry.key, entry.solver) for entry in found})
    write(found, out)
    return {"device": device.name, "entries": count, "left_out": left + len(found) - count,
            "problems": len({entry.key for entry in found})}


def _predicted(path: Path, device: Device | None) -> tuple[Device, list[tuple[Problem, Configuration]], int]:
    """The device, its configurations, and how many are for other devices."""
    every = list(read_predictions(path))
    if not every:
        raise FormatError(f"{path} holds no prediction; `seqtune predict ... --json` writes one")
    names = sorted({name for name, _, _ in every})
    if device is None:
        if len(names) != 1:
            raise DeviceError(f"the predictions are for {', '.join(names)[:200]}; say --device")
        device = as_gpu(names[0])
    chosen = [(problem, configuration) for name, problem, configuration in every if name == device.name]
    return device, chosen, len(every) - len(chosen)


def _recorded(data: Dataset, wanted: Device | None) -> Device:
    """The data set's GPU of that name, or its only one."""
    devices = [device for device in data.devices.values() if device.backend == "miopen"
               and (wanted is None or device.name == wanted.name)]
    if len(devices) != 1:
        names = ", ".join(sorted(device.name for device in data.devices.values()))
        asked = "which GPU? Say --device" if wanted is None else f"nothing is recorded of {wanted.name}"
        raise DeviceError(f"{asked}; the data set has {names}")
    return devices[0]


_TAKES = ("data", "predictions", "device", "tables")
TEXT = Format(("gfx*.udb.txt",), MIOPEN.read, MIOPEN.devices, partial(_export, write_text), _TAKES)
UDB = Format(("gfx*.udb",), MIOPEN.read, MIOPEN.devices, partial(_export, write_udb), _TAKES)
OVERRIDE = Format((), write=partial(_export, write_override), takes=_TAKES)
