"""CSV files from outside: bounded, in UTF-8, with the names of the columns in the first line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from seqtune.errors import FormatError, one_line
from seqtune.kernels.files import read_bounded


def read_csv(path: Path, largest: int) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of the columns of a file of at most `largest` bytes, and its rows, each with the number of its line.

    Empty lines are left out; a row may have more or fewer values than there are names. Raises FormatError.
    """
    try:
        lines = csv.reader(io.StringIO(read_bounded(path, largest).decode("utf-8-sig")), strict=True)
        names = next(lines, [])
        return names, [(lines.line_num, values) for values in lines if values]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{path} is not a CSV file: {one_line(error, 100)}") from None
