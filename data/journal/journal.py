"""Journal: the crash-safe store of records, in SQLite (WAL mode). Each record is committed by itself.

Once `add` returns, a crash of the process cannot lose the record. A power cut can lose the records since the last
checkpoint, but cannot damage the journal (`synchronous=NORMAL`: waiting for the disk would disturb the measurements).

A *trial* is measured once: (problem, device, kernel, kernel version, configuration, toolchain, machine) is unique.
Trials that timed out or crashed can be forgotten and measured again. Intended repetitions (the runs `final`,
`contest`, `verify` and `again`) are in a second table.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType

from seqtune.errors import FormatError, MisuseError, ProblemError, SeqtuneError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.libraries.versions import KernelVersions, declared_kernel_of
from seqtune.kernels.own_folders import data_folder
from seqtune.kernels.problem import Problem

from ..record import COMPARED, VERIFIED, Measurement, Record, Status
from .batches import JournalBatch
from .file import JournalFile, integrity_fault, rescue
from .rows import ROWS, BatchReader, object_of, problem_of, read_problem
from .schema import (
    FIELDS,
    MAKE_VERSIONS,
    VERSIONS,
    check_header,
    check_regular,
    check_schema,
    check_tables,
    create,
    migrate,
    open_connection,
    primary_code,
)

CHECKED_EVERY = 1_000  # records, after which the whole file is checked; that takes a second for 100 MB
CHECKED_BYTES = 4_000  # bytes of the file for each record before a check: at most 0.04 ms a record for any size
MOST_VERSIONS = 300  # of declared kernels; the latest are read
LONGEST_PARTS = 200_000  # characters of the parts of a version; a thousand files have 100,000
REPEATED = (*COMPARED, VERIFIED, "again")  # runs that measure a trial again


def default_path() -> Path:
    """The path of the journal in the user's data folder."""
    return data_folder() / "journal.sqlite"


