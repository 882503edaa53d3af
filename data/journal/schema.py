"""JournalSchema: the tables of a journal, the check of a file before it is opened, and the migration of older versions.

Version 2 added machine, session, stage and budget to every record; in the records of version 1 they are empty.
Version 3 added the resources of the built kernel; in older records they are null. Version 4 added the number of
disturbed samples and whether the machine was loaded; in older records both are 0. The table `versions`, which 0.2.0
does not know and leaves alone, is made with the first record of a kernel that a library's file declares: it has the
parts of the kernel's version (`seqtune.kernels.libraries.versions`).
"""

from __future__ import annotations

import os
import re
import sqlite3
import struct
from contextlib import closing, suppress
from pathlib import Path

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.files import check_length, replacing
from seqtune.kernels.own_folders import NO_HOME, is_nowhere

VERSION = 4  # the schema's version; SQLite's user_version
APPLICATION = 0x73717475  # "sqtu"; SQLite's application_id

LONGEST_VALUE = 1_000_000  # bytes of a row
TABLES = ("problems", "devices", "trials", "repeats")
VERSIONS = "versions"  # a table that a journal may lack
MAKE_VERSIONS = """CREATE TABLE IF NOT EXISTS versions (
    id INTEGER PRIMARY KEY, kernel TEXT NOT NULL, version INTEGER NOT NULL, parts TEXT NOT NULL,
    UNIQUE (kernel, version))"""
FIELDS = ('problem, device, kernel, kernel_version, configuration, toolchain, status, samples, error, build_seconds, '
          'message, "when", run, host, machine, session, stage, budget, loaded, resources, disturbed')
_FIELDS_OF_VERSION_1 = FIELDS.removesuffix(", machine, session, stage, budget, loaded, resources, disturbed")
_COLUMNS = """
    id INTEGER PRIMARY KEY, problem INTEGER NOT NULL REFERENCES problems, device INTEGER NOT NULL REFERENCES devices,
    kernel TEXT NOT NULL, kernel_version INTEGER NOT NULL, configuration TEXT NOT NULL, toolchain TEXT NOT NULL,
    status TEXT NOT NULL, samples TEXT NOT NULL, error REAL, build_seconds REAL NOT NULL, message TEXT NOT NULL,
    "when" REAL NOT NULL, run TEXT NOT NULL, host TEXT NOT NULL, machine TEXT NOT NULL DEFAULT '',
    session TEXT NOT NULL DEFAULT '', stage TEXT NOT NULL DEFAULT '', budget REAL NOT NULL DEFAULT 0, resources TEXT,
    disturbed INTEGER NOT NULL DEFAULT 0, loaded INTEGER NOT NULL DEFAULT 0"""
_RECORDS = f"""
    CREATE TABLE trials ({_COLUMNS},
        UNIQUE (problem, device, kernel, kernel_version, configuration, toolchain, machine));
    CREATE TABLE repeats ({_COLUMNS});
    CREATE INDEX repeats_by_problem ON repeats (problem, device);
"""
_SCHEMA = f"""
    CREATE TABLE problems (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, json TEXT NOT NULL);
    CREATE TABLE devices (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, json TEXT NOT NULL);
    {_RECORDS}
    PRAGMA application_id = {APPLICATION};
    PRAGMA user_version = {VERSION};
"""
_FROM_VERSION_1 = f"""
    DROP INDEX repeats_by_problem;
    ALTER TABLE trials RENAME TO trials_1;
    ALTER TABLE repeats RENAME TO repeats_1;
    {_RECORDS}
    INSERT INTO trials (id, {_FIELDS_OF_VERSION_1}) SELECT id, {_FIELDS_OF_VERSION_1} FROM trials_1;
    INSERT INTO repeats (id, {_FIELDS_OF_VERSION_1}) SELECT id, {_FIELDS_OF_VERSION_1} FROM repeats_1;
    DROP TABLE trials_1;
    DROP TABLE repeats_1;
    PRAGMA user_version = {VERSION};
"""
_RESOURCES = "".join(f"ALTER TABLE {table} ADD COLUMN resources TEXT;" for table in ("trials", "repeats"))
_MARKS = "".join(f"ALTER TABLE {table} ADD COLUMN {mark} INTEGER NOT NULL DEFAULT 0;"
                 for table in ("trials", "repeats") for mark in ("disturbed", "loaded"))
_AS_NOW = f"PRAGMA user_version = {VERSION};"
_MIGRATIONS = {  # version -> statements that lead from it to this one
    1: _FROM_VERSION_1, 2: _RESOURCES + _MARKS + _AS_NOW, 3: _MARKS + _AS_NOW}


