"""Folders of built kernels: whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.errors import MisuseError, SeqtuneError
from seqtune.tuner.building.chosen import write_folder


def test_a_folder_is_written_with_its_folders(tmp_path: Path) -> None:
    write_folder({"README.md": b"text", "one/kernel.c": b"int x;"}, tmp_path / "new" / "out")
    assert (tmp_path / "new" / "out" / "one" / "kernel.c").read_bytes() == b"int x;"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out"]


def test_an_empty_folder_is_taken_and_one_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_folder({"a": b"1"}, tmp_path / "empty")
    with pytest.raises(MisuseError, match="is not an empty folder"):
        write_folder({"b": b"2"}, tmp_path / "empty")
    assert [path.name for path in (tmp_path / "empty").iterdir()] == ["a"]


def test_nothing_is_left_where_a_file_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SeqtuneError, match="cannot write"):
        write_folder({"a": b"1", "a/b": b"2"}, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("place", "reason"), [
    ("", "the current folder cannot be written"), (".", "name a new folder in it"), ("..", "name a new folder in it"),
    ("file/out", "file is not a folder"), ("file/deep/out", "file is not a folder"),
    ("/dev/full/out", "/dev/full is not a folder"), ("/proc/out", "cannot write /proc/out: "),
    ("new/" + 300 * "a", "is too long; choose a shorter one"), ("a\0b", "must be a path"),
    ("/sys/new/out", "cannot write /sys/new/out: ")])
def test_a_place_that_takes_no_folder_is_named_with_the_reason(place: str, reason: str, tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(MisuseError, match=reason) as refused:
        write_folder({"a": b"1"}, Path(place))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 220
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
