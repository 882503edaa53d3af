"""Other tuners' recordings in, and T4 out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqtune.kernels.files import write_whole

from .errors import MisuseError
from .inputs import as_problem, check_free, check_journal

SOURCES = ("kernel-tuner", "t4", "recorded")
_PATTERNS = {"kernel-tuner": ("*.json", "*.json.gz"), "t4": ("*.json", "*.json.gz"), "recorded": ("*.parquet",)}


def import_recorded(source: str, paths: Sequence[str | Path], out: str | Path, *, device: str | None = None,
                    force: bool = False) -> dict[str, Any]:
    """Read Kernel Tuner's caches, T4 results or recorded spaces (files, or folders of them) into one data set.

    `device` names the device of all files, where they do not. Returns a report.
    """
    from seqtune.data.formats.foreign_records import to_dataset
    from seqtune.data.formats.kernel_tuner import read_cache
    from seqtune.data.formats.recorded_spaces import recordings
    from seqtune.data.formats.t4 import read_t4

    if source not in SOURCES:
        raise MisuseError(f"{source!r:.40} is no source of data; there are miopen, {', '.join(SOURCES)}")
    check_free(Path(out), force)
    files = [file for path in paths for file in _files(Path(path), _PATTERNS[source])]
    if not files:
        raise MisuseError(f"no file of {source} in {paths[0]}" if paths else f"name a file of {source}")
    if source == "recorded":
        if device is not None:
            raise MisuseError("recorded spaces name their devices; leave out --device")
        read = [one for file in files for one in recordings(file)]
    else:
        read = [(read_cache if source == "kernel-tuner" else read_t4)(file, device) for file in files]
    found = to_dataset(read, source)
    if not len(found):
        raise MisuseError(f"there is no trial in {', '.join(map(str, paths))[:200]}")
    found.write(out)
    return {"out": str(out), "records": len(found), "problems": len(found.known_problems),
            "files": [one.report() for one in read]}


def _files(path: Path, patterns: Sequence[str]) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted({file for pattern in patterns for file in path.glob(pattern)})


def export_t4(out: str | Path, *, journal: str | Path | None = None, data: str | Path | None = None,
              problem: object = None, device: str | None = None, force: bool = False) -> dict[str, Any]:
    """Write the trials of one problem on one device as a T4 file: of a journal, or of a data set.

    Neither needs to be named where there is only one.
    """
    import pandas as pd

    from seqtune.data.dataset import Dataset
    from seqtune.data.formats.t4 import results
    from seqtune.data.journal import REPEATED, Journal, default_path

    from .learning import read_dataset

    check_free(Path(out), force)
    wanted = None if problem is None else as_problem(problem)
    if data is not None:
        known = read_dataset(data)
        place = known.device(device)
        records = list(known.on(place.key).records())
    else:
        source = default_path() if journal is None else Path(journal)
        check_journal(source)
        with Journal(source) as kept:
            if not kept.devices():
                raise MisuseError(f"the journal {source} holds no trials")
            place = Dataset(pd.DataFrame(), kept.devices(), {}).device(device)
            records = list(kept.records(device=place.key))
    problems = list(dict.fromkeys(record.problem for record in records))
    if wanted is None and len(problems) != 1:
        raise MisuseError(f"{len(problems)} problems on {place.name}; choose one with --problem")
    chosen = problems[0] if wanted is None else wanted
    found = [record for record in records if record.problem == chosen and record.run not in REPEATED]
    if not found:
        raise MisuseError(f"there is no trial of {chosen.brief()} on {place.name}")
    written = results(found, chosen, place)
    write_whole(out, json.dumps(written, indent=1, allow_nan=False) + "\n")
    return {"out": str(out), "device": place.name, "problem": chosen.key, "results": len(written["results"])}
