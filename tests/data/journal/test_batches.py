"""Rows of a journal that are read together are checked as strictly as one by one, and give the same records."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from seqtune.data.journal.batches import JournalBatch
from seqtune.data.journal.journal import Journal
from seqtune.data.journal.rows import NAMES, ROWS, BatchReader, record_of
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.resource_usage import ResourceUsage
from tests.data.journal.test_journal import PROBLEM, record

USUAL: dict[str, Any] = {
    "id": 1, "problem": 1, "device": 1, "kernel": "test.k", "kernel_version": 1, "configuration": '{"tile":1}',
    "toolchain": "t1", "status": "correct", "samples": "[0.5, 0.25]", "error": 1e-7, "build_seconds": 0.5,
    "message": "", "when": 1.7e9, "run": "random", "host": "h", "machine": "", "session": "", "stage": "",
    "budget": 0.0, "loaded": 0, "resources": None, "disturbed": 0}
ODD: dict[str, list[Any]] = {
    "samples": ["[0.5],[0.25", "0.5]", "[0.5]\n", "[0.5,\n0.25]", '["]"]', '["a"]', "[NaN]", "[0.5, NaN]", "[Infinity]",
                "[-Infinity]", "[1, 2]", "[0.5, 1]", "[true]", "[null]", "[]", "[ ]", " [0.5]", "[0.5]]", "[[0.5]",
                "[[]]", "[{}]", "[1e-400]", "[-1.0]", "[1e10]", "[.5]", "[0.5,]", "[0.5 0.25]", "{}", "", "[", "]",
                "],[", 5, None, b"[0.5]", "[" * 5000, "[" + "1.0," * 100_000 + "1.0]"],
    "configuration": ["{}", "[]", '{"a": true}', '{"a": 1.0}', '{"a": null}', '{"a": [1]}', '{"a": "b"}', "{", None, 7,
                      b"{}", '{"a": 9007199254740993000}', '{"a": 1, "a": 2}', '{"long": "' + "x" * 2000 + '"}'],
    "status": ["fast", "", "timeout", "crash", None, 1, b"correct"],
    "error": [None, math.inf, 1, "x", b"x"], "build_seconds": [0, 1, -1.0, 1e300, None, "1"],
    "message": ["a\nb", "é", "\x7f", None, b"x", 1], "when": [0, -1.0, 1e300, "x", None],
    "budget": [1, -0.5, "x", None],
    "loaded": [1, 2, -1, 0.0, 1.5, None, "1"], "disturbed": [3, -1, 2.5, None],
    "kernel_version": [0, -1, 1 << 60, 1.0, "1", None],
    "resources": ["", "x", "{}", 0, 7, b"", '{"registers": 8, "shared_bytes": 0, "spill_bytes": 0, "occupancy": 0.5}',
                  '{"registers": 0, "shared_bytes": 0, "spill_bytes": 0, "occupancy": 0.5}'],
    "problem": [2, 3, None, "1"], "device": [2, None], "kernel": ["", None, 1], "host": [None, b"h"], "stage": [1]}


def outcome(work: Callable[[], list[Record]]) -> list[Record] | str:
    """The records, or the kind and text of the error."""
    try:
        return work()
    except (ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def reader(check_row: Callable[..., Record] = record_of) -> BatchReader:
    return BatchReader("trials", {1: PROBLEM, 2: None}, {1: "device"}, check_row)


def singly(rows: list[dict[str, Any]]) -> list[Record]:
    """The records of rows that are checked one by one."""
    records = []
    problems, devices = {1: PROBLEM, 2: None}, {1: "device"}
    for row in rows:
        try:
            if row["problem"] not in problems:
                raise ValueError(f"the column problem has {row['problem']!r}")
            if (problem := problems[row["problem"]]) is None:
                continue
            if row["device"] not in devices:
                raise ValueError(f"the column device has {row['device']!r}")
            records.append(record_of(row, problem, devices[row["device"]]))
        except ValueError as error:
            raise ValueError(f"row {row['id']} of trials: {error}") from None
    return records


def together(rows: list[dict[str, Any]], check_row: Callable[..., Record] = record_of) -> list[Record]:
    return list(reader(check_row).batch([tuple(row[name] for name in NAMES) for row in rows]).records())


@pytest.mark.parametrize("column", ODD)
def test_an_odd_value_has_the_same_outcome_as_alone(column: str) -> None:
    values = ODD[column]
    for number, value in enumerate(values):
        rows = [USUAL | {"id": 1}, USUAL | {"id": 2, column: value},
                USUAL | {"id": 3, column: values[(number + 1) % len(values)]}, USUAL | {"id": 4}]
        for chosen in (rows[1:2], rows, [rows[0], rows[1], rows[3]]):
            expected = outcome(lambda chosen=chosen: singly(chosen))  # type: ignore[misc]
            assert outcome(lambda chosen=chosen: together(chosen)) == expected, repr(value)[:80]  # type: ignore[misc]


def records(count: int) -> list[Record]:
    generator = Random(1)
    return [record(tile, measurement=Measurement(
        Status.CORRECT if tile % 5 else Status.CORRECTNESS,
        tuple(generator.uniform(1e-6, 1e-3) for _ in range(tile % 5 * 3)), None if tile % 7 else 0.5, tile / 8,
        "" if tile % 5 else "wrong numbers", resources=None if tile % 3 else ResourceUsage(8, tile, 0, 0.5),
        disturbed=tile % 4), run="random" if tile % 2 else "again") for tile in range(count)]


def test_batches_hold_what_the_records_hold(tmp_path: Path) -> None:
    added = records(2 * ROWS + 10)
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add_all(added)
        batches, read = list(journal.batches()), list(journal.records())
    assert sorted(read, key=lambda each: each.configuration.number("tile")) == added
    assert [each for batch in batches for each in batch.records()] == read
    assert max(map(len, batches)) <= ROWS
    measured = [each.measurement for each in read]
    assert [seconds for batch in batches for seconds in batch.seconds] == [each.seconds for each in measured]
    assert [spread for batch in batches for spread in batch.spreads] == [each.spread for each in measured]
    assert [key for batch in batches for key in batch.keys] == [each.configuration.key for each in read]
    columns = JournalBatch.of_records(read[:9]).where([number % 2 == 0 for number in range(9)])
    assert list(columns.records()) == read[:9:2]


def test_a_bad_row_among_many_is_named(tmp_path: Path) -> None:
    rows = [USUAL | {"id": number} for number in range(ROWS)]
    rows[77] = rows[77] | {"samples": "[-1.0]"}
    assert outcome(lambda: together(rows)) == "ValueError: row 77 of trials: the column samples has '[-1.0]'"
    assert replace(together(rows[:1])[0], device="device") == singly(rows[:1])[0]