class Journal:
    """An open journal; a new one is created if the file does not exist.

    Raises FormatError if the file is not a journal, and does not change it, or if it is a journal of an older version
    that cannot be written, so not migrated; MisuseError if its folder does not exist.
    """

    def __init__(self, path: Path | str | None = None, checked_every: int = CHECKED_EVERY,
                 connect: Callable[[Path], sqlite3.Connection] = open_connection) -> None:
        self._checked_every = checked_every
        self.path = Path(path) if path is not None else default_path()
        try:
            check_regular(self.path)
            if self.path.exists() and self.path.stat().st_size:
                check_header(self.path)
                with self._reading():
                    check_tables(self.path)
            else:
                if path is None:
                    self.path.parent.mkdir(parents=True, exist_ok=True)
                elif not self.path.parent.is_dir():
                    raise MisuseError(f"the folder of the journal {self.path} does not exist")
                create(self.path)
        except OSError as error:
            raise FormatError(f"cannot open the journal {self.path}: {error.strerror}; --journal PATH names "
                              "another") from None
        except sqlite3.OperationalError as error:
            raise FormatError(f"cannot make the journal {self.path}: {error}; --journal PATH names another") from None
        self._ids: dict[tuple[str, str], int] = {}
        self._problems: dict[Problem, int] = {}
        with self._reading():
            self._connection = connect(self.path)
            check_schema(self._connection, self.path)
            migrate(self._connection, self.path)
        self._file = JournalFile(self.path)
        self._noted: set[tuple[str, int]] = set()  # versions of kernels whose parts are stored
        self._unchecked = 0  # records since the file was checked

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the journal. Closing is optional: every record is already committed."""
        self._connection.close()

    def add(self, record: Record) -> bool:
        """Store and commit a record. False if the journal already has the same trial, which is not replaced.

        Raises FormatError if the file was deleted, replaced or damaged since it was opened. The records are then
        saved beside it, if that is still possible, and the message names the file.
        """
        keys = self._keys(record)
        with self._reading():
            added = self._insert(record, keys)
        self._check(1)
        return added

    def add_all(self, records: Sequence[Record]) -> int:
        """Store records and commit them together: all of them, or none if it fails. Return the number of new ones.

        One call takes a third of the time of the same calls of `add`, and raises the same errors.
        """
        keys = [self._keys(record) for record in records]
        with self._reading():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                added = sum(map(self._insert, records, keys))
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk has ended the transaction already
                    self._connection.execute("ROLLBACK")
                raise
        self._check(len(records))
        return added

    def _keys(self, record: Record) -> tuple[int, int]:
        problem = self._problems.get(record.problem)
        if problem is None:  # the key and the text of a problem take longer than the insertion of a record
            problem = self._id("problems", record.problem.key, json.dumps(record.problem.to_json()))
            self._problems[record.problem] = problem
        return problem, self._id("devices", record.device, "")

    def _insert(self, record: Record, keys: tuple[int, int]) -> bool:
        measurement = record.measurement
        self._note_version(record.configuration.kernel, record.kernel_version)
        table = "repeats" if record.run in REPEATED else "trials"
        marks = ", ".join("?" * (FIELDS.count(",") + 1))
        cursor = self._connection.execute(
            f"INSERT OR IGNORE INTO {table} ({FIELDS}) VALUES ({marks})",
            (*keys, record.configuration.kernel, record.kernel_version, record.configuration.key,
             record.toolchain, measurement.status.value, json.dumps(list(measurement.samples)), measurement.error,
             measurement.build_seconds, measurement.message, record.when or time.time(), record.run, record.host,
             record.machine, record.session, record.stage, record.budget,
             int(record.loaded),
             None if measurement.resources is None else json.dumps(measurement.resources.to_json()),
             measurement.disturbed))
        return cursor.rowcount == 1

    def _note_version(self, name: str, version: int) -> None:
        """Store the parts of a declared kernel with its version, and with those of 0.2.0 that are the same."""
        if (name, version) in self._noted:
            return
        self._noted.add((name, version))
        declared = declared_kernel_of(name)
        if declared is None or declared[0].version != version:
            return
        kernel, _ = declared
        self._connection.execute(MAKE_VERSIONS)
        for same in (*kernel.former_versions, version):
            self._connection.execute("INSERT OR REPLACE INTO versions (kernel, version, parts) VALUES (?, ?, ?)",
                                     (name, same, json.dumps(dict(kernel.parts))))

    def versions(self) -> KernelVersions:
        """The parts of declared kernels' versions, the latest last."""
        with self._reading():
            if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (VERSIONS,)).fetchone():
                return KernelVersions()
            rows = self._connection.execute(
                "SELECT kernel, version, parts FROM versions WHERE length(parts) <= ? ORDER BY id DESC LIMIT ?",
                (LONGEST_PARTS, MOST_VERSIONS)).fetchall()
            return KernelVersions.from_json([{"kernel": name, "version": version, "parts": object_of(parts)}
                                             for name, version, parts in reversed(rows)])

    def outdated(self, kernels: Sequence[str] | None = None) -> list[str]:
        """A line for each known kernel, of these names if some are given, with records of earlier versions."""
        with self._reading():
            counts: dict[tuple[str, int], int] = {}
            for table in ("trials", "repeats"):
                for name, version, count in self._connection.execute(
                        f"SELECT kernel, kernel_version, count(*) FROM {table} GROUP BY kernel, kernel_version"):
                    if kernels is None or name in kernels:
                        counts[name, version] = counts.get((name, version), 0) + int(count)
        return self.versions().notes(counts)

    def _check(self, count: int) -> None:
        """Check the file after `count` more records. Raises FormatError."""
        self._unchecked += count
        fault = self._file.fault()
        if fault is None and self._unchecked >= max(self._checked_every, self._file.size // CHECKED_BYTES):
            self._unchecked = 0
            fault = integrity_fault(self._connection)
        if fault is not None:
            raise FormatError(f"the journal {self.path} {fault}; {rescue(self._connection, self.path)}")

    def add_device(self, device: Device) -> None:
        """Store the facts of a device, replacing older ones."""
        facts = json.dumps(device.to_json())
        self._id("devices", device.key, facts)
        with self._reading():
            self._connection.execute("UPDATE devices SET json = ? WHERE key = ? AND json != ?",
                                     (facts, device.key, facts))

    def trials(self, problem: Problem, device: Device, kernels: Sequence[Kernel]) -> dict[Configuration, Measurement]:
        """The measurements of this machine with today's kernel versions and toolchain, which need not be repeated."""
        return {record.configuration: record.measurement for record in self.trial_records(problem, device, kernels)}

    def trial_records(self, problem: Problem, device: Device, kernels: Sequence[Kernel]) -> Iterator[Record]:
        """The records of `trials`, in the order of measuring."""
        versions = {kernel.name: kernel.version for kernel in kernels}
        return (record for record in self.records(problem, device.key)
                if record.run not in REPEATED and record.is_todays(device.toolchain, versions)
                and record.may_be_of(device))

    def forget_failed(self, problem: Problem, device: Device, kernels: Sequence[Kernel]) -> int:
        """Delete the `trials` that timed out or crashed, and return their number.

        The machine's load may have been the cause, so they should be measured again.
        """
        versions = self.versions()
        with self._reading():
            return sum(self._connection.execute(
                "DELETE FROM trials WHERE problem = (SELECT id FROM problems WHERE key = ?) AND device = "
                "(SELECT id FROM devices WHERE key = ?) AND kernel = ? AND kernel_version = ? AND toolchain = ? AND "
                "machine IN ('', ?) AND status IN (?, ?)", (
                    problem.key, device.key, kernel.name, version, device.toolchain, device.fingerprint,
                    Status.TIMEOUT.value, Status.CRASH.value)).rowcount
                for kernel in kernels for version in versions.same(kernel))

    def records(self, problem: Problem | None = None, device: str | None = None,
                run: str | None = None) -> Iterator[Record]:
        """The records, optionally of one problem, device (its key) and run; trials first, in the order of measuring."""
        more, values = ("", ()) if run is None else (" AND run = ?", (run,))
        for table in ("trials", "repeats"):
            if run is None or (run in REPEATED) == (table == "repeats"):
                for batch in self._select(table, more + " ORDER BY id", problem, device, values):
                    yield from batch.records()

    def batches(self) -> Iterator[JournalBatch]:
        """The records, in the order of `records`, as batches of columns."""
        for table in ("trials", "repeats"):
            yield from self._select(table, " ORDER BY id", None, None, ())

    def count(self) -> int:
        """The number of all records, trials and repetitions."""
        with self._reading():
            return sum(int(self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
                       for table in ("trials", "repeats"))

    def newest(self, device: str, count: int) -> list[Record]:
        """The newest `count` trials and `count` repetitions of a device (its key), the newest first."""
        records = [record for table in ("trials", "repeats")
                   for batch in self._select(table, " ORDER BY id DESC LIMIT ?", None, device, (count,))
                   for record in batch.records()]
        return sorted(records, key=lambda record: -record.when)

    def state(self, device: str) -> tuple[int, ...]:
        """Numbers that change with the records of a device (its key); all are 0 without records."""
        with self._reading():
            return tuple(int(number) for table in ("trials", "repeats") for number in self._connection.execute(
                f"SELECT count(*), coalesce(max(id), 0) FROM {table} "
                "WHERE device = (SELECT id FROM devices WHERE key = ?)", (device,)).fetchone())

    def devices(self) -> dict[str, Device]:
        """The devices whose facts are stored, by key."""
        with self._reading():
            rows = self._connection.execute("SELECT key, json FROM devices WHERE json != '' ORDER BY id").fetchall()
            return {str(key): Device.from_json(object_of(facts)) for key, facts in rows}

    def problems(self) -> list[Problem]:
        """All problems that have a record, without those that no library in use declares or that it refuses now."""
        with self._reading():
            texts = self._connection.execute("SELECT json FROM problems ORDER BY id").fetchall()
            return [problem for (text,) in texts if (problem := problem_of(text)) is not None]

    def measured(self, device: str) -> frozenset[str]:
        """The keys of the problems that have a record of a device (its key)."""
        # a search in two indices for each problem: a journal has some hundred problems, and many more records
        of_device = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE problem = problems.id AND device = :device)"
                                for table in ("trials", "repeats"))
        with self._reading():
            number = self._connection.execute("SELECT id FROM devices WHERE key = ?", (device,)).fetchone()
            return frozenset() if number is None else frozenset(str(key) for (key,) in self._connection.execute(
                f"SELECT key FROM problems WHERE {of_device}", {"device": number[0]}))

    def unknown_problems(self) -> str | None:
        """A note on the records that are left out, or None.

        No library in use declares their operations, or a library's operation, whose features or rules have changed,
        refuses their problems.
        """
        unknown: set[str] = set()
        refused: list[str] = []
        with self._reading():
            for (text,) in self._connection.execute("SELECT json FROM problems"):
                try:
                    if read_problem(text) is None:
                        unknown.add(object_of(text)["type"])
                except ProblemError as error:
                    refused.append(one_line(error))
        notes = [f"the records of {', '.join(sorted(unknown))} are left out; name their library with "
                 "--library"] if unknown else []
        if refused:
            notes.append(f"the records of {len(refused)} problem{'s' * (len(refused) > 1)} that the operation refuses "
                         f"now are left out: {refused[0]}")
        return "; ".join(notes) or None

    def _id(self, table: str, key: str, text: str) -> int:
        if (table, key) not in self._ids:
            with self._reading():
                self._connection.execute(f"INSERT OR IGNORE INTO {table} (key, json) VALUES (?, ?)", (key, text))
                self._ids[table, key] = int(
                    self._connection.execute(f"SELECT id FROM {table} WHERE key = ?", (key,)).fetchone()[0])
        return self._ids[table, key]

    def _select(self, table: str, more: str, problem: Problem | None, device: str | None,
                values: tuple[str | int, ...]) -> Iterator[JournalBatch]:
        where, arguments = "1", list[str | int]()
        if problem is not None:
            where += " AND problem = (SELECT id FROM problems WHERE key = ?)"
            arguments.append(problem.key)
        if device is not None:
            where += " AND device = (SELECT id FROM devices WHERE key = ?)"
            arguments.append(device)
        with self._reading():
            cursor = self._connection.execute(  # the first query, so that the next ones hold all its rows name
                f"SELECT id, {FIELDS} FROM {table} WHERE {where} {more}", (*arguments, *values))
            texts = self._connection.execute(*("SELECT id, json FROM problems",) if problem is None else (
                "SELECT id, json FROM problems WHERE key = ?", (problem.key,)))
            reader = BatchReader(table, {number: problem or problem_of(text) for number, text in texts},
                                 dict(self._connection.execute("SELECT id, key FROM devices")))
            todays = cache(self.versions().todays)  # most batches are of few kernels
            while rows := cursor.fetchmany(ROWS):
                batch = reader.batch(rows)
                versions = list(map(todays, batch.kernels, batch.kernel_versions))
                yield batch if versions == list(batch.kernel_versions) else replace(batch, kernel_versions=versions)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if primary_code(error) == sqlite3.SQLITE_READONLY:
                raise FormatError(
                    f"cannot write the journal {self.path}: {error}; --journal PATH names another") from None
            raise SeqtuneError(f"the journal {self.path} cannot be used now: {error}") from None
        except (sqlite3.DatabaseError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise FormatError(f"the journal {self.path} is damaged: {one_line(error)}") from None
