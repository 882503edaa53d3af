"""Export for MIOpen: configurations as a user perf-db, in text or SQLite, and as override strings.

MIOpen reads the files in `~/.config/miopen/` or $MIOPEN_USER_DB_PATH, under the names of the installed library's own:
`<gpu>.<suffix>.udb.txt` for text, `<gpu>_1.1.0.udb` for SQLite builds. Every configuration is checked against its space
before it is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.data.dataset import configuration as parse_configuration
from seqtune.data.formats.format import Format, LearnedTables, Report
from seqtune.data.json_content import parse_json
from seqtune.data.record import Status
from seqtune.errors import ConfigurationError, DeviceError, FormatError, KernelError, MisuseError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import read_bounded, replacing, write_whole
from seqtune.kernels.kernel import Configuration, is_setting
from seqtune.kernels.membership import Membership
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

from ..kernels.solver import PREFIX, Solver, find_solver
from ..kernels.xdlops_tables import RowSolver, with_table
from .importing import MIOPEN, as_gpu, tables_of
from .terms import COLUMNS, NUMBERS_BEFORE, as_convnd, miopen_terms


@dataclass(frozen=True, slots=True)
class PerfDbEntry:
    """One solver's parameters for one problem, in MIOpen's words."""

    terms: tuple[int | str, ...]  # values of COLUMNS
    solver: str
    params: str

    @property
    def key(self) -> str:
        """The problem's key in the text form of a perf-db."""
        return "x".join(map(str, self.terms))


def entries(chosen: Iterable[tuple[Problem, Configuration]], device: Device,
            tables: Mapping[str, Sequence[str]] | None = None) -> list[PerfDbEntry]:
    """The entries of configurations, by solver. `tables` are the texts of the solvers' rows, by solver.

    Raises KernelError, ProblemError or ConfigurationError if a configuration cannot be written.
    """
    by_kernel: dict[str, list[tuple[Problem, Configuration]]] = {}
    for problem, configuration in chosen:
        by_kernel.setdefault(configuration.kernel, []).append((as_convnd(problem), configuration))
    entries = []
    for name, chosen_pairs in by_kernel.items():
        solver = with_table(find_solver(name.removeprefix(PREFIX)), tables or {})
        if isinstance(solver, RowSolver) and solver.is_open:
            raise KernelError(f"{solver.name} has a table of its own, and nothing here spells it out; name a data set "
                              "(--data) or a checkpoint (--checkpoint) with labels of it")
        entries.extend(_entries(solver, chosen_pairs, device))
    return entries


def needs_table(configuration: Configuration) -> bool:
    """Whether the configuration is a row of its solver's table. Raises KernelError if there is no such solver."""
    return isinstance(find_solver(configuration.kernel.removeprefix(PREFIX)), RowSolver)


def _entries(solver: Solver, chosen: Sequence[tuple[Problem, Configuration]], device: Device) -> list[PerfDbEntry]:
    for _, configuration in chosen:
        if set(dict(configuration.settings)) != set(solver.kernel.by_name):
            raise ConfigurationError(f"{configuration.brief()[:200]!r} is not a configuration of {solver.name}")
    problems = ProblemColumns.of([problem for problem, _ in chosen])
    settings = {name: np.array([configuration[name] for _, configuration in chosen]) for name in solver.kernel.by_name}
    member = Membership(solver.kernel, problems, device, settings)
    for (problem, configuration), reason in zip(chosen, member.reasons, strict=True):
        if reason is not None:
            raise ConfigurationError(f"{solver.name} {configuration.brief():.200} for {problem.brief()}: {reason}")
    values = [settings[field] if isinstance(field, str) else member.evaluate(field.expression)
              for field in solver.fields]
    return [PerfDbEntry(terms, solver.name, solver.write(row)) for terms, row in
            zip(miopen_terms(problems), zip(*(column.tolist() for column in values), strict=True), strict=True)]


