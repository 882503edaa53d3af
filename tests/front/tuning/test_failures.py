"""Failed trials: the settings that they have in common, and a default configuration that may be the wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import seqtune
from seqtune.api.tuning.results import common_settings, count_failures
from seqtune.data.record import Measurement, Status
from seqtune.kernels.kernel import Configuration
from tests.support.installation.optional import skip_without_device
from tests.support.libraries.stencil import write

LIBRARY = """name = "outlier"
[operations.double]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = "n"}
[kernels.k]
parameters = {rows_each = [1, 2, 4], width = [1, 2]}
[kernels.k.opencl]
text = '''__kernel void double_(__global const float *x, __global float *y) {
    y[get_global_id(0)] = (rows_each == WRONG ? 3 : 2) * x[get_global_id(0)]; }'''
entry = "double_"
arguments = ["x", "y"]
global = ["n"]
"""


def configurations(*values: tuple[int, int, int], kernel: str = "a.k") -> list[Configuration]:
    return [Configuration(kernel, tuple(zip(("rows_each", "block", "unroll"), each, strict=True))) for each in values]


@pytest.mark.parametrize(("failed", "correct", "common"), [
    ([(4, 1, 1), (4, 2, 1)], [(1, 1, 1), (2, 2, 2)], {"rows_each": (4,)}),
    ([(4, 1, 1), (8, 2, 1)], [(1, 1, 1), (2, 2, 2)], {"rows_each": (4, 8)}),
    ([(4, 2, 1), (4, 2, 2)], [(4, 1, 1), (1, 2, 1)], {"rows_each": (4,), "block": (2,)}),  # both together
    ([(4, 2, 1)], [(4, 1, 1)], {"block": (2,)}),
    ([(4, 2, 1), (1, 1, 2)], [(4, 1, 1), (1, 2, 2)], {}),
    ([(4, 2, 1), (1, 1, 2)], [], {})])
def test_settings_that_tell_failed_trials_from_correct_ones_are_named(
        failed: list[tuple[int, int, int]], correct: list[tuple[int, int, int]],
        common: dict[str, tuple[int, ...]]) -> None:
    assert common_settings(configurations(*failed), configurations(*correct)) == common


def test_each_status_has_its_own_settings_or_its_first_configuration() -> None:
    kinds = {(4, 1, 1): Status.COMPILE, (4, 2, 1): Status.COMPILE, (1, 2, 1): Status.CRASH, (2, 1, 2): Status.CRASH}
    failed = {each: Measurement(kinds[tuple(value for _, value in each.settings)], message="m")  # type: ignore[index]
              for each in configurations(*kinds)}
    counts = count_failures(failed, configurations((1, 1, 1), (2, 2, 2)))
    assert [str(count) for count in counts] == ["2 compile (all have rows_each=4): 'm'",
                                                "2 crash (the first has rows_each=1 block=2 unroll=1): 'm'"]


@pytest.mark.device
def test_where_nothing_but_the_default_tells_what_is_right_it_is_in_doubt(tmp_path: Path) -> None:
    skip_without_device("opencl:0")
    seqtune.use_library(write(tmp_path, LIBRARY.replace("WRONG", "1")))
    report = seqtune.tune("double n=64", device="opencl:0", strategy="exhaustive", trials=6,
                          journal=tmp_path / "journal.sqlite")
    [result] = report.results
    answer: dict[str, Any] = result.to_json()
    assert answer["failures"][0]["common"] == {"rows_each": [2, 4]}
    assert "default configuration" in answer["default_in_doubt"]
    assert any("may itself be the wrong one" in note for note in result.notes())


@pytest.mark.device
def test_a_reference_leaves_no_doubt_in_the_default(tmp_path: Path) -> None:
    skip_without_device("opencl:0")
    (tmp_path / "reference.py").write_text("def run(x):\n    return 2 * x\n")
    text = LIBRARY.replace("WRONG", "4").replace("[kernels.k]\n", 'reference = "reference:run"\n[kernels.k]\n')
    seqtune.use_library(write(tmp_path, text), allow_commands=True)
    report = seqtune.tune("double n=64", device="opencl:0", strategy="exhaustive", trials=6,
                          journal=tmp_path / "journal.sqlite")
    assert report.results[0].failed == 2
    assert "default_in_doubt" not in report.results[0].to_json()
