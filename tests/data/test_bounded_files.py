"""Small files whose content would fill the memory are refused before it does."""

from __future__ import annotations

import bz2
import gzip
import json
import tracemalloc
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqtune.data.dataset import SCHEMA, Dataset
from seqtune.data.formats.recorded_spaces import read_recorded
from seqtune.data.json_content import parse_json, read_object
from seqtune.data.parquet_file import open_parquet, read_columns
from seqtune.data.unpacking import lines, unpacked, unpacked_pieces
from seqtune.errors import FormatError
from tests.support.recorded_files import SPACE

MEGABYTE = 1_000_000


def most_memory(path: Path, reader: object, says: str) -> int:
    """The most bytes that Python's objects took while a reader refused a file."""
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=says) as caught:
            reader(path)  # type: ignore[operator]
        assert "\n" not in str(caught.value)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_line_is_cut_and_the_next_ones_are_read() -> None:
    pieces = [b"first\nlo", b"n" * 50, b"g" * 50, b"er\nthird\n", b"fourth"]
    assert list(lines(pieces, 8)) == [b"first", b"lonnnnnnn", b"third", b"fourth"]


@pytest.mark.parametrize("member", [b"[],", b"{},", b'"\xc3\xa4",', b'{"a":1},'])
def test_json_of_many_small_values_is_refused_before_it_is_parsed(member: bytes, tmp_path: Path) -> None:
    count = 6 * MEGABYTE // len(member)
    path = tmp_path / "cache.json.gz"
    path.write_bytes(gzip.compress(b'{"cache": [' + member * count + b"1]}", 1))
    assert most_memory(path, partial(read_object, largest=70 * MEGABYTE), "may need more than 70 MB") < 20 * MEGABYTE


@pytest.mark.parametrize(
    "member", ["[]", "{}", '"ab"', "1.5", '{"a": 1, "b": [2, 3]}', '{"%d": 1}', '"%d"', "[[[[]]]]"])
def test_the_estimate_of_a_value_is_not_below_what_it_takes(member: str) -> None:
    text = f"[{','.join(member % (1000 + number) if '%' in member else member for number in range(20_000))}]".encode()
    tracemalloc.start()
    value = json.loads(text)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert value
    with pytest.raises(FormatError, match="may need more"):
        parse_json(text, "a text", taken)


def test_json_may_begin_with_a_byte_order_mark() -> None:
    assert parse_json(b'\xef\xbb\xbf{"tile": 8}', "a text") == {"tile": 8}


def test_every_way_of_packing_is_read_in_pieces(tmp_path: Path) -> None:
    content = bytes(range(256)) * 9_000
    for name, packed in (("a", content), ("a.gz", gzip.compress(content)),
                         ("a.bz2", bz2.compress(content[:1000]) + bz2.compress(content[1000:]))):
        (tmp_path / name).write_bytes(packed)
        assert unpacked(tmp_path / name, MEGABYTE * 3, MEGABYTE * 3) == content
        assert max(map(len, unpacked_pieces(tmp_path / name, MEGABYTE * 3, MEGABYTE * 3))) <= 1 << 20
        with pytest.raises(FormatError, match="more than 2 MB"):
            unpacked(tmp_path / name, MEGABYTE * 3, MEGABYTE * 2)


def repeated(word: str, count: int) -> pa.DictionaryArray:
    """A column that has the same word in every row."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([word]))


@pytest.mark.parametrize(("word", "rows", "says"), [
    ("x" * 20_000, 9_000, "a text of 20000 bytes"), ("x", 3 * MEGABYTE, "claims 3000000 rows")])
def test_a_parquet_file_that_says_much_in_few_bytes_is_refused(word: str, rows: int, says: str,
                                                             tmp_path: Path) -> None:
    words = repeated(word, rows)
    ones = pa.array([1.0]).take(pa.array([0] * rows, pa.int32()))
    recorded = pa.table({"device": words, "status": repeated("ok", rows), "time_ms": ones,
                         **dict.fromkeys(SPACE["tune_params"], words)})
    pq.write_table(recorded.replace_schema_metadata({"space": json.dumps(SPACE)}), tmp_path / "toy.parquet",
                   compression="zstd")
    assert most_memory(tmp_path / "toy.parquet", read_recorded, says) < 20 * MEGABYTE
    facts = {"version": 1, "devices": {}, "problems": {}, "held_out": [], "provenance": {}}
    data = pa.table({field.name: words if pa.types.is_dictionary(field.type) else ones.cast(field.type)
                     for field in SCHEMA})
    pq.write_table(data.replace_schema_metadata({"seqtune": json.dumps(facts)}), tmp_path / "data.parquet",
                   compression="zstd")
    assert most_memory(tmp_path / "data.parquet", Dataset.read, says) < 20 * MEGABYTE


def test_parquet_columns_that_unpack_to_too_much_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.parquet"
    pq.write_table(pa.table({"device": repeated("x" * 3_000, 9_000)}), path, compression="zstd", use_dictionary=False)

    def read(path: Path) -> pa.Table:
        return read_columns(path, open_parquet(path, 9_000), ["device"], 20 << 20)

    assert most_memory(path, read, "unpacks to more than") < 20 * MEGABYTE


@pytest.mark.parametrize("content", [b"", b"device,seconds\n", b"PAR"])
def test_a_file_of_another_format_is_no_data_set(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"some\.parquet is not a data set: it is no Parquet file$"):
        Dataset.read(path)
