"""C types: every declarable element type by its names in both languages, and the split of a declared argument."""

from __future__ import annotations

import pytest

from seqtune.kernels.devices.element_types import ELEMENT_TYPES
from seqtune.kernels.launches.c_types import C_TYPES, DECLARABLE, split_type


@pytest.mark.parametrize("dtype", DECLARABLE)
def test_a_type_is_known_by_its_names_in_opencl_c_in_cuda_c_and_in_problems(dtype: str) -> None:
    element = ELEMENT_TYPES[dtype]
    assert {C_TYPES[name] for name in (element.opencl, element.cuda, dtype)} == {dtype}


def test_a_type_that_opencl_c_lacks_is_not_declarable() -> None:
    assert "bf16" not in DECLARABLE
    assert "__nv_bfloat16" not in C_TYPES


@pytest.mark.parametrize(("text", "dtype", "expression"), [
    ("unsigned long long n * n", "uint64", "n * n"), ("signed char 3", "int8", "3"), ("unsigned n", "uint32", "n"),
    ("size_t n", "uint64", "n"), ("fp16 alpha", "fp16", "alpha"), ("n + 1", None, "n + 1"), ("int", None, "int")])
def test_an_argument_is_split_into_its_type_and_its_expression(
        text: str, dtype: str | None, expression: str) -> None:
    assert split_type(text) == (dtype, expression)
