"""Element types: rounding to fp16 and bf16, and the conversion to stored elements."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqtune.errors import ProblemError
from seqtune.kernels.devices.element_types import (
    ELEMENT_TYPES,
    ElementType,
    decode,
    encode,
    rounded,
)

TORCH = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
NUMBERS = np.concatenate([np.random.default_rng(0).standard_normal(2000), [0.0, -0.0, 1.0, 1 / 3, 65504.0, np.inf],
                          [1 + 2.0**-8, 1 + 3 * 2.0**-8]]).astype(np.float32)  # the last two: ties


@pytest.mark.parametrize("dtype", TORCH)
def test_numbers_are_rounded_as_torch_rounds_them(dtype: str) -> None:
    expected = torch.from_numpy(NUMBERS).to(TORCH[dtype]).to(torch.float32).numpy()
    np.testing.assert_array_equal(rounded(NUMBERS, dtype), expected)
    assert encode(NUMBERS, dtype).itemsize == ELEMENT_TYPES[dtype].size


@pytest.mark.parametrize("dtype", TORCH)
def test_the_relative_error_is_at_most_the_stated_rounding(dtype: str) -> None:
    numbers = NUMBERS[np.abs(NUMBERS) > 1e-3][:2000]
    errors = np.abs(rounded(numbers, dtype) - numbers) / np.abs(numbers)
    assert errors[np.isfinite(errors)].max() <= ELEMENT_TYPES[dtype].rounding


@pytest.mark.parametrize("dtype", TORCH)
def test_nan_stays_nan(dtype: str) -> None:
    assert np.isnan(decode(encode(np.array([np.nan], np.float32), dtype), dtype)).all()


@pytest.mark.parametrize("dtype", [name for name, element in ELEMENT_TYPES.items() if not element.is_float])
def test_whole_numbers_are_stored_as_they_are(dtype: str) -> None:
    limits = np.iinfo(ELEMENT_TYPES[dtype].stored)
    numbers = np.array([limits.min, 0, 1, limits.max], ELEMENT_TYPES[dtype].stored)
    stored = encode(numbers, dtype)
    assert stored.dtype == ELEMENT_TYPES[dtype].stored
    np.testing.assert_array_equal(decode(stored, dtype), numbers)
    assert rounded(numbers, dtype) is numbers


@pytest.mark.parametrize("element", ELEMENT_TYPES.values(), ids=lambda element: element.name)
def test_an_entry_s_names_and_sizes_agree(element: ElementType) -> None:
    bits = 8 * element.size
    assert element.name.endswith(str(bits))
    assert {"half": 16, "float": 32, "double": 64}.get(element.ir) == bits or element.ir == f"i{bits}"
    assert element.triton in (element.name, f"{element.name[0]}{bits}")
    assert getattr(torch, element.torch).itemsize == element.size
    assert element.host.itemsize >= element.size
    assert element.result.size >= element.size
    poisoned = np.frombuffer(bytes([element.poison]) * element.size, element.stored)
    assert np.isnan(decode(poisoned, element.name)).all() == element.is_float
    assert (element.tolerance > 0) == element.is_float


def test_an_element_type_that_is_not_stored_is_refused() -> None:
    with pytest.raises(ProblemError, match=r"dtype=int4 is not an element type; there are fp32, .*int8"):
        encode(NUMBERS, "int4")
