"""llvm.grouped against the definition, on every instruction set and all over its space."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from seqtune.errors import ProblemError
from seqtune.kernels.llvm import grouped as llvm_grouped
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from tests.support.exactness import check_sample
from tests.support.llvm import DEVICES, needs_llvm

pytestmark = needs_llvm

# Every instruction set on all cores.
BY_NAME = {device.name: device for device in DEVICES if device.threads == DEVICES[0].threads}
FAMILY = kernel("llvm.grouped")


def grouped(channels: int, groups: int, **features: int | str) -> Problem:
    """A problem with this number of channels in each group."""
    return Problem.make("conv2d", **{"c": channels * groups, "k": channels * groups, "groups": groups, "r": 3, "s": 3,
                                     "layout": "NHWC", **features})


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    def pick(*values: int | str) -> int | str:
        return draw(st.sampled_from(values))

    made = None
    with suppress(ProblemError):  # a filter larger than the input
        made = grouped(
            int(pick(2, 4, 5, 6, 8, 12, 16, 20, 32)), int(pick(2, 3, 5, 8)), n=pick(1, 1, 2), h=pick(1, 4, 5, 7, 9),
            w=pick(1, 4, 6, 7, 10, 17), r=pick(1, 2, 3, 5), s=pick(1, 2, 3, 5), pad_h=pick(0, 1, 2),
            pad_w=pick(0, 1, 3), stride_h=pick(1, 2, 3), stride_w=pick(1, 2, 3), dilation_h=pick(1, 2),
            dilation_w=pick(1, 3), bias=pick("no", "yes"), activation=pick("none", "relu"))
    assume(made is not None)
    assert made is not None
    return made


@given(problem=problems(), name=st.sampled_from(list(BY_NAME) or ["none"]), seed=st.integers(0, 1000))
@settings(max_examples=12, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_odd_convolutions_are_right_all_over_the_space(
        backends: dict[str, LLVMBackend], problem: Problem, name: str, seed: int) -> None:
    check_sample(backends[name], BY_NAME[name], FAMILY, problem, seed)


@pytest.mark.parametrize("channels", [2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64])
def test_every_group_that_it_solves_has_a_space_worth_searching(channels: int) -> None:
    for device in BY_NAME.values():
        for size, extent, stride in ((56, 3, 1), (7, 3, 2), (28, 5, 1), (14, 7, 1), (14, 15, 1)):
            problem = grouped(channels, 8, h=size, w=size, r=extent, s=extent, pad_h=extent // 2, pad_w=extent // 2,
                              stride_h=stride, stride_w=stride)
            if channels == 3:
                assert "whole groups" in str(FAMILY.why_not(problem, device))
                continue
            assert FAMILY in kernels_for(problem, device)
            assert (4 if extent < 15 else 1) <= len(SearchSpace(FAMILY, problem, device)) <= 1000


def test_what_it_does_not_solve_is_refused_with_the_reason() -> None:
    for reason, problem in (
            ("must be groups", grouped(16, 1, h=9, w=9)), ("depthwise", grouped(1, 16, h=9, w=9)),
            ("as many input as output", grouped(8, 4, h=9, w=9, k=64)), ("at most 64", grouped(72, 2, h=9, w=9)),
            ("channels must be last", grouped(8, 4, h=9, w=9, layout="NCHW")),
            ("fp32", grouped(8, 4, h=9, w=9, dtype="fp16"))):
        assert reason in str(FAMILY.why_not(problem, DEVICES[0]))


def test_sizes_that_arrive_at_run_time_share_one_source() -> None:
    first, other = (grouped(8, 8, n=n, h=size, w=size, pad_h=1, pad_w=1) for n, size in ((1, 56), (3, 42)))
    chosen = SearchSpace(FAMILY, first, DEVICES[0]).default
    assert (llvm_grouped.IMPLEMENTATION.source(first, DEVICES[0], chosen)
            == llvm_grouped.IMPLEMENTATION.source(other, DEVICES[0], chosen))


@pytest.mark.parametrize("channels", [4, 16])
def test_infinite_inputs_and_nans_stay_in_their_groups(backends: dict[str, LLVMBackend], channels: int) -> None:
    problem = grouped(channels, 4, h=6, w=6, pad_h=1, pad_w=1)
    for name, backend in backends.items():
        x = np.ones((1, 6, 6, 4 * channels), np.float32)
        x[0, 0, 0, 0], x[0, 0, 0, channels] = np.inf, np.nan
        space = SearchSpace(FAMILY, problem, BY_NAME[name])
        executable = backend.build(problem, FAMILY, space.default)
        executable.load({"x": x, "weights": np.ones((4 * channels, channels, 3, 3), np.float32)})
        executable.run()
        y = executable.outputs()["y"]
        executable.close()
        assert np.isinf(y[0, :2, :2, :channels]).all()
        assert np.isnan(y[0, :2, :2, channels:2 * channels]).all()
        assert np.isfinite(y[0, :, :, 2 * channels:]).all()
        assert np.isfinite(y[0, 2:]).all()
        assert np.isfinite(y[0, :, 2:]).all()
