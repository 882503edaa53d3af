"""Names of aiter's kernels as parts, and the conditions that keep their combinations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from seqtune.errors import FormatError
from seqtune.integrations.aiter.kernels.name import name_of, parts_of
from seqtune.kernels.combinations import combinations
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import LONGEST_EXPRESSION
from seqtune.kernels.kernel import Kernel, Parameter, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace

NAMES = {
    "a8w8_blockscale_1x128x128_256x16x64x256_16x16_16x16_1x1_16x16x1_16x16x1_1x16x1x16_4_1x1_intrawave_v1":
        ("a8w8_blockscale_1x128x128_", 16, 64, 256, 256, "16x16_16x16_1x1",
         "16x16x1_16x16x1_1x16x1x16_4_1x1", "intrawave_v1"),
    "a8w8_blockscale_cktile_192x256x128_4x2x1_16x16x128_intrawave_0x1x0_1":
        ("a8w8_blockscale_cktile_", 192, 256, 128, 0, "4x2x1_16x16x128", "-", "intrawave_0x1x0_1"),
    "a8w8_bpreshuffle_cktile_0x0x8x4x1x0x0x0x0x2_64x256x128_1x4x1_16x16x64_default":
        ("a8w8_bpreshuffle_cktile_", 64, 256, 128, 0, "1x4x1_16x16x64", "0x0x8x4x1x0x0x0x0x2", "default"),
    "opus_gemm_gfx942_wkc_512x32x16x64_1x1_16x16x16_0x0x0":
        ("opus_gemm_gfx942_wkc_", 32, 16, 64, 512, "1x1", "16x16x16_0x0x0", "-"),
    "flydsl_gemm4_abf16_wbf16_bf16_t32x64x64_split_k8_gfx942":
        ("flydsl_gemm4_abf16_wbf16_bf16_t", 32, 64, 64, 0, "-", "split_k8_gfx942", "-"),
    "_ZN5aiter37bf16gemm_fp32bf16_tn_64x64_pf3_splitkE":
        ("aiter::bf16gemm_fp32bf16_tn_", 64, 64, 0, 0, "-", "pf3_splitk", "-"),
    "_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E":
        ("aiter::f4gemm_bf16_per1x32Fp4_BpreShuffle_", 32, 128, 0, 0, "-", "-", "-"),
    "_ZN5aiter4f4gemm_8x8E": ("_ZN5aiter4f4gemm_8x8E", 0, 0, 0, 0, "-", "-", "-"),  # not of that length
    "flydsl_x_032x64x64_a": ("flydsl_x_032x64x64_a", 0, 0, 0, 0, "-", "-", "-"),  # a number in another spelling
    "native": ("native", 0, 0, 0, 0, "-", "-", "-"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_read_as_its_parts_and_written_again(name: str) -> None:
    parts = parts_of(name)
    assert tuple(parts.values()) == NAMES[name]
    assert name_of(parts) == name


@pytest.mark.parametrize("name", ["", "a b", "x" * 301, "näme", "a;b"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(FormatError, match="is not the name of a kernel of aiter"):
        parts_of(name)


def test_combinations_are_exactly_those_of_the_table_however_long_it_is() -> None:
    generator = np.random.default_rng(0)
    words: list[Setting] = [f"a_word_of_some_length_{number}" for number in range(150)]  # too long for one expression
    values: list[list[Setting]] = [words, list(range(0, 60, 2)), ["x", "y", "z"], list(range(20)), [1, 2]]
    parameters = [Parameter(name, tuple(column)) for name, column in zip("abcde", values, strict=True)]
    tables = {architecture: {tuple(column[generator.integers(len(column))] for column in values)
                             for _ in range(count)} for architecture, count in (("gfx1", 900), ("gfx2", 7))}
    derived, constraints = combinations("row", parameters, "architecture", tables, "there is no such row")
    assert all(len(text) <= LONGEST_EXPRESSION for text in itertools.chain.from_iterable(derived))
    kernel = Kernel.of(name="toy.k", operation="recorded", meaning="", parameters=parameters, derived=derived,
                       constraints=constraints, default={})
    for architecture, table in tables.items():
        device = Device("toy:0", "toy", architecture, "none")
        space = SearchSpace(kernel, Problem.make("recorded", size=1), device)
        assert {tuple(value for _, value in one.settings) for one in space} == table
