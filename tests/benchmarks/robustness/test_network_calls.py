"""Random calls of a compiled network: the shapes that are drawn, the page, and what is wrong in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.robustness.network_calls import (
    BATCHES,
    LEAST,
    MOST,
    WatchedCalls,
    draw,
    draw_shapes,
    memory_growth,
    page,
)
from seqtune.tuner.backends.image_cache import ImageCache
from seqtune.tuner.backends.llvm.compiler import Compiler, instruction_sets
from tests.support.installation.optional import needs
from tests.support.paths import ROOT

LOOKS = [{"calls": calls, "seconds": 1.0 * calls, "resident": 100e6 + 1e6 * min(calls, 50), "regions": 900,
          "graphs": 4, "programs": 40, "sources": 70} for calls in range(5, 101, 5)]
ROW = {"calls": 100, "shapes": 40, "callers": 4, "busy": 2, "kept": 256, "wrong": 0, "error": 2e-6, "refused": 0,
       "looks": LOOKS}


def test_shapes_are_all_batches_with_different_lengths() -> None:
    shapes = draw_shapes(30, 0)
    assert shapes == draw_shapes(30, 0) != draw_shapes(30, 1)
    assert len(set(shapes)) == 30 * len(BATCHES)
    assert all(LEAST <= length <= MOST for _, length in shapes)
    assert len(draw_shapes(MOST - LEAST + 1, 0)) == (MOST - LEAST + 1) * len(BATCHES)


def test_the_page_says_what_was_wrong_and_how_the_memory_grew(tmp_path: Path) -> None:
    assert memory_growth(LOOKS) == 0.0
    written = page({"machine": {}, "rows": [ROW]})
    assert "100 calls with 40 shapes from 4 threads, 256 programs kept for each graph: no wrong" in written.claim
    assert "4 graphs of Dynamo, memory +0.0 % over the last half" in written.claim
    assert "| 256 | 100 | 100 | 150 | 900 | 4 | 40 | 70 |" in written.tables
    assert "3 wrong results" in page({"machine": {}, "rows": [{**ROW, "wrong": 3}]}).claim
    draw([ROW], tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000


@needs("torch")
def test_only_what_is_compiled_is_counted_and_only_meanwhile(tmp_path: Path) -> None:
    def compile_text(number: int) -> None:
        Compiler(instruction_sets()[0], ImageCache("object", tmp_path)).build(
            f"define i32 @answer() {{\n  ret i32 {number}\n}}\n")

    before = Compiler._emit
    calls = WatchedCalls(None, [], [], 1)
    with calls.counting():
        for number in (1, 2, 1):
            compile_text(number)
    compile_text(3)
    assert calls.look()["sources"] == 2
    assert Compiler._emit is before


def test_too_many_lengths_are_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks", "network_calls", "--lengths", "5000"], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--lengths 5000 is more than the 497 from 16 to 512" in done.stderr
