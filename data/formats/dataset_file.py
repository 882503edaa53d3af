"""Data sets as files: this package's Parquet format, the shipped data sets, and recorded spaces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seqtune.errors import FormatError, MisuseError, warned
from seqtune.kernels.devices.device import Device

from ..dataset import MOST_ROWS, Dataset
from ..dataset_facts import dataset_errors
from ..journal.journal import REPEATED, Journal
from ..parquet_file import LARGEST_COLUMNS, open_parquet, unpacked_size
from .format import Format, ImportResult, Report
from .recorded_spaces import is_recorded, read_recorded


def read_dataset(data: str | Path | None) -> Dataset:
    """Read a data set from a file, or all shipped ones (None, or `shipped` if there is no such file).

    A folder of such files, or of recorded spaces, is read as a data set, too. Raises FormatError.
    """
    if data is None or is_shipped(data):
        return Dataset.shipped()
    path = Path(data)
    if is_recorded(path):
        return read_recorded(path)
    return read_folder(path) if path.is_dir() else Dataset.read(path)


def is_shipped(data: object) -> bool:
    """Whether `read_dataset` reads the shipped data sets."""
    return data is None or (str(data) == "shipped" and not Path(str(data)).exists())


def read_folder(folder: Path, most_rows: int = MOST_ROWS, largest: int = LARGEST_COLUMNS) -> Dataset:
    """Read the data sets (*.parquet) of a folder as one, in the order of their names.

    All of it is held in memory: raises FormatError, before a row is read, if there are more than `most_rows` records or
    `largest` bytes of columns.
    """
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise FormatError(f"the folder {folder} has no data set (*.parquet)")
    rows = size = 0
    for path in paths:
        with dataset_errors(path):
            file = open_parquet(path, most_rows)
            rows += file.metadata.num_rows
            size += unpacked_size(file)
    if rows > most_rows or size > largest:
        raise FormatError(f"{folder} has {rows:,} records of {size >> 20:,} MiB, which are held in memory: at most "
                          f"{most_rows:,} records of {largest >> 20:,} MiB are read")
    first, *others = map(Dataset.read, paths)
    return first.merge(*others)


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> ImportResult:
    """Read the files into one data set; if several contain the same trial, the first one counts."""
    parts = [Dataset.read(file) for file in files]
    reports = [{"path": str(file), "rows": len(part), "problems": len(part.known_problems), "skipped": {}}
               for file, part in zip(files, parts, strict=True)]
    return ImportResult(parts[0].merge(*parts[1:]), reports)


def export_journal(out: Path, *, journal: Path, hold_out: Sequence[str], most_rows: int = MOST_ROWS) -> Report:
    """Write a journal's records. The report's `measured_again` counts the finals and verifications among `records`.

    A SeqtuneWarning is issued for each name in `hold_out` that holds out no problem of the journal. Raises MisuseError
    if there are no records, or more than a reader takes, such as more than `most_rows`.
    """
    with Journal(journal) as opened:
        count = opened.count()
        if count > most_rows:
            raise MisuseError(f"the journal {journal} holds {count:,} records; a data set has at most "
                              f"{most_rows:,}, because all of them are held in memory")
        data = Dataset.from_journal(opened, {"journal": journal.name})
    if not len(data):
        raise MisuseError(f"the journal {journal} holds no trials")
    data = data.holding_out(hold_out, warned)
    data.write(out)
    problems = set(data.rows["problem"].unique())
    return {"records": len(data), "measured_again": int(data.rows["run"].isin(REPEATED).sum()),
            "problems": len(problems), "held_out": len(problems & data.held_out), "devices": sorted(data.devices)}


PARQUET = Format(("*.parquet",), read=_read, write=export_journal)
