"""Records that are stored together: all of them or none."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.journal.schema import open_connection
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import SeqtuneError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

PROBLEM = Problem.make("gemm", m=3, n=4, k=5)


def records(count: int, message: str = "", run: str = "random") -> list[Record]:
    """That many trials, which failed with a message."""
    return [Record(PROBLEM, "test:1", 1, Configuration.of("test.k", {"x": number}), "t1",
                   Measurement(Status.COMPILE, message=message), 1.0, run) for number in range(count)]


def test_records_stored_together_are_those_stored_one_by_one(tmp_path: Path) -> None:
    listed = records(5) + records(2, run="final")
    with Journal(tmp_path / "alone") as alone, Journal(tmp_path / "together") as together:
        assert [alone.add(record) for record in listed] == [True] * 7
        assert together.add_all(listed) == 7
        assert list(together.records()) == list(alone.records())
        assert together.add_all([*records(6), *records(6)]) == 1  # five are known, and the sixth comes twice
        assert together.add_all([]) == 0


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    connection = open_connection(tmp_path / "other")  # of the journal, once it is open

    def connect(path: Path) -> sqlite3.Connection:
        nonlocal connection
        connection.close()
        connection = open_connection(path)
        return connection

    with Journal(tmp_path / "journal", connect=connect) as journal:
        assert journal.add_all(records(3)) == 3
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(SeqtuneError, match="cannot be used now: database or disk is full"):
            journal.add_all(records(50, "x" * 2000))
        assert len(list(journal.records())) == 3
        connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
        assert journal.add_all(records(50, "x" * 2000)) == 47  # the same records, when there is room again
        assert len(list(journal.records())) == 50
