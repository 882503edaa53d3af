"""The program that leaves chips out of tuners' choices, on a small data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.prediction import gpu_choices
from seqtune.errors import MisuseError
from tests.support.learning.chosen import chosen_dataset


def test_a_chip_is_left_out_and_methods_are_compared_on_it(tmp_path: Path) -> None:
    chosen_dataset(["a100", "a800", "h200"], [1024, 2048, 4096]).write(tmp_path / "chosen.parquet")
    gpu_choices.main([str(tmp_path / "chosen.parquet"), "--trees-only", "--most", "6", "--work", str(tmp_path / "work"),
                      "--out", str(tmp_path)])
    text = (tmp_path / "results" / "gpu_choices.md").read_text()
    rows = [line.split(" | ")[1:3] for line in text.splitlines() if line.startswith("| chosen | ")]
    titles = [gpu_choices.METHODS[name] for name in ("trees", "nearest", "file", "analytic")]
    assert rows == [[chip, title] for chip in ("ga100", "gh100", "all") for title in titles]
    assert "| chosen | ga100 | nearest file of another chip | 24 | 1.00 | 1.00 | 1.00 |" in text  # of 48, all copies


def test_a_data_set_of_one_chip_is_refused(tmp_path: Path) -> None:
    chosen_dataset(["a100", "a800"]).write(tmp_path / "chosen.parquet")
    with pytest.raises(MisuseError, match="choices on 1 chips; two are needed"):
        gpu_choices.main([str(tmp_path / "chosen.parquet"), "--trees-only", "--work", str(tmp_path / "work")])
