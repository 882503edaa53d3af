"""Cache lines: the derived quantities against a cache that is counted."""

from __future__ import annotations

import pytest

from seqtune.kernels.cache_lines import LINE, PERIOD, conv2d_lines, gemm_lines
from seqtune.kernels.expression import Expression

SETS = PERIOD // LINE


def average(count: int, step: int) -> float:
    """Lines in a set that is used, where `count` floats are `step` floats apart."""
    lines = {place * step // LINE for place in range(count)}
    return len(lines) / len({line % SETS for line in lines})


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("size", [7, 14, 28, 32, 56, 57, 64, 96, 112, 224])
def test_lines_a_set_are_those_of_a_cache_that_is_counted(size: int, layout: str) -> None:
    names = {"c_per_group": 64, "c": 64, "h": size, "w": size, "pad_h": 0, "pad_w": 0, "out_h": size, "out_w": size,
             "k": 256, "stride_w": 1, "tile_w": 14, "lanes_k": 48, "layout": layout}
    found = {name: Expression(text)(names) for name, text in conv2d_lines("lanes_k")}
    x, y = (average(64, size * size), average(48, size * size)) if layout == "NCHW" else (
        average(14, 64), average(14, 256))
    assert x / 3 <= found["x_lines_a_set"] <= 3 * x
    assert y / 3 <= found["y_lines_a_set"] <= 3 * y


def test_a_power_of_two_puts_all_channels_into_one_set() -> None:
    names = {"c_per_group": 256, "h": 32, "w": 32, "pad_h": 0, "pad_w": 0, "out_h": 32, "out_w": 32, "stride_w": 2,
             "tile_w": 4, "lanes_k": 32, "layout": "NCHW", "c": 256, "k": 256}
    found = {name: Expression(text)(names) for name, text in conv2d_lines("lanes_k")}
    assert found == {"x_lines_a_set": 256, "y_lines_a_set": 32, "x_line_visits": 2, "y_line_visits": 4}


def test_rows_of_a_matrix_fall_into_one_set_where_its_columns_are_a_multiple_of_the_period() -> None:
    names = {"m": 64, "n": 1000, "k": 2048, "trans_a": "no", "tile_m": 12, "lanes_n": 8}
    found = {name: Expression(text)(names) for name, text in gemm_lines("lanes_n")}
    assert found == {"a_lines_a_set": 12, "c_lines_a_set": 1, "c_line_visits": 2}
