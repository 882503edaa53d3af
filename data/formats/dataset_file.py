"""Data sets as files: our own Parquet format, what is shipped, and what can be read in place of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from seqtune.errors import MisuseError
from seqtune.kernels.device import Device
from seqtune.kernels.problem_sets.parse import problem_set

from ..dataset import Dataset
from ..journal import REPEATED, Journal
from .format import ExportRequest, Format, Reading, Report
from .recorded_spaces import is_recorded, read_recorded


def read_dataset(data: str | Path | None) -> Dataset:
    """A data set from a file, or all that is shipped (None, or `shipped` where no file has that name).

    A folder or file of recorded spaces is read as one, too. Raises FormatError.
    """
    if data is None or (str(data) == "shipped" and not Path(data).exists()):
        return Dataset.shipped()
    return read_recorded(Path(data)) if is_recorded(Path(data)) else Dataset.read(data)


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> Reading:
    """The files as one data set; of a trial that several hold, the first counts."""
    parts = [Dataset.read(file) for file in files]
    reports = [{"path": str(file), "rows": len(part), "problems": len(part.known_problems), "skipped": {}}
               for file, part in zip(files, parts, strict=True)]
    return Reading(reduce(Dataset.merge, parts), reports)


def _write(request: ExportRequest, out: Path) -> Report:
    """Write a journal's records. Of `records`, `measured_again` repeat a trial on purpose: finals and verifications."""
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
