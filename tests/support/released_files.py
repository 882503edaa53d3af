"""Small files as this version writes them. `python -m tests.support.released_files` adds them to those of releases.

A release runs it once, before its tag; tests of later versions open its files (`tests/data/test_released_files.py`).
The files hold a library, times that a formula gives, a tiny checkpoint that learned from them, and a program in C that
asks an exported predictor of the library's kernel.
"""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path

from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.measured_tasks import measured_tasks
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.version import VERSION
from seqtune.predictor.trees.cost_trees import TreesOptions
from tests.support.libraries.stencil import STENCIL, write
from tests.support.paths import ROOT
from tests.support.synthetic import WIDE

RELEASED = ROOT / "tests" / "data" / "released"  # a folder for each version
LIBRARY, JOURNAL, DATASET, CHECKPOINT = "library.toml", "journal.sqlite", "records.parquet", "checkpoint"
CALLER = "caller.c"  # prints the PROPOSALS best configurations for ASKED on WIDE
NEW_CALLER = Path(__file__).with_name("released_caller.c")
SIZES = (32, 64, 192)
ASKED = "stencil n=256 border=wrap"
PROPOSALS = 5
LARGEST = 120_000  # bytes of all files of a version, half of them pages of the journal
FEATURE = 'border = {meaning = "beyond the grid", choices = ["zero", "wrap"], default = "zero"}'
TEXT = STENCIL.replace("features = {", f"features = {{{FEATURE}, ")  # so that C has constants of a feature's choices


def records() -> list[Record]:
    """A record of every configuration of the stencil library's kernel, for every size; one failed."""
    made = []
    for size in SIZES:
        space = SearchSpace(kernel("stencil.tiled"), Problem.make("stencil", n=size), WIDE)
        for row, configuration in enumerate(space):
            settings = dict(configuration.settings)
            seconds = 1e-7 * size * (1 + sum(abs(math.log2(int(value) / 16)) for value in settings.values()) / 4)
            measurement = Measurement(Status.CORRECT, (seconds,), 1e-7) if row else Measurement(Status.CRASH)
            made.append(Record(space.problem, WIDE.key, space.kernel.version, configuration, WIDE.toolchain,
                               measurement, when=1e9, run="random"))
    return made


def write_files(folder: Path) -> None:
    """Write a library, a journal, a data set, a checkpoint and a caller of exported C files into a new folder."""
    from seqtune.predictor.learning.tasks.training import train_model
    from seqtune.predictor.training.options import TrainingOptions

    folder.mkdir(parents=True)
    use(read_library(write(folder, TEXT)))
    with Journal(folder / JOURNAL) as journal:
        journal.add_device(WIDE)
        journal.add_all(records())
        data = Dataset.from_journal(journal, {"source": "a formula"})
    data.write(folder / DATASET)
    options = TrainingOptions(
        epochs=3, batch=4, sentences=2, extra=0, examples=20, width=4, layers=1, heads=1, hidden=4, judge=4, listed=8,
        validation=0.4, threads=1, trees=TreesOptions(rounds=5, models=1))
    checkpoint, _ = train_model(measured_tasks(data, held_out=False), [], options)
    checkpoint.save(folder / CHECKPOINT)
    shutil.copyfile(NEW_CALLER, folder / CALLER)


def main() -> int:
    """Write the files of this version; refuse to change those of a released one."""
    folder = RELEASED / VERSION
    if folder.exists():
        print(f"{folder.relative_to(ROOT)} exists; the files of a release do not change", file=sys.stderr)
        return 2
    write_files(folder)
    print(f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file())} bytes in "
          f"{folder.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
