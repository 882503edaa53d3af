"""Data sets as files: this package's Parquet format, the shipped data sets, and recorded spaces in their place."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from seqtune.errors import MisuseError, SeqtuneWarning
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
    """Write a journal's records. The report's `measured_again` counts the finals and verifications among `records`.

    A SeqtuneWarning names each held-out set of which the journal has no record.
    """
    assert request.journal is not None
    sets = {name: {problem.key for problem in problem_set(name)} for name in request.hold_out}
    with Journal(request.journal) as journal:
        data = Dataset.from_journal(journal, {"journal": request.journal.name}, set().union(*sets.values()))
    if not len(data):
        raise MisuseError(f"the journal {request.journal} holds no trials")
    data.write(out)
    problems = data.problems()
    for name, keys in sets.items():
        if keys.isdisjoint(problem.key for problem in problems):
            warnings.warn(f"no record of {name}: it holds out nothing", SeqtuneWarning, stacklevel=2)
    return {"records": len(data), "measured_again": int(data.rows["run"].isin(REPEATED).sum()),
            "problems": len(problems), "held_out": sum(problem.key in data.held_out for problem in problems),
            "devices": sorted(data.devices)}


PARQUET = Format(("*.parquet",), read=_read, write=_write, takes=("journal", "hold_out"))
