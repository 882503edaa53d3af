"""Finished work is found by the next call, and is not taken for work with other options."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.common.finished import Finished, checksum
from seqtune.errors import FormatError, MisuseError, SeqtuneError
from seqtune.tuner.measuring.deadline import Deadline


def test_a_finished_step_is_not_done_again_unless_its_options_changed(tmp_path: Path) -> None:
    for options, result in (({"seed": 0}, 1), ({"seed": 0}, 2), ({"seed": 1}, 3)):
        kept = Finished(tmp_path / "new").get(("gemm m=1", checksum(options)), lambda result=result: result)  # type: ignore[misc]
        assert kept == (1 if options["seed"] == 0 else 3)
    assert Finished(tmp_path / "new").get(("gemm m=1", checksum({"seed": 0})), lambda: 4, is_stored=False) == 4
    late = Finished(tmp_path / "new", Deadline(0.0))
    assert (late.get(("gemm m=1", checksum({"seed": 1})), int), late.get(("other",), int), late.left) == (3, None, 1)


def test_a_step_that_fails_stores_nothing_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    def fail() -> None:
        raise SeqtuneError("planted")

    finished = Finished(tmp_path)
    with pytest.raises(SeqtuneError, match="planted"):
        finished.get(("step",), fail)
    assert list(tmp_path.iterdir()) == []
    finished.path("step").write_text("[")
    with pytest.raises(FormatError, match=r"step\.json is not what this program writes; remove it"):
        finished.get(("step",), fail)


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MisuseError, match="file cannot be a folder"):
        Finished(tmp_path / "file")


def test_a_long_name_ends_with_a_checksum(tmp_path: Path) -> None:
    first, second = (Finished(tmp_path).path("x" * 300, last) for last in "ab")
    assert first != second
    assert len(first.name) < 255
