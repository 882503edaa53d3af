"""The programs that make the README's tables and figures: those of their parts that measure nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("results", "new_device", "kernels_speed", "latency", "shipped_data")
sys.path.append(str(ROOT))  # benchmarks/ is not installed

from benchmarks.report import apart, insert, markdown  # noqa: E402
from benchmarks.results import draw, table  # noqa: E402
from seqtune.errors import MisuseError  # noqa: E402


def rows(share: float, low: float) -> list[dict[str, object]]:
    """Of seq2seq and of a fixed configuration that `share` of the speed is reached by."""
    return [{"device": "toy:0", "method": method, "measured": count, "share": 0.9 if method == "seq2seq" else share,
             "problems": 7, "low": None if method == "seq2seq" else low, "high": None if method == "seq2seq" else 0.1,
             "worse": False} for method in ("seq2seq", "fixed") for count in (0, 3, 5)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_what_it_does_without_data(program: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", f"benchmarks.{program}", "--help"], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"python -m benchmarks.{program}" in done.stdout


def test_a_data_set_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.results", "--out", str(tmp_path / "out"), "--data",
                           str(tmp_path / "none.parquet")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "none.parquet" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--problems", "--times"])
@pytest.mark.parametrize("number", ["0", "-3", "many"])
def test_counts_of_the_latency_program_are_above_0(option: str, number: str) -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.latency", option, number], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2
    assert "above 0" in done.stderr.splitlines()[-1]


def test_what_cannot_be_told_apart_is_marked() -> None:
    assert "| toy:0 (7) | 0 | **0.900** | 0.800 |" in table(rows(0.8, low=0.02))
    assert "| toy:0 (7) | 0 | **0.900** | 0.800* |" in table(rows(0.8, low=-0.02))


def test_the_figure_is_the_same_for_the_same_numbers(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw(rows(0.8, low=0.02), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_table_replaces_the_one_between_its_comments(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- results -->\nold\n<!-- /results -->\nafter\n")
    insert(page, "results", markdown(["a", "b"], [["x", "1"]]))
    assert page.read_text() == (
        "before\n<!-- results -->\n| a | b |\n| :-- | --: |\n| x | 1 |\n<!-- /results -->\nafter\n")
    with pytest.raises(MisuseError, match="latency"):
        insert(page, "latency", "")


def test_labels_are_moved_apart_and_no_further_than_needed() -> None:
    assert apart([1.0, 3.0], 1.0) == [1.0, 3.0]
    assert apart([1.0, 1.2, 5.0], 1.0) == pytest.approx([0.6, 1.6, 5.0])
    found = apart([2.0, 1.9, 2.1, 2.4], 1.0)
    assert sorted(found) == [found[1], found[0], found[2], found[3]]
    assert min(b - a for a, b in zip(sorted(found), sorted(found)[1:], strict=False)) >= 1.0 - 1e-12
