"""Files of every released version are read as they were written, and its program in C compiles with today's files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.task import Task
from seqtune.predictor.c_source.file import c_file
from seqtune.predictor.checkpoint import Checkpoint
from tests.support import released_files
from tests.support.installation.optional import TRAINING, needs
from tests.support.learning.c_programs import library_checkpoint, needs_compiler, run_program
from tests.support.libraries.stencil import write
from tests.support.released_files import (
    ASKED,
    CALLER,
    CHECKPOINT,
    DATASET,
    JOURNAL,
    LARGEST,
    LIBRARY,
    NEW_CALLER,
    PROPOSALS,
    RELEASED,
    TEXT,
)
from tests.support.synthetic import WIDE

VERSIONS = sorted(path.name for path in RELEASED.iterdir())
CALLERS = [version for version in VERSIONS if (RELEASED / version / CALLER).exists()]  # 0.1.0 has none


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture(params=VERSIONS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a version's files, whose library is in use."""
    copy = Path(shutil.copytree(RELEASED / request.param, tmp_path / request.param))
    use(read_library(copy / LIBRARY))
    return copy


def test_a_journal_and_a_data_set_hold_the_same_records(folder: Path) -> None:
    with Journal(folder / JOURNAL) as journal:
        kept = Dataset.from_journal(journal)
    data = Dataset.read(folder / DATASET)
    columns = ["problem", "kernel", "kernel_version", "configuration", "status", "seconds"]
    first, second = (rows.sort_values(["problem", "configuration"])[columns] for rows in (kept.rows, data.rows))
    assert first.to_dict("list") == second.to_dict("list")
    assert kept.devices == data.devices
    assert set(kept.rows["kernel_version"]) == {kernel("stencil.tiled").version}  # else all records would be old ones


def test_a_checkpoint_proposes_configurations_of_the_library(folder: Path) -> None:
    model = Checkpoint.load(folder / CHECKPOINT)
    task = Task.of(Problem.make("stencil", n=256), WIDE, [kernel("stencil.tiled")])
    proposed = [candidate.configuration for candidate in model.on(WIDE).propose([task], 5)[0]]
    assert len(set(proposed)) == 5
    assert set(proposed) <= set(task)


@needs_compiler
@pytest.mark.parametrize("version", [*CALLERS, "new"])
def test_a_caller_of_a_c_file_compiles_and_prints_the_proposals_of_python(version: str, tmp_path: Path) -> None:
    released = RELEASED / version
    library = read_library(write(tmp_path, TEXT if version == "new" else (released / LIBRARY).read_text()))
    use(library)
    checkpoint = library_checkpoint(library, WIDE)  # the small ones of releases have layers that C cannot hold
    written = c_file(checkpoint)
    (tmp_path / "predictor.h").write_text(written.header)
    (tmp_path / "predictor.c").write_text(written.source)
    source = Path(shutil.copy(NEW_CALLER if version == "new" else released / CALLER, tmp_path / CALLER))
    printed = run_program(source, "-O0", str(tmp_path / "predictor.c"))
    proposed = [candidate.configuration
                for candidate in checkpoint.propose([Task.of(parse_problem(ASKED), WIDE)], PROPOSALS)[0]]
    assert printed.splitlines() == [f"{configuration.kernel} {configuration.brief()}" for configuration in proposed]


@needs(*TRAINING)
def test_this_version_writes_files_that_the_next_one_can_be_tested_with(tmp_path: Path) -> None:
    released_files.write_files(tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {LIBRARY, JOURNAL, DATASET, CHECKPOINT, CALLER}
    assert bytes_of(tmp_path / "new") < LARGEST


def test_the_files_of_a_release_are_never_written_again(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "9.9").mkdir()
    monkeypatch.setattr(released_files, "RELEASED", tmp_path)
    monkeypatch.setattr(released_files, "ROOT", tmp_path)
    monkeypatch.setattr(released_files, "VERSION", "9.9")
    assert released_files.main() == 2
    assert capsys.readouterr().err == "9.9 exists; the files of a release do not change\n"
