"""Maps of codes with fewer rows give the same products."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.predictor.c_source.code_maps import ORDER, folded, rows_of_numbers
from seqtune.predictor.sequence.numeric_codes import CODE_SIZE, codes


def test_folded_maps_have_the_products_of_the_whole_maps() -> None:
    generator = np.random.default_rng(0)
    values = [None, 0, -3, *range(1, 300), *(2**generator.uniform(0, 50, 300)).astype(int).tolist(),
              *(2**generator.uniform(-10, 40, 300)).tolist()]
    maps = generator.normal(size=(2, CODE_SIZE, 16)).astype(np.float32)
    code, smaller = codes(values).astype(np.float64), folded(maps)
    assert len(ORDER) < CODE_SIZE
    assert smaller.shape == (2, len(ORDER), 16)
    for whole, part in zip(maps, smaller, strict=True):
        assert np.abs(code @ whole - code[:, ORDER] @ part).max() < 1e-5


@pytest.mark.parametrize("bound", [0, 1, 2**10, 2**20, 2**50])
def test_whole_numbers_reach_no_row_that_is_left_out(bound: int) -> None:
    generator = np.random.default_rng(1)
    values = [None, 0, bound, -bound, *generator.integers(-bound, bound + 1, 300).tolist()]
    assert np.abs(codes(values)[:, ORDER[rows_of_numbers(bound):]]).max() < 1e-9
    assert rows_of_numbers(bound) < len(ORDER)