def best_of(data: Dataset, device: Device) -> list[tuple[Problem, Configuration]]:
    """The fastest configuration of each problem and solver in a data set's rows of the device, else the chosen one."""
    rows = data.rows[(data.rows["device"] == device.key) & data.rows["kernel"].str.startswith(PREFIX)
                     & data.rows["status"].isin([Status.CHOSEN.value, Status.CORRECT.value])
                     & (data.rows["configuration"] != "{}")]
    rows = rows.sort_values("seconds", kind="stable").drop_duplicates(["problem", "kernel"])
    rows = rows.sort_values(["problem", "kernel"], kind="stable")
    return [(data.known_problems[problem], parse_configuration(kernel, settings)) for problem, kernel, settings in
            zip(rows["problem"], rows["kernel"], rows["configuration"], strict=True)]


def _by_problem(entries: Iterable[PerfDbEntry]) -> dict[str, list[PerfDbEntry]]:
    by_problem: dict[str, dict[str, PerfDbEntry]] = {}
    for entry in entries:
        by_problem.setdefault(entry.key, {}).setdefault(entry.solver, entry)
    return {key: list(by_solver.values()) for key, by_solver in by_problem.items()}


def user_text(entries: Iterable[PerfDbEntry]) -> str:
    """The text of a perf-db, lines `KEY=Solver:params;Solver2:params`; the first entry of a problem and solver counts.
    """
    return "".join(f"{key}={';'.join(f'{entry.solver}:{entry.params}' for entry in same_problem)}\n"
                   for key, same_problem in _by_problem(entries).items())


def override(entries: Iterable[PerfDbEntry]) -> str:
    """The value of MIOPEN_DEBUG_PERFDB_OVERRIDE. MIOpen uses it for every problem, so the entries must be of one.

    Raises FormatError if they are of several problems.
    """
    by_problem = _by_problem(entries)
    if len(by_problem) != 1:
        raise FormatError(f"an override is for one problem, and these are {len(by_problem)}")
    return ":".join(f"{entry.solver};{entry.params}" for same_problem in by_problem.values() for entry in same_problem)


# The schema of MIOpen's system perf-dbs.
_SCHEMA = (
    "CREATE TABLE `config` (`id` INTEGER PRIMARY KEY ASC,"
    + ",".join(f"`{name}` {'INT' if name in NUMBERS_BEFORE else 'TEXT'} NOT NULL" for name in COLUMNS) + ")",
    "CREATE TABLE `perf_db` (`id` INTEGER PRIMARY KEY ASC,`solver` TEXT NOT NULL,`config` INTEGER NOT NULL,"
    "`params` TEXT NOT NULL)",
    f"CREATE UNIQUE INDEX `idx_config` ON config( {','.join(COLUMNS)} )",
    "CREATE UNIQUE INDEX `idx_perf_db` ON perf_db(solver, config)",
)


def write_udb(entries: Iterable[PerfDbEntry], path: Path) -> None:
    """Write an SQLite user perf-db, completely or not at all. Raises SeqtuneError."""
    with replacing(path) as scratch:
        try:
            _fill(scratch, entries)
        except sqlite3.Error as error:
            raise SeqtuneError(f"cannot write {path}: {error}") from None


