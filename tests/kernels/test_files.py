"""Atomic writing: the old file or the new one, whatever goes wrong."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from seqtune.errors import SeqtuneError
from seqtune.kernels.files import check_writable, new_folder, replacing, write_whole


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_that_was_written_is_as_others_may_read_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "new", "ä")
    (tmp_path / "neighbour").touch()
    assert (tmp_path / "new").read_bytes() == "ä".encode()
    assert mode(tmp_path / "new") == mode(tmp_path / "neighbour")


def test_a_file_keeps_its_permissions_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.touch(0o640)
    path.chmod(0o640)
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert mode(path) == 0o640


@pytest.mark.parametrize("error", [OSError("no space"), ValueError("bad"), KeyboardInterrupt()])
def test_an_interrupted_writer_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "old"
    path.write_text("old")
    expected = SeqtuneError if isinstance(error, OSError) else type(error)

    def write() -> None:
        with replacing(path) as scratch:
            scratch.write_text("half")
            raise error

    with pytest.raises(expected):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["old"]


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "target")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "target").read_text() == "new"


@pytest.mark.parametrize("durable", [True, False])
def test_a_writer_waits_for_the_disk_only_where_it_matters(
        tmp_path: Path, durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    with replacing(tmp_path / "new", durable=durable) as scratch:
        scratch.write_text("content")
    assert bool(flushed) is durable
    assert (tmp_path / "new").read_text() == "content"


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_only_a_new_file_is_made_where_another_process_was_faster(
        tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError("no links here")))
    path = tmp_path / "new"
    with replacing(path, only_new=True) as scratch:
        scratch.write_text("ours")
    assert path.read_text() == "ours"
    if links:
        with replacing(path, only_new=True) as scratch:
            scratch.write_text("slower")
        assert path.read_text() == "ours"
    assert os.listdir(tmp_path) == ["new"]


def test_a_folder_that_cannot_be_written_is_one_line_before_the_work(tmp_path: Path) -> None:
    check_writable(tmp_path)
    assert not os.listdir(tmp_path)
    with pytest.raises(SeqtuneError, match=r"^cannot write into .*missing: No such file or directory$"):
        check_writable(tmp_path / "missing")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("No space left on device")])
def test_a_folder_whose_writer_is_interrupted_leaves_nothing(error: BaseException, tmp_path: Path) -> None:
    def write() -> None:
        with new_folder(tmp_path / "new") as scratch:
            (scratch / "part").touch()
            raise error

    with pytest.raises((KeyboardInterrupt, SeqtuneError)):
        write()
    assert not os.listdir(tmp_path)
