"""Mutations: ways to spoil a file, by its bytes or by its structure. The same random numbers give the same file."""

from __future__ import annotations

import json
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

ODD_TEXTS = (
    b"", b"\0", b"[" * 3000, b"{\"a\":" * 1000, b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"NaN", b"-1", b"0",
    b"1e400", b"1" * 5000, b"9223372036854775808", b"-9223372036854775809", b"__import__('os').system('true')",
    b"../../../../etc/passwd", b"/dev/zero", b"%s%n", b"\r\n\r\n", b"'; DROP TABLE trials; --", b"\\u0000",
    b"\\ud800", b"null", b"true", b"[]", b"{}", b"x" * 4000, b"a.b.c.d", b"**", b"min(())", b"2**2**2**9",
    b"lambda: 0")
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -2**63, 10**40, 0.5, -0.0, 1e308, float("inf"), float("nan"), "", "x",
    "x" * 3000, "\ud800", "\0", "../../x", "n ** n ** n", [], {}, [[]], [None], {"a": 1}, [1, "a", None], "1", "kernel",
    [0] * 500)
MOST_EDITS = 6


def mutate_bytes(content: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """Spoil a file by a few edits of its bytes; `others` lend pieces."""
    spoilt = bytearray(content)
    for _ in range(random.randint(1, MOST_EDITS)):
        begin = random.randint(0, len(spoilt))
        end = min(len(spoilt), begin + int(random.expovariate(0.05)))
        match random.randrange(8):
            case 0 if spoilt:
                spoilt[random.randrange(len(spoilt))] ^= 1 << random.randrange(8)
            case 1:
                del spoilt[begin:end]
            case 2:
                spoilt[begin:begin] = spoilt[begin:end] * random.choice((1, 2, 50))
            case 3:
                spoilt[begin:end] = random.choice(ODD_TEXTS)
            case 4:
                spoilt[begin:end] = random.randbytes(end - begin)
            case 5:
                other = random.choice(others)
                start = random.randint(0, len(other))
                spoilt[begin:end] = other[start:start + random.randint(0, 200)]
            case 6 if len(spoilt) >= 8:
                place = random.randrange(len(spoilt) - 7)
                spoilt[place:place + 8] = struct.pack("<q", random.choice((-1, 0, 2**31, 2**62, -2**63)))
            case _:
                if random.random() < 0.3:
                    del spoilt[begin:]
    return bytes(spoilt)


def mutate_value(value: Any, random: Random) -> Any:
    """Replace, remove, rename or double one part of a JSON value."""
    value = json.loads(json.dumps(value))
    if not isinstance(value, dict | list) or not value:
        return random.choice(ODD_VALUES)
    holder: Any = value
    while True:
        key = random.choice(list(holder)) if isinstance(holder, dict) else random.randrange(len(holder))
        inner = holder[key]
        if isinstance(inner, dict | list) and inner and random.random() < 0.75:
            holder = inner
            continue
        match random.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[random.choice(("", "x", str(key) * 2, "\0", "\ud800"))] = holder.pop(key)
            case 2 if isinstance(holder, list):
                holder.insert(key, inner)
            case 3 if isinstance(inner, int | float):
                holder[key] = random.choice((-inner, inner + 1, inner * 1e9, inner * 1000))
            case _:
                holder[key] = random.choice(ODD_VALUES)
        return value


def json_structure(content: bytes, random: Random) -> bytes:
    """Spoil the structure of a JSON text."""
    value = json.loads(content)
    for _ in range(random.randint(1, 3)):
        value = mutate_value(value, random)
    return json.dumps(value, ensure_ascii=random.random() < 0.9).encode("utf-8", "surrogatepass")


def sqlite_structure(content: bytes, random: Random) -> bytes:
    """Spoil cells, tables or the schema of a data base."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "base"
        path.write_bytes(content)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for _ in range(random.randint(1, 3)):
                with suppress(sqlite3.Error, ValueError, OverflowError):  # the odd value does not fit
                    _spoil_table(connection, random.choice(tables), random)
            with suppress(sqlite3.Error):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.read_bytes()


def _spoil_table(connection: sqlite3.Connection, table: str, random: Random) -> None:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    if not columns:  # dropped before
        return
    column = random.choice(columns)
    match random.randrange(12):
        case 0:
            connection.execute(f"DROP TABLE {table}")
        case 1:
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        case 2:
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
        case 3:
            connection.execute(f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END")
        case 4:
            connection.execute(f"DELETE FROM {table}")
        case _:
            value: Any = random.choice([*ODD_VALUES, *ODD_TEXTS])
            if isinstance(value, list | dict):
                value = json.dumps(value)
            text = connection.execute(f"SELECT \"{column}\" FROM {table} LIMIT 1").fetchone()
            if text and isinstance(text[0], str) and text[0][:1] in "[{" and random.random() < 0.7:
                value = json_structure(text[0].encode(), random).decode("utf-8", "replace")
            connection.execute(f"UPDATE {table} SET \"{column}\" = ?", (value,))


def safetensors_structure(content: bytes, random: Random) -> bytes:
    """Spoil the header of a safetensors file: 8 bytes of length, then JSON."""
    length = int.from_bytes(content[:8], "little")
    header = json_structure(content[8:8 + length], random)
    return len(header).to_bytes(8, "little") + header + content[8 + length:]


def parquet_structure(content: bytes, random: Random) -> bytes:
    """Spoil a Parquet file: its metadata, the name or type of a column, or a value."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    metadata = dict(table.schema.metadata or {})
    index = random.randrange(table.num_columns)
    name = table.column_names[index]
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        match random.randrange(5):
            case 0:
                table = table.drop_columns([name])
            case 1:
                table = table.rename_columns([random.choice(("", "x", column)) if column == name else column
                                              for column in table.column_names])
            case 2:
                odd = random.choice(ODD_VALUES)
                table = table.set_column(index, name, pa.array([odd] * table.num_rows))
            case _:
                key = random.choice(list(metadata) or [b"seqtune"])
                metadata[key] = json_structure(metadata.get(key, b"{}"), random)
    sink = io.BytesIO()
    with suppress(pa.ArrowException, UnicodeEncodeError):
        pq.write_table(table.replace_schema_metadata(metadata), sink)
        return sink.getvalue()
    return content[:-1]


Structure = Callable[[bytes, Random], bytes]