def check_header(path: Path) -> None:
    """Check the header (https://sqlite.org/fileformat.html) without SQLite, which might write to the file.
    Raises FormatError if the file is no journal, of a later version, or truncated.
    """
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise FormatError(f"{path} is not a journal (no SQLite file, or a truncated one)")
    pages, version, application = (struct.unpack_from(">I", head, offset)[0] for offset in (28, 60, 68))
    if application != APPLICATION:
        raise FormatError(f"{path} is an SQLite file, but not a journal of seqtune")
    if not 1 <= version <= VERSION:
        raise FormatError(f"{path} is a journal of version {version}; this seqtune reads versions 1 to {VERSION}")
    page_size = struct.unpack_from(">H", head, 16)[0]
    expected = pages * (65536 if page_size == 1 else page_size)
    if path.stat().st_size < expected and _log(path) is None:
        raise FormatError(f"the journal {path} is truncated: {path.stat().st_size} of {expected} bytes")


def check_tables(path: Path) -> None:
    """Read the tables without opening the file for writing, which would create further files in its folder.

    Raises sqlite3's errors.
    """
    if _log(path) is not None:
        return  # in use, or left by a killed process: only SQLite can read the log
    with closing(_read_only(path)) as connection:
        check_schema(connection, path)
        for table in TABLES:
            connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchone()


def primary_code(error: sqlite3.OperationalError) -> int:
    """SQLite's primary result code, such as SQLITE_READONLY: the low byte of the extended one."""
    return error.sqlite_errorcode & 0xff


def check_regular(path: Path) -> None:
    """Check that the path of a journal is a regular file, or free. Raises FormatError, or MisuseError for its name."""
    if is_nowhere(path):
        raise MisuseError(f"{NO_HOME}, or name a journal (--journal)")
    check_length(path)
    if path.is_dir():
        raise FormatError(f"{path} is a folder, not a journal")
    if path.exists() and not path.is_file():
        raise FormatError(f"{path} is no regular file, so no journal")


def open_connection(path: Path) -> sqlite3.Connection:
    """Connect to a journal; every statement is its own transaction. A journal that cannot be written is only read.

    Raises sqlite3's errors, and FormatError if it may have records that cannot be read without writing beside it.
    """
    try:
        # absolute, since SQLite gives names such as :memory: a meaning of their own
        connection = sqlite3.connect(os.path.abspath(path), timeout=30.0, isolation_level=None)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if primary_code(error) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise
        if (log := _log(path)) is not None:
            raise FormatError(f"the newest records of {path} may be in {log.name} beside it, which can only be read "
                              "where files can be made; copy both to such a folder") from None
        connection = _read_only(path)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    for pragma in ("synchronous = NORMAL", "foreign_keys = ON", "trusted_schema = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _log(path: Path) -> Path | None:
    """The log of a journal, if it holds anything: records, some of which may not be in the journal's file yet."""
    log = path.with_name(path.name + "-wal")
    with suppress(FileNotFoundError):  # the last process that used the journal has just closed it, or none did
        return log if log.stat().st_size else None
    return None


def _read_only(path: Path) -> sqlite3.Connection:
    """A connection that makes no further files in the folder."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise FormatError if something is not a plain table, since the rows of views and computed columns have no end."""
    schema = {str(name): (kind, str(sql)) for kind, name, sql in connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE type != 'index' LIMIT 100")}
    for name, (kind, sql) in schema.items():
        if kind != "table" or (name in (*TABLES, VERSIONS) and not re.match(r"CREATE TABLE\b", sql, re.IGNORECASE)):
            raise FormatError(f"{path} is not a journal of seqtune: it has the {kind} {name[:40]!r}")
    for table in (*TABLES, VERSIONS):
        if table not in schema and table == VERSIONS:
            continue
        if table not in schema:
            raise FormatError(f"{path} is not a journal of seqtune: it has no table {table}")
        if any(hidden for *_, hidden in connection.execute(f"PRAGMA table_xinfo({table})")):
            raise FormatError(f"{path} is not a journal of seqtune: {table} has a computed column")


def create(path: Path) -> None:
    """Create an empty journal, completely or not at all, even if the process is killed."""
    with replacing(path, only_new=not path.exists()) as scratch, closing(sqlite3.connect(scratch)) as connection:
        connection.executescript(_SCHEMA)
        connection.execute("PRAGMA journal_mode = WAL")


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Migrate an older journal to this version, in one transaction.

    Raises FormatError if the journal is older and cannot be written; else sqlite3's errors.
    """
    version = _version(connection)
    if version == VERSION:
        return
    try:
        _migrate(connection)
    except sqlite3.OperationalError as error:
        if primary_code(error) != sqlite3.SQLITE_READONLY:
            raise
        connection.close()
        raise FormatError(f"the journal {path} has the format of version {version} and cannot be written; copy it to a "
                          "writable place, or make it writable, so that it can be migrated") from None


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in _MIGRATIONS.get(_version(connection), "").split(";"):  # none if another process did it
            connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
