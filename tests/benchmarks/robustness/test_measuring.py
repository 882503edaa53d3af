"""The program that measures beside other work: rows and tables, with commands that are stand-ins."""

from __future__ import annotations

import pytest

from benchmarks.robustness.measuring import itself, table, timed
from seqtune.errors import SeqtuneError


def test_a_command_that_fails_has_a_row_with_its_error() -> None:
    def fail(problem: str, seconds: float) -> str:
        raise SeqtuneError(f"{problem} not within {seconds:g} s")

    row = timed("tune", "gemm m=8", 2.0, fail)
    assert (row["command"], row["budget"], row["outcome"]) == ("tune gemm m=8", 2.0, "gemm m=8 not within 2 s")
    assert row["ratio"] == pytest.approx(row["elapsed"] / 2.0)
    assert table([row]).splitlines()[0].startswith("| command | budget | elapsed | ratio | outcome |")


def test_a_configuration_that_is_compared_with_itself_makes_six_comparisons() -> None:
    row = itself("llvm:0", 1)
    assert (row["device"], row["comparisons"]) == ("llvm:0", 6)
    assert 0 <= row["false_wins"] <= 1
    assert 0 <= row["misses"] <= 1