def _fill(path: Path, entries: Iterable[PerfDbEntry]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in _SCHEMA:
            connection.execute(statement)
        marks = ",".join("?" * len(COLUMNS))
        for entries_of_problem in _by_problem(entries).values():
            config = connection.execute(f"INSERT INTO config({','.join(COLUMNS)}) VALUES({marks})",
                                       entries_of_problem[0].terms).lastrowid
            connection.executemany("INSERT INTO perf_db(solver, config, params) VALUES(?, ?, ?)",
                                   [(entry.solver, config, entry.params) for entry in entries_of_problem])
        connection.commit()


def write_text(entries: Iterable[PerfDbEntry], path: Path) -> None:
    """Write a text user perf-db, completely or not at all. Raises SeqtuneError."""
    write_whole(path, user_text(entries))


def write_override(entries: Iterable[PerfDbEntry], path: Path) -> None:
    """Write an override string as one line. Raises FormatError and SeqtuneError."""
    write_whole(path, override(entries) + "\n")


Write: TypeAlias = Callable[[Iterable[PerfDbEntry], Path], None]


def _export(write: Write, out: Path, *, data: Path | None, predictions: Path | None, device: str | Device | None,
            checkpoint: str | Path, learned_tables: LearnedTables) -> Report:
    """Write the configurations of the predictions or, without predictions, those of the data set's device.

    The tables of solvers come from the data set or, without one, from the checkpoint. The first configuration of each
    problem and solver is written; the report counts it as an entry and the others as left out.
    """
    if data is None and predictions is None:
        raise MisuseError("name what to export: --data or --predictions")
    known = None if data is None else Dataset.read(data)
    wanted = None if device is None else as_gpu(device)
    left = 0
    if predictions is not None:
        gpu, chosen, left = _predicted(predictions, wanted)
    else:
        assert known is not None
        gpu = _recorded(known, wanted)
        chosen = best_of(known, gpu)
    if not chosen:
        raise MisuseError(f"there is no configuration for {gpu.name}")
    tables: Mapping[str, Sequence[str]] = {}
    if known is not None:
        tables = tables_of(known)
    elif any(needs_table(configuration) for _, configuration in chosen):
        tables = learned_tables(checkpoint)
    written = entries(chosen, gpu, tables)
    count = len({(entry.key, entry.solver) for entry in written})
    write(written, out)
    return {"device": gpu.name, "entries": count, "left_out": left + len(written) - count,
            "problems": len({entry.key for entry in written})}


def _predicted(path: Path, device: Device | None) -> tuple[Device, list[tuple[Problem, Configuration]], int]:
    """The device, its predicted configurations, and the number of configurations for other devices."""
    candidates = list(read_predictions(path))
    if not candidates:
        raise FormatError(f"{path} holds no prediction; `seqtune predict ... --json` writes one")
    names = sorted({name for name, _, _ in candidates})
    if device is None:
        if len(names) != 1:
            raise DeviceError(f"the predictions are for {', '.join(names)[:200]}; choose one with --device")
        device = as_gpu(names[0])
    chosen = [(problem, configuration) for name, problem, configuration in candidates if name == device.name]
    return device, chosen, len(candidates) - len(chosen)


def _recorded(data: Dataset, wanted: Device | None) -> Device:
    """The data set's GPU that equals `wanted`, or its only GPU. Raises DeviceError."""
    devices = [device for device in data.devices.values() if device.backend == "miopen"
               and (wanted is None or device.name == wanted.name)]
    if len(devices) != 1:
        names = ", ".join(sorted(device.name for device in data.devices.values()))
        complaint = "choose a GPU with --device" if wanted is None else f"no rows of {wanted.name}"
        raise DeviceError(f"{complaint}; the data set has {names}")
    return devices[0]


_ASKS = ("learned_tables",)
TEXT = Format(("gfx*.udb.txt",), MIOPEN.read, MIOPEN.devices, partial(_export, write_text), _ASKS)
UDB = Format(("gfx*.udb",), MIOPEN.read, MIOPEN.devices, partial(_export, write_udb), _ASKS)
OVERRIDE = Format((), write=partial(_export, write_override), asks=_ASKS)


LARGEST_FILE = 100_000_000  # bytes


def read_predictions(path: Path) -> Iterator[tuple[str, Problem, Configuration]]:
    """Read the device, problem and configuration of each candidate that `seqtune predict --json` printed, best first.

    Raises FormatError.
    """
    for number, line in enumerate(read_bounded(path, LARGEST_FILE).splitlines(), 1):
        if not line.strip():
            continue
        try:
            prediction = parse_json(line, path)
            problem, device = Problem.from_json(prediction["problem"]), str(prediction["device"])
            for candidate in prediction["candidates"]:
                settings = candidate["configuration"]
                if not all(map(is_setting, settings.values())):
                    raise TypeError
                yield device, problem, Configuration.of(str(candidate["kernel"]), settings)
        except (ValueError, KeyError, TypeError, AttributeError, FormatError):
            raise FormatError(f"{path}:{number}: not a prediction as `seqtune predict --json` prints it") from None
