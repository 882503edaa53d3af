"""Files that are none of MIOpen's, damaged or hostile."""

from __future__ import annotations

import bz2
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from seqtune.__main__ import main
from seqtune.errors import FormatError
from seqtune.integrations.miopen.formats.files import FileLimits, read
from seqtune.integrations.miopen.formats.importing import read_files
from tests.data.test_bounded_files import MEGABYTE, most_memory
from tests.support.miopen_files import LABELS, perf_db

KEY = b"256-14-14-1x1-512-14-14-32-0x0-1x1-1x1-0-NCHW-FP32-F"
HOSTILE = {
    "a view": ["DROP TABLE perf_db", "CREATE VIEW perf_db AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 "
               "FROM n) SELECT 'a' AS solver, i AS config, 'b' AS params FROM n"],
    "no table": ["DROP TABLE config"],
    "other columns": ["ALTER TABLE config DROP COLUMN bias"] if sqlite3.sqlite_version_info >= (3, 35) else [],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_data_base_that_is_no_perf_db_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    more = ["DROP INDEX idx_config", *HOSTILE[name]] if name == "other columns" else HOSTILE[name]
    path = perf_db(tmp_path / "gfx906_60.db", LABELS, more)
    with pytest.raises(FormatError, match=r"perf_db|config"):
        read_files([path])


@pytest.mark.parametrize("content", [
    b"", b"nothing of MIOpen's", b"\0\1\2", b"SQLite format 3\0" + b"\xff" * 4000, b"BZh9 not at all",
    bz2.compress(b"k=v:" * 1000)[:-9], b"key=value\n" * 3])
def test_a_file_that_is_none_of_miopens_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "gfx906_60.db"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_files([path])
    assert "\n" not in str(caught.value)


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gfx906_60.db.bz2"
    path.write_bytes(bz2.compress(bytes(2_000_000)))
    with pytest.raises(FormatError, match="unpacks to more"):
        read(path, FileLimits(text=1_000_000))


def test_what_is_no_file_of_miopens_is_called_what_it_is(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "labels.parquet").touch()
    for name, says in (("gfx906_60.db", "no such file"), ("nowhere", "no such file"), ("labels.parquet", "data set")):
        for asked in (["import", "miopen", str(tmp_path / name), "--out", str(tmp_path / "out.parquet")],
                      ["evaluate", "miopen", "--data", str(tmp_path / name)]):
            assert main(asked) == 2
            assert says in capsys.readouterr().err
    for form in ("t4", "miopen-udb"):
        assert main(["export", "--format", "miopen-foo", "--data", "x", "--out", str(tmp_path / "out")]) == 2
        assert form in capsys.readouterr().err


@pytest.mark.parametrize(("content", "says"), [
    (KEY + b"=ConvX:0.1,0,Algo\n" + b"a\n" * 4 * MEGABYTE, "more than 1000 lines"),
    (KEY + b"=" + b"X:0.1,0,A;" * 5_000 + b"\n", "problems or 1000 items")])
def test_a_find_db_of_too_many_lines_or_items_is_left_at_the_bound(content: bytes, says: str,
                                                                  tmp_path: Path) -> None:
    path = tmp_path / "gfx906_60.HIP.fdb.txt.bz2"
    path.write_bytes(bz2.compress(content))
    reader = partial(read, limits=FileLimits(lines=1000, items=1000))
    assert most_memory(path, reader, says) < 20 * MEGABYTE
