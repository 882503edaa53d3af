"""The journal: what is added stays, once; what is not a journal stays untouched."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.problem import Problem
from tests.support.old_journals import write_old_journal

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1")
KERNEL = Kernel("test.k", "gemm", ("test",), (Parameter("tile", (1, 2, 4)), Parameter("order", ("mn", "nm"))), (), ())
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)


def record(tile: int = 1, seconds: float = 1e-3, **changes: Any) -> Record:
    found = Record(PROBLEM, DEVICE.key, 1, Configuration.of("test.k", (("tile", tile), ("order", "mn"))), "t1",
                   Measurement(Status.CORRECT, (seconds, seconds * 1.5), 1e-7, 0.02), 1700000000.0, "random", "here")
    return replace(found, **changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def test_records_come_back_as_they_were(path: Path) -> None:
    failure = record(4, measurement=Measurement(Status.CRASH, message="the worker died (SIGSEGV)"), loaded=True)
    recorded = record(2, problem=Problem.make("recorded", colour="red", size=3))
    with Journal(path) as journal:
        journal.add_device(DEVICE)
        for one in (record(), failure, recorded):
            assert journal.add(one)
    with Journal(path) as journal:
        assert list(journal.records()) == [record(), failure, recorded]
        assert list(journal.records(PROBLEM)) == [record(), failure]
        assert not list(journal.records(device="another"))
        assert journal.devices() == {DEVICE.key: DEVICE}
        assert journal.problems() == [PROBLEM, recorded.problem]


def test_fractions_and_booleans_come_back_with_their_types(path: Path) -> None:
    values = (1, 1.0, True, 0.5, "0.5", -0.0)
    records = [record(configuration=Configuration.of("test.k", {"tile": value, "order": "mn"})) for value in values]
    with Journal(path) as journal:
        journal.add_device(DEVICE)
        assert all(map(journal.add, records))
    with Journal(path) as journal:
        found = list(journal.records())
        assert found == records
        assert [repr(one.configuration["tile"]) for one in found] == list(map(repr, values))
        assert len(journal.trials(PROBLEM, DEVICE, (KERNEL,))) == len(values)


def test_a_record_for_a_journal_of_somebody_else_is_refused_with_what_to_do(path: Path) -> None:
    Journal(path).close()
    with Journal(path, connect=lambda path: sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as journal, \
            pytest.raises(FormatError, match=r"cannot write the journal .*; --journal PATH names another"):
        journal.add(record())


def test_a_trial_is_kept_once_and_the_first_stays(path: Path) -> None:
    with Journal(path) as journal:
        assert journal.add(record(seconds=1.0))
        assert not journal.add(record(seconds=2.0))
        (only,) = journal.records()
        assert only.measurement.seconds == 1.0


@pytest.mark.parametrize("changes", [
    {"toolchain": "t2"}, {"kernel_version": 2}, {"device": "other"}, {"problem": Problem.make("gemm", m=9, n=4, k=5)},
    {"configuration": Configuration.of("test.k", (("tile", 2), ("order", "mn")))}])
def test_whatever_the_time_depends_on_makes_another_trial(path: Path, changes: dict[str, Any]) -> None:
    with Journal(path) as journal:
        assert journal.add(record())
        assert journal.add(record(**changes))


def test_only_todays_version_and_toolchain_count_as_measured(path: Path) -> None:
    with Journal(path) as journal:
        journal.add(record(1))
        journal.add(record(2, kernel_version=2))
        journal.add(record(4, toolchain="t2"))
        assert [one["tile"] for one in journal.trials(PROBLEM, DEVICE, [KERNEL])] == [1]


def test_what_timed_out_or_crashed_with_todays_kernels_and_toolchain_can_be_forgotten(path: Path) -> None:
    def failed(tile: int, status: Status, **changes: Any) -> Record:
        return replace(record(tile, **changes), measurement=Measurement(status))

    with Journal(path) as journal:
        kept = [record(1), failed(2, Status.COMPILE), failed(4, Status.CRASH, toolchain="t2"),
                failed(4, Status.CRASH, kernel_version=2), failed(4, Status.TIMEOUT, device="other")]
        for one in (failed(4, Status.TIMEOUT), failed(8, Status.CRASH), *kept):
            assert journal.add(one)
        assert journal.forget_failed(PROBLEM, DEVICE, [KERNEL]) == 2
        assert [one.identity for one in journal.records()] == [one.identity for one in kept]
        assert journal.forget_failed(PROBLEM, DEVICE, [KERNEL]) == 0
        assert journal.add(failed(4, Status.CRASH))


def test_what_is_measured_again_is_kept_beside_the_trial(path: Path) -> None:
    with Journal(path) as journal:
        journal.add(record(seconds=3.0))
        journal.add(record(seconds=2.0, run="verify"))
        journal.add(record(seconds=1.0, run="final"))
        assert journal.trials(PROBLEM, DEVICE, [KERNEL])[record().configuration].seconds == 3.0
        assert [one.run for one in journal.records()] == ["random", "verify", "final"]
        assert [one.run for one in journal.records(run="verify")] == ["verify"]


def test_a_journal_of_version_1_is_read_and_goes_on(path: Path) -> None:
    old = [record(), record(2), record(run="verify")]
    write_old_journal(path, 1, old, DEVICE)
    for _ in range(2):  # migrated, then as it is
        with Journal(path) as journal:
            assert list(journal.records()) == old
            assert len(journal.trials(PROBLEM, DEVICE, [KERNEL])) == 2
            assert journal.devices() == {DEVICE.key: DEVICE}
            assert not journal.add(record())
    with Journal(path) as journal:
        newer = record(4, machine="l1=1", session="s", stage="alone", budget=2.0)
        assert journal.add(newer)
        assert list(journal.records(PROBLEM))[2] == newer


def test_a_journal_that_cannot_be_written_is_read_in_this_version_and_else_says_how_to_migrate_it(
        path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = path.with_name("newer.sqlite")
    with Journal(newer) as journal:
        journal.add(record())
    write_old_journal(path, 1, [record()], DEVICE)
    connect = sqlite3.connect

    def read_only(database: Path | str, **options: Any) -> sqlite3.Connection:
        """Open a journal as SQLite opens a file without the permission to write, which root always has."""
        name = f"file:{str(database).removeprefix('file:').partition('?')[0]}?mode=ro"
        connection: sqlite3.Connection = connect(name, **{**options, "uri": True})
        return connection

    monkeypatch.setattr(sqlite3, "connect", read_only)
    with Journal(newer) as journal:
        assert list(journal.records()) == [record()]
    before = path.read_bytes()
    with pytest.raises(FormatError, match=r"format of version 1 and cannot be written; copy it") as caught:
        Journal(path)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert path.read_bytes() == before
    monkeypatch.undo()
    with Journal(path) as journal:
        assert list(journal.records()) == [record()]


def test_records_in_the_log_of_a_journal_that_cannot_be_written_are_not_left_out(
        path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process leaves the log behind, and SQLite cannot read it in a folder where it makes no file."""
    copy = path.with_name("copy.sqlite")
    with Journal(path) as journal:
        journal.add(record())
        for end in ("", "-wal"):
            Path(f"{copy}{end}").write_bytes(Path(f"{path}{end}").read_bytes())
    connect = sqlite3.connect

    def in_a_locked_folder(database: Path | str, **options: Any) -> sqlite3.Connection:
        """Refuse a connection that may write, as SQLite does without the permission, which root always has."""
        if "immutable" not in str(database):
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        connection: sqlite3.Connection = connect(database, **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", in_a_locked_folder)
    with pytest.raises(FormatError, match=r"newest records of .* may be in copy\.sqlite-wal beside it"):
        Journal(copy)
    monkeypatch.undo()
    with Journal(copy) as journal:
        assert list(journal.records()) == [record()]


def test_a_trial_of_another_machine_of_the_same_name_is_not_known_here(path: Path) -> None:
    """Virtual machines of one processor model differ in their caches."""
    other = replace(DEVICE, l3_bytes=1 << 20)
    assert other.key == DEVICE.key
    with Journal(path) as journal:
        assert journal.add(record(machine=other.fingerprint))
        assert not journal.trials(PROBLEM, DEVICE, [KERNEL])
        assert journal.add(record(seconds=2.0, machine=DEVICE.fingerprint))
        assert [one.seconds for one in journal.trials(PROBLEM, DEVICE, [KERNEL]).values()] == [2.0]
        assert [one.seconds for one in journal.trials(PROBLEM, other, [KERNEL]).values()] == [1e-3]


def test_device_facts_are_replaced(path: Path) -> None:
    with Journal(path) as journal:
        journal.add(record())
        assert journal.devices() == {}
        journal.add_device(DEVICE)
        journal.add_device(replace(DEVICE, peak_gflops=5.0))
        assert journal.devices()[DEVICE.key].peak_gflops == 5.0


def test_an_unclosed_journal_is_complete(path: Path) -> None:
    """A process that dies right after `add` has lost nothing."""
    script = ("import os, sys; from seqtune.data.journal.journal import Journal; from seqtune.data.record import *\n"
              "from seqtune.kernels.kernel import Configuration; from seqtune.kernels.problem import Problem\n"
              "journal = Journal(sys.argv[1])\n"
              "for tile in range(50):\n"
              "    journal.add(Record(Problem.make('gemm', m=3, n=4, k=5), 'd', 1,\n"
              "                Configuration.of('k', {'tile': tile}), 't', Measurement(Status.CORRECT, (1.0,))))\n"
              "os._exit(9)")
    assert subprocess.run([sys.executable, "-c", script, str(path)]).returncode == 9
    with Journal(path) as journal:
        assert [one.configuration["tile"] for one in journal.records()] == list(range(50))


def test_two_writers_share_a_journal(path: Path) -> None:
    with Journal(path) as first, Journal(path) as second:
        assert first.add(record(1))
        assert second.add(record(2))
        assert not second.add(record(1))
        assert len(list(first.records())) == 2


def damaged(path: Path, kind: str) -> None:
    if kind == "text":
        path.write_text("not a database, " * 20)
    elif kind == "short":
        path.write_bytes(b"SQLite format 3\0")
    elif kind == "folder":
        path.mkdir()
    elif kind == "foreign":
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE t (a)")
        other.close()
    else:
        with Journal(path) as journal:
            for tile in range(200):
                journal.add(record(tile))
        if kind == "truncated":
            path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
        elif kind == "newer":
            newer = sqlite3.connect(path)
            newer.execute("PRAGMA user_version = 5")
            newer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            newer.close()
        elif kind == "overwritten":
            whole = bytearray(path.read_bytes())
            whole[100:] = b"\xff" * (len(whole) - 100)
            path.write_bytes(whole)


@pytest.mark.parametrize(("kind", "words"), [
    ("text", "is not a journal"), ("short", "is not a journal"), ("folder", "is a folder"),
    ("foreign", "not a journal of seqtune"), ("truncated", "is truncated"), ("newer", "version 5"),
    ("overwritten", "is damaged")])
def test_what_is_no_journal_is_refused_in_one_line_and_left_alone(tmp_path: Path, kind: str, words: str) -> None:
    path = tmp_path / "journal.sqlite"
    damaged(path, kind)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(FormatError, match=words) as caught:
        Journal(path)
    assert "\n" not in str(caught.value)
    assert (path.read_bytes() if path.is_file() else b"") == before
    if kind != "overwritten":
        assert [found.name for found in tmp_path.iterdir()] == ["journal.sqlite"]


def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    """A process killed while it made the journal may leave one."""
    path = tmp_path / "journal.sqlite"
    path.touch()
    with Journal(path) as journal:
        assert journal.add(record())


def test_a_damaged_row_is_reported(path: Path) -> None:
    with Journal(path) as journal:
        journal.add(record())
    connection = sqlite3.connect(path)
    connection.execute("UPDATE trials SET samples = ?", (json.dumps([1])[:-1],))
    connection.commit()
    connection.close()
    with Journal(path) as journal, pytest.raises(FormatError, match="is damaged"):
        list(journal.records())


def test_a_journal_is_not_made_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"folder of the journal .* does not exist"):
        Journal(tmp_path / "typo" / "journal.sqlite")
    assert not list(tmp_path.iterdir())
