"""Data sets as files: this package's Parquet format, the shipped data sets, and recorded spaces in their place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from seqtune.errors import MisuseError
from seqtune.kernels.device import Device
from seqtune.kernels.problem_sets.parse import problem_set

from ..dataset import Dataset
from ..journal import REPEATED, Journal
from .format import ExportRequest, Format, ImportResult, Report
from .recorded_spaces import is_recorded, read_recorded


def read_dataset(data: str | Path | None) -> Dataset:
    """Read a data set from a file, or all shipped ones (None, or `shipped` if there is no such file).

    A folder or file of recorded spaces is read as a data set, too. Raises FormatError.
    """
    if data is None or (str(data) == "shipped" and not Path(data).exists()):
        return Dataset.shipped()
    return read_recorded(Path(data)) if is_recorded(Path(data)) else Dataset.read(data)


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> ImportResult:
    """Read the files into one data set; if several contain the same trial, the first one counts."""
    parts = [Dataset.read(file) for file in files]
    reports = [{"path": str(file), "rows": len(part), "problems": len(part.known_problems), "skipped": {}}
               for file, part in zip(files, parts, strict=True)]
    return ImportResult(reduce(Dataset.merge, parts), reports)


def _write(request: ExportRequest, out: Path) -> Report:
    """Write a journal's records. The report's `measured_again` counts the finals and verifications among `records`."""
    assert request.journal is not None
    held_out = {problem.key for name in request.hold_out for problem in problem_set(name)}
    with Journal(request.journal) as journal:
        data = Dataset.from_journal(journal, {"journal": request.journal.name}, held_out)
    if not len(data):
        raise MisuseError(f"the journal {request.journal} holds no trials")
    data.write(out)
    problems = data.problems()
    return {"records": len(data), "measured_again": int(data.rows["run"].isin(REPEATED).sum()),
            "problems": len(problems), "held_out": sum(problem.key in data.held_out for problem in problems),
            "devices": sorted(data.devices)}


PARQUET = Format(("*.parquet",), read=_read, write=_write, takes=("journal", "hold_out"))
