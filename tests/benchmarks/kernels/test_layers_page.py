"""The comparisons of layers: their arithmetic, the tables and the figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.contest import Contestant, rows_of
from benchmarks.kernels.layers_page import Compared, compared, draw, page, table
from benchmarks.kernels.problem_sets import PROBLEM_SETS

RESNET, PRODUCTS, LINEAR = (PROBLEM_SETS[name] for name in ("resnet18", "products", "linear"))
C1 = {"onednn": 2.0, "conv2d_channels_last": 3.0, "conv2d_nchw": 4.0, "llvm.direct": 1.0, "nchw llvm.direct": 2.0}
C2 = {"onednn": 9.0, "conv2d_channels_last": 4.0, "conv2d_nchw": 8.0, "llvm.direct": 8.0, "llvm.other": 2.0,
      "nchw llvm.direct": 1.0}


def timed(label: str, threads: int, seconds: dict[str, float]) -> list[dict[str, Any]]:
    """Make the rows of a contest with these times."""
    contestants = [Contestant(method, int, 1e-6, {"kernel": method}) for method in seconds]
    return rows_of(label, threads, contestants, seconds, 9)


LAYERS = [*timed("C1", 1, C1), *timed("C2", 1, C2)]


def by_title(comparisons: list[Compared]) -> dict[str, Compared]:
    """The comparisons by what they compare with."""
    return {one.comparison.title: one for one in comparisons}


def test_ratios_are_of_the_fastest_on_both_sides() -> None:
    best, direct, nchw = compared(RESNET, LAYERS)
    assert (best.comparison.title, best.threads) == ("best oneDNN", 1)
    assert best.mean == pytest.approx((2.0 * 2.0) ** 0.5)
    assert direct.mean == pytest.approx((2.0 * 0.5) ** 0.5)
    assert nchw.mean == pytest.approx((2.0 * 8.0) ** 0.5)
    assert direct.least == ("C2", 0.5)
    assert best.least == ("C1", 2.0)


def test_products_are_compared_with_the_plain_and_with_the_packed_ways() -> None:
    rows = timed("LSTM 256", 2, {"mm": 3.0, "onednn_packed": 2.0, "mkl_packed": 4.0, "llvm.gemm": 1.0})
    assert [one.mean for one in compared(PRODUCTS, rows)] == pytest.approx([2.0, 3.0])


def test_a_linear_layer_is_compared_with_the_limit_of_the_machine_and_with_pytorch() -> None:
    rows = timed("GPT-2 up, 8 rows", 2, {"linear": 8.0, "onednn_packed": 6.0, "read": 1.0, "proposal 1": 4.0,
                                         "proposal 2": 2.0, "machine": 1.5})
    assert [one.mean for one in compared(LINEAR, rows)] == pytest.approx([0.75, 0.375, 4.0, 3.0])


def test_openvino_s_node_stands_beside_our_step_where_it_was_timed() -> None:
    rows = timed("C4", 1, {**C1, "step": 1e-4, "openvino_node": 5e-4})
    assert by_title(compared(RESNET, rows))["OpenVINO's node, by our step"].mean == pytest.approx(5.0)
    assert "OpenVINO's node, by our step" not in by_title(compared(RESNET, LAYERS))


def test_other_runtimes_are_the_peers_of_the_first() -> None:
    runtimes = PROBLEM_SETS["runtimes"]
    label = next(iter(runtimes.make()))
    rows = timed(label, 2, {"opencl.direct": 4.0, "opencl.gemm": 2.0, "opencl:intel-cpu opencl.direct": 3.0,
                            "opencl:intel-cpu opencl.gemm": 1.0})
    one, = compared(runtimes, rows)
    assert one.mean == 0.5


def test_the_table_of_a_set_has_a_line_for_each_layer_with_our_fastest_kernel() -> None:
    lines = table(RESNET, LAYERS).splitlines()
    assert lines[2] == ("| C1 | 7×7 / 2, 3 → 64, 224 × 224 | 1 | 1000000 | direct | 0 | 1e-06 | 2.00 | 2.00 | 2.00 |")
    assert "| 2000000 | other |" in lines[3]
    unknown = [{name: value for name, value in row.items() if name != "error"} for row in LAYERS]
    assert "| – | 2.00 | 2.00 |" in table(RESNET, unknown)


def test_the_page_and_the_figure_have_every_set_that_was_measured(tmp_path: Path) -> None:
    two = timed("C1", 2, {**C1, "llvm.direct": 0.5})
    results = {"resnet18": {"machine": {"cpu": "A", "date": "2026-01-01"}, "rows": [*LAYERS, *two]}}
    written = page(results)
    assert "as geometric means: Convolutions of ResNet-18 4.00 (best oneDNN)." in written.claim
    assert "| Convolutions of ResNet-18 | best oneDNN | 1 | 2 | **2.00** | 2.00 | C1 |" in written.tables
    assert "Measured on A, on 2026-01-01." in written.tables
    draw(results, tmp_path / "layers.svg")
    assert (tmp_path / "layers.svg").stat().st_size > 1000
    assert page({}).claim == "No layer was measured."
