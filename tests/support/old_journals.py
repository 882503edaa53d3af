"""Journals as earlier versions wrote them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from seqtune.data.record import Record
from seqtune.kernels.devices.device import Device

_COLUMNS = """
    id INTEGER PRIMARY KEY, problem INTEGER NOT NULL REFERENCES problems, device INTEGER NOT NULL REFERENCES devices,
    kernel TEXT NOT NULL, kernel_version INTEGER NOT NULL, configuration TEXT NOT NULL, toolchain TEXT NOT NULL,
    status TEXT NOT NULL, samples TEXT NOT NULL, error REAL, build_seconds REAL NOT NULL, message TEXT NOT NULL,
    "when" REAL NOT NULL, run TEXT NOT NULL, host TEXT NOT NULL"""
_COLUMNS_OF_2 = """, machine TEXT NOT NULL DEFAULT '', session TEXT NOT NULL DEFAULT '',
    stage TEXT NOT NULL DEFAULT '', budget REAL NOT NULL DEFAULT 0"""
_UNIQUE = "problem, device, kernel, kernel_version, configuration, toolchain"
_SCHEMA = """
    CREATE TABLE problems (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, json TEXT NOT NULL);
    CREATE TABLE devices (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, json TEXT NOT NULL);
    CREATE TABLE trials ({columns}, UNIQUE ({unique}));
    CREATE TABLE repeats ({columns});
    CREATE INDEX repeats_by_problem ON repeats (problem, device);
    PRAGMA application_id = 0x73717475;
    PRAGMA user_version = {version};
    PRAGMA journal_mode = WAL;
"""
SCHEMAS = {1: _SCHEMA.format(version=1, columns=_COLUMNS, unique=_UNIQUE),
           2: _SCHEMA.format(version=2, columns=_COLUMNS + _COLUMNS_OF_2, unique=f"{_UNIQUE}, machine")}
# version -> the machine, session, stage and budget of each record
PROVENANCE: dict[int, tuple[str | float, ...]] = {1: (), 2: ("l1=1", "s", "alone", 2.0)}


def write_old_journal(path: Path, version: int, records: Iterable[Record], device: Device) -> None:
    """Write the records, all of one problem, as that version did; finals and verifications are repeats."""
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMAS[version])
    connection.execute("INSERT INTO devices VALUES (1, ?, ?)", (device.key, json.dumps(device.to_json())))
    for record in records:
        problem, measured = record.problem, record.measurement
        connection.execute("INSERT OR IGNORE INTO problems VALUES (1, ?, ?)",
                           (problem.key, json.dumps(problem.to_json())))
        row = (None, 1, 1, record.configuration.kernel, 1, record.configuration.key, record.toolchain,
               measured.status.value, json.dumps(measured.samples), measured.error, measured.build_seconds, "",
               record.when, record.run, record.host, *PROVENANCE[version])
        table = "repeats" if record.run in ("final", "verify") else "trials"
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    connection.commit()
    connection.close()
