"""Journals that are damaged, hostile, or taken away while they are in use."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.data.journal.journal import Journal
from seqtune.errors import FormatError
from tests.data.journal.test_journal import record

DAMAGES: dict[str, list[object]] = {
    "kernel": [b"\0\1", None], "kernel_version": ["x", 1.5], "configuration": ["{", "[1]", '{"a": [1]}'],
    "toolchain": [None, b"t1"], "status": ["fast", "", b"correct"],
    "samples": ["[null]", "[1e400]", "[" * 5000, "{}", "[-1.0]", "[NaN]", '["1"]', "[]", b"[1]", "[true]"],
    "error": ["x", b"1"], "build_seconds": ["x", -1.0, 1e300], "message": [b"\xff\xfe"], '"when"': ["x", 1e300],
    "run": [b"r"], "host": [None, b"h"], "machine": [b"m"], "session": [b"s"], "stage": [b"s"], "budget": ["x", -1.0],
    "loaded": ["x", -1], "disturbed": ["x", 1.5], "resources": ["[", "7", '{"registers": "x"}'],
    "problem": [99, "x"], "device": [99, "x"],
}


def statement(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for text in statements:
            connection.execute(text, values)


@pytest.mark.parametrize("column", DAMAGES)
def test_a_value_that_is_no_value_of_its_column_is_one_line(column: str, tmp_path: Path,
                                                          capsys: pytest.CaptureFixture[str]) -> None:
    for number, value in enumerate(DAMAGES[column]):
        path = tmp_path / f"journal-{number}.sqlite"
        with Journal(path) as journal:
            journal.add(record(seconds=0.5))
        try:
            statement(path, f"UPDATE trials SET {column} = ?", values=(value,))
        except sqlite3.IntegrityError:
            continue  # SQLite itself refuses the value
        with Journal(path) as journal, pytest.raises(FormatError, match="is damaged") as caught:
            list(journal.records())
        assert re.search("row 1 of trials: .*" + column.strip('"'), str(caught.value))
        assert len(str(caught.value).splitlines()) == 1
        assert main(["export", "parquet", "--journal", str(path), "--out", str(tmp_path / "out.parquet")]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert not (tmp_path / "out.parquet").exists()


def test_a_problem_that_an_operation_of_ours_refuses_is_damage(tmp_path: Path) -> None:
    with Journal(path := tmp_path / "journal.sqlite") as journal:
        journal.add(record())
    statement(path, "UPDATE problems SET json = json_set(json, '$.m', -3)")
    with Journal(path) as journal:
        for read in (journal.problems, lambda: list(journal.records())):
            with pytest.raises(FormatError, match=r"is damaged: .*m=-3 is outside"):
                read()


@pytest.mark.parametrize(("statements", "says"), [
    (["DROP TABLE trials", "CREATE VIEW trials AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
      "SELECT i AS id FROM n"], "the view 'trials'"),
    (["CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END"], "the trigger 't'"),
    (["ALTER TABLE trials ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(100000)))"], "computed column"),
    (["DROP TABLE repeats"], "no table repeats"),
])
def test_a_journal_that_is_not_made_of_plain_tables_is_refused(statements: list[str], says: str,
                                                             tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        journal.add(record())
    statement(path, *statements)
    with pytest.raises(FormatError, match=says):
        Journal(path)


def add_all(journal: Journal, tiles: range) -> None:
    for tile in tiles:
        journal.add(record(tile))


def deleted(path: Path) -> None:
    path.unlink()


def renamed(path: Path) -> None:
    path.rename(path.with_name("elsewhere.sqlite"))


def replaced(path: Path) -> None:
    other = path.with_name("other.sqlite")
    Journal(other).close()
    other.replace(path)


def without_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def truncated(path: Path) -> None:
    os.truncate(path, 4096)


@pytest.mark.parametrize("accident", [deleted, renamed, replaced, without_log, truncated])
def test_a_journal_that_is_taken_away_is_noticed_at_the_next_record_and_rescued(accident: Callable[[Path], None],
                                                                              tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.add(record(1))
    accident(path)
    with pytest.raises(FormatError, match=str(path)) as caught:
        journal.add(record(2))
    journal.close()
    assert len(str(caught.value).splitlines()) == 1
    rescued = path.with_name("journal.sqlite.rescued-1")
    if accident is truncated:
        return  # the records may be in the part that is gone
    assert str(rescued) in str(caught.value)
    with Journal(rescued) as saved:
        assert list(saved.records()) == [record(1), record(2)]


def test_flipped_bits_are_noticed_while_the_journal_is_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        add_all(journal, range(300))
    content = bytearray(path.read_bytes())
    for offset in range(5 * 4096, len(content), 4096):
        content[offset:offset + 100] = b"\xff" * 100
    journal = Journal(path, checked_every=10)
    path.write_bytes(content)  # in place: the same file
    with pytest.raises(FormatError, match="is damaged"):
        add_all(journal, range(1000, 1010))
    journal.close()


@pytest.mark.parametrize("name", [":memory:", "file:j.sqlite?mode=memory", "", "ä ö?#%20.sqlite"])
def test_the_name_of_a_journal_is_never_more_than_a_name(name: str, tmp_path: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if not name:
        with pytest.raises(FormatError, match="folder"):
            Journal(name)
        return
    with Journal(name) as journal:
        journal.add(record())
    assert (tmp_path / name).stat().st_size > 0
    with Journal(name) as journal:
        assert list(journal.records()) == [record()]


def test_a_link_to_nothing_becomes_a_journal_or_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "target.sqlite")
    with Journal(tmp_path / "link.sqlite") as journal:
        assert journal.add(record())
        assert journal.add(record(2))
    assert (tmp_path / "target.sqlite").is_file()
    (tmp_path / "lost.sqlite").symlink_to(tmp_path / "nowhere" / "target.sqlite")
    with pytest.raises(FormatError, match=r"lost\.sqlite"):
        Journal(tmp_path / "lost.sqlite")
