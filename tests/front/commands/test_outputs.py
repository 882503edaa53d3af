"""Outputs that cannot be written: one clear line, exit code 2 where the name or the place is wrong, nothing lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.kernels.files import cannot_write, check_writable
from tests.support.command_line import Refused
from tests.support.installation.optional import TRAINING, needs
from tests.support.records import RECORDS, write_journal

LONG = "a" * 300


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return write_journal(tmp_path / "journal.sqlite", RECORDS[:1])


def commands(journal: Path, problems: Path) -> dict[str, tuple[list[str], str]]:
    """Commands without their output, each with the ending of its output."""
    return {
        "parquet": (["export", "--journal", str(journal)], ".parquet"),
        "t4": (["export", "--journal", str(journal), "--format", "t4"], ".json"),
        "c": (["export-c"], ".c"),
        "clblast-cpp": (["export", "--journal", str(journal), "--format", "clblast-cpp"], ".hpp"),
        "clblast": (["export", "--journal", str(journal), "--format", "clblast"], ""),
        "report": (["report", str(journal)], ".html"), "train": (["train", "shipped"], ""),
        "predict": (["predict", "--problems", str(problems)], ".csv"),
        "import": (["import", "t4", str(problems)], ".parquet")}


@pytest.mark.parametrize("name", ["parquet", "t4", "c", "clblast-cpp", "clblast", "report", "predict", "import",
                                  pytest.param("train", marks=needs(*TRAINING))])
def test_a_name_of_300_characters_a_missing_folder_and_a_file_as_a_folder_are_one_line(
        name: str, journal: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "p.txt").write_text("gemm m=8 n=8 k=8\n")
    words, ending = commands(journal, tmp_path / "p.txt")[name]
    before = sorted(os.listdir(tmp_path))
    line = refused(*words, "--out", tmp_path / f"{LONG}{ending}")
    assert line == f"seqtune: the file name {'a' * 60}... is too long; choose a shorter one"
    assert "does not exist" in refused(*words, "--out", tmp_path / "none" / f"a{ending}")
    assert "p.txt" in refused(*words, "--out", tmp_path / "p.txt" / f"a{ending}")
    if ending:
        (tmp_path / f"folder{ending}").mkdir()
        assert "is a folder; name a file" in refused(*words, "--out", tmp_path / f"folder{ending}")
        (tmp_path / f"folder{ending}").rmdir()
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("name", "ending", "says"), [
    ("parquet", ".csv", "is named as CSV, but a data set of seqtune would be written into it; choose a name that ends "
                        "with .parquet"),
    ("t4", ".parquet", "is named as Parquet, but T4 results"),
    ("report", ".json", "is named as JSON, but a page in HTML"),
    ("import", ".csv", "is named as CSV"), ("predict", ".parquet", "is named as Parquet, but a line of JSON a problem"),
    ("clblast-cpp", ".csv", "is named as CSV, but rows of CLBlast's C++ database")])
def test_a_name_that_contradicts_the_format_is_refused(
        name: str, ending: str, says: str, journal: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "p.txt").write_text("gemm m=8 n=8 k=8\n")
    words, _ = commands(journal, tmp_path / "p.txt")[name]
    assert says in refused(*words, "--out", tmp_path / f"a{ending}")
    assert not (tmp_path / f"a{ending}").exists()


@pytest.mark.parametrize(("number", "code"), [
    (errno.EACCES, 2), (errno.EROFS, 2), (errno.EISDIR, 2), (errno.ENOSPC, 1), (errno.EIO, 1)])
def test_a_wrong_place_is_a_misuse_and_a_full_disk_a_failure(number: int, code: int) -> None:
    error = cannot_write("out.csv", OSError(number, os.strerror(number)))
    assert error.exit_code == code
    assert str(error) == f"cannot write out.csv: {os.strerror(number)}"


def test_a_folder_without_permission_is_a_misuse_before_the_work(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *arguments: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(Exception, match=r"^cannot write into .*: Permission denied$") as refusal:
        check_writable(tmp_path)
    assert getattr(refusal.value, "exit_code", None) == 2


def test_a_full_disk_leaves_the_old_file_and_nothing_half_written(
        journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "old.parquet"
    out.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    assert main(["export", "--journal", str(journal), "--out", str(out), "--force"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"seqtune: cannot write {out}: No space left on device"
    assert out.read_text() == "old"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@needs(*TRAINING)
@pytest.mark.parametrize("out", [".", "./", ".."])
def test_a_checkpoint_cannot_replace_the_folder_of_the_user(
        out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert "cannot be a checkpoint" in refused("train", "shipped", "--out", out, "--force")
    assert os.listdir(tmp_path / "work") == []
