"""Element types: rounding to fp16 and bf16, and the conversion to stored elements."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqtune.errors import ProblemError
from seqtune.kernels.devices.element_types import ELEMENT_TYPES, decode, encode, rounded

TORCH = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
NUMBERS = np.concatenate([np.random.default_rng(0).standard_normal(2000), [0.0, -0.0, 1.0, 1 / 3, 65504.0, np.inf],
                          [1 + 2.0**-8, 1 + 3 * 2.0**-8]]).astype(np.float32)  # the last two: ties


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_numbers_are_rounded_as_torch_rounds_them(dtype: str) -> None:
    expected = torch.from_numpy(NUMBERS).to(TORCH[dtype]).to(torch.float32).numpy()
    np.testing.assert_array_equal(rounded(NUMBERS, dtype), expected)
    assert encode(NUMBERS, dtype).itemsize == ELEMENT_TYPES[dtype].size


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_the_relative_error_is_at_most_the_stated_rounding(dtype: str) -> None:
    numbers = NUMBERS[np.abs(NUMBERS) > 1e-3][:2000]
    errors = np.abs(rounded(numbers, dtype) - numbers) / np.abs(numbers)
    assert errors[np.isfinite(errors)].max() <= ELEMENT_TYPES[dtype].rounding


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_nan_stays_nan(dtype: str) -> None:
    assert np.isnan(decode(encode(np.array([np.nan], np.float32), dtype), dtype)).all()


def test_an_element_type_that_is_not_stored_is_refused() -> None:
    with pytest.raises(ProblemError, match="int8"):
        encode(NUMBERS, "int8")
