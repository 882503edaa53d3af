"""Parquet files from outside: a file whose rows would fill the memory is refused before they are read.

Parquet stores a column of equal values in a few bytes, and a long text of many rows once. The size of a file therefore
says little about the size of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from seqtune.errors import FormatError, one_line
from seqtune.kernels.files import reason

LARGEST_FILE = 1 << 30  # bytes
MOST_COLUMNS = 200
LARGEST_COLUMNS = 400 << 20  # bytes of all columns before they are decoded; 20 bytes a row are usual
LONGEST_TEXT = 4_000  # bytes of a text in a row
MAGIC = b"PAR1"  # the first bytes of every Parquet file
ROWS_OF_SMALL_FILE = 10_000  # rows that a file of any size may have


def open_parquet(path: Path, most_rows: int) -> pq.ParquetFile:
    """Open a file after a check of its size and metadata; texts are read as dictionaries.

    Raises FormatError if it is larger, or has more rows or columns, than such a file can honestly have, or is a pipe or
    a device, or does not begin as a Parquet file; OSError and pyarrow's errors if it cannot be read.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise FormatError(f"{path} is not a regular file")
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise FormatError(f"{path} is larger than {LARGEST_FILE >> 20} MiB")
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise FormatError(f"{path} is not a data set: it is no Parquet file")
    metadata = pq.read_metadata(path)
    if metadata.num_columns > MOST_COLUMNS:
        raise FormatError(f"{path} has {metadata.num_columns} columns; at most {MOST_COLUMNS} are read")
    if metadata.num_rows > most_rows:
        raise FormatError(f"{path} has {metadata.num_rows} rows; at most {most_rows} are read")
    if metadata.num_rows > ROWS_OF_SMALL_FILE + size:  # a time alone takes more than a byte
        raise FormatError(f"{path} claims {metadata.num_rows} rows in {size} bytes, which no measurements fit into")
    columns = map(metadata.schema.column, range(metadata.num_columns))
    return pq.ParquetFile(path, read_dictionary=[column.path for column in columns
                                                 if column.physical_type == "BYTE_ARRAY"])


def unpacked_size(file: pq.ParquetFile) -> int:
    """The bytes of all columns of an open file before they are decoded.

    A damaged description of a single column ends the process in pyarrow 26, so the columns that are read are not asked.
    """
    return sum(file.metadata.row_group(group).total_byte_size for group in range(file.metadata.num_row_groups))


def read_columns(path: Path, file: pq.ParquetFile, names: Sequence[str], largest: int = LARGEST_COLUMNS) -> pa.Table:
    """The table of some columns of an open file, texts as dictionaries. Raises FormatError and pyarrow's errors."""
    if unpacked_size(file) > largest:
        raise FormatError(f"{path} unpacks to more than {largest >> 20} MiB")
    table = file.read(columns=list(names))
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_nested(column.type):
            raise FormatError(f"{path}: the column {name!r:.40} holds lists or structures")
        for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
            _check_texts(path, name, chunk)
    return table


def read_all(path: Path, most_rows: int) -> tuple[list[str], list[list[Any]]]:
    """The names of all columns of a file of at most `most_rows` rows, and their values. Raises FormatError."""
    try:
        file = open_parquet(path, most_rows)
        table = read_columns(path, file, file.schema_arrow.names)
        return table.column_names, list(map(values_of, table.columns))
    except OSError as error:
        raise FormatError(f"cannot read {path}: {reason(error)}") from None
    except pa.ArrowException as error:
        raise FormatError(f"{path} is no Parquet file: {one_line(error, 200)}") from None


def _check_texts(path: Path, name: str, column: pa.DictionaryArray) -> None:
    longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    if longest > LONGEST_TEXT:
        raise FormatError(f"{path}: the column {name!r:.40} has a text of {longest} bytes; at most "
                          f"{LONGEST_TEXT} are read")


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as `to_pylist` gives them, with one object for equal texts."""
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values: list[Any] = []
    for chunk in column.chunks:
        words = chunk.dictionary.to_pylist()
        values += [None if index is None else words[index] for index in chunk.indices.to_pylist()]
    return values
