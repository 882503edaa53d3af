"""Data sets as files: this package's Parquet format, the shipped data sets, and recorded spaces."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from seqtune.errors import FormatError, MisuseError, warned
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import new_folder
from seqtune.kernels.miopen.solver import BACKEND
from seqtune.kernels.say import Say

from ..dataset import MOST_ROWS, Dataset
from ..hold_out import held_out_keys, note_empty
from ..journal.journal import REPEATED, Journal
from ..shards.files import LIMITS, ShardFiles, ShardLimits
from ..shards.sampled_dataset import Sampling, read_sampled
from .format import ExportRequest, Format, ImportResult, Report
from .recorded_spaces import is_recorded, read_recorded

BATCHES_OF_SHARD = 8_000  # batches of a journal in one file: about a million records


def read_dataset(data: str | Path | None, limits: ShardLimits = LIMITS) -> Dataset:
    """Read a data set from a file, or all shipped ones (None, or `shipped` if there is no such file).

    A folder of such files, or of recorded spaces, is read as a data set, too. Raises FormatError.
    """
    if data is None or is_shipped(data):
        return Dataset.shipped()
    path = Path(data)
    if is_recorded(path):
        return read_recorded(path)
    return _whole(ShardFiles.of(path, limits)) if path.is_dir() else Dataset.read(path)


def is_shipped(data: object) -> bool:
    """Whether `read_dataset` reads the shipped data sets."""
    return data is None or (str(data) == "shipped" and not Path(str(data)).exists())


def read_training_data(data: str | Path | None, seed: int, say: Say,
                       limits: ShardLimits = LIMITS) -> tuple[Dataset, Sampling | None]:
    """Read a data set as `read_dataset` does or, if it is too long to be held in memory, a sample of it.

    The second value describes the sample. `say` receives progress. Raises FormatError.
    """
    if data is not None and Path(data).exists() and not is_recorded(Path(data)):
        files = ShardFiles.of(Path(data), limits)
        labels = all(device.backend == BACKEND for device in files.facts.devices.values())  # another tuner's
        if not labels and (files.rows > limits.learned or not files.fits_memory):
            dataset, sampling = read_sampled(files, seed, say)
            say(sampling.text)
            return dataset, sampling
    return read_dataset(data, limits), None


def _whole(files: ShardFiles) -> Dataset:
    """All rows of the files of a folder as one data set."""
    if not files.fits_memory:
        raise FormatError(f"{files.source} has {files.rows:,} records, which are too many for the memory; "
                          "only `seqtune train` reads such a data set")
    first, *others = map(Dataset.read, files.paths)
    return first.merge(*others)


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> ImportResult:
    """Read the files into one data set; if several contain the same trial, the first one counts."""
    parts = [Dataset.read(file) for file in files]
    reports = [{"path": str(file), "rows": len(part), "problems": len(part.known_problems), "skipped": {}}
               for file, part in zip(files, parts, strict=True)]
    return ImportResult(parts[0].merge(*parts[1:]), reports)


def export_journal(request: ExportRequest, out: Path, most_rows: int = MOST_ROWS,
                   batches: int = BATCHES_OF_SHARD) -> Report:
    """Write a journal's records. The report's `measured_again` counts the finals and verifications among `records`.

    More than `most_rows` records, which no reader takes in one file, become a folder of files with `batches` batches
    each. A SeqtuneWarning is issued for each name in `hold_out` that holds out no problem of the journal.
    """
    assert request.journal is not None
    report: Report = {"records": 0, "measured_again": 0}
    problems, devices = set[str](), set[str]()
    with Journal(request.journal) as journal, ExitStack() as stack:
        if not journal.count():
            raise MisuseError(f"the journal {request.journal} holds no trials")
        named = held_out_keys(journal.problems(), request.hold_out)
        held_out = frozenset[str]().union(*named.values())
        several = journal.count() > most_rows
        folder = stack.enter_context(new_folder(out)) if several else None
        parts = Dataset.parts_of_journal(journal, batches if several else None,
                                         {"journal": request.journal.name}, held_out)
        for number, part in enumerate(parts):
            if not len(part) and not number:
                raise MisuseError(f"the journal {request.journal} holds no trials")
            part.write(out if folder is None else folder / f"part-{number:05}.parquet")
            report["records"] += len(part)
            report["measured_again"] += int(part.rows["run"].isin(REPEATED).sum())
            problems |= set(part.rows["problem"].unique())
            devices |= set(part.devices)
            if several:
                report["files"] = number + 1
    note_empty(named, problems, warned)
    return {**report, "problems": len(problems), "held_out": len(problems & held_out), "devices": sorted(devices)}


PARQUET = Format(("*.parquet",), read=_read, write=export_journal, takes=("journal", "hold_out"))
