"""llvm.winograd against the definition, on every instruction set and all over its space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqtune.kernels.llvm import winograd as llvm_winograd
from seqtune.kernels.llvm.ir.winograd_transforms import filter_transform
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from tests.support.exactness import check_sample, errors
from tests.support.llvm import DEVICES, needs_llvm

pytestmark = needs_llvm

# Every instruction set on all cores, the first also on one.
BY_NAME = {device.name: device for device in DEVICES if device.threads == DEVICES[0].threads or device in DEVICES[:2]}
FAMILY = kernel("llvm.winograd")


def conv(**features: int | float | str) -> Problem:
    return Problem.make("conv2d", **{"r": 3, "s": 3, **features})


problems = st.builds(
    conv, n=st.sampled_from([1, 1, 2, 3]), c=st.sampled_from([1, 3, 4, 5, 8, 16, 17, 24, 40]),
    h=st.sampled_from([4, 5, 7, 9, 12, 17]), w=st.sampled_from([4, 6, 7, 10, 13, 30]),
    k=st.sampled_from([4, 5, 7, 8, 12, 16, 17, 24, 33, 48, 70]), pad_h=st.integers(0, 2), pad_w=st.integers(0, 3),
    layout=st.sampled_from(["NCHW", "NHWC"]), bias=st.sampled_from(["no", "yes"]),
    activation=st.sampled_from(["none", "relu"]))


@given(problem=problems, name=st.sampled_from(list(BY_NAME) or ["none"]), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_odd_convolutions_are_right_all_over_the_space(
        backends: dict[str, LLVMBackend], problem: Problem, name: str, seed: int) -> None:
    check_sample(backends[name], BY_NAME[name], FAMILY, problem, seed)


@pytest.mark.parametrize(("m", "limit"), [(2, 2e-6), (4, 1e-5)])
@pytest.mark.parametrize("channels", [64, 2048])
def test_the_error_stays_a_fifth_of_the_tolerance_that_it_asks_for(
        backends: dict[str, LLVMBackend], m: int, limit: float, channels: int) -> None:
    problem = conv(c=channels, h=9, w=9, k=32, pad_h=1, pad_w=1)
    for device in BY_NAME.values():
        space = SearchSpace(FAMILY, problem, device)
        configuration = space.nearest({**dict(FAMILY.default), "m": m})
        assert configuration["m"] == m
        assert max(errors(backends[device.name], FAMILY, problem, [configuration])) < limit


def test_what_is_not_accurate_enough_is_not_offered() -> None:
    layer = {"c": 64, "h": 28, "w": 28, "k": 64}
    assert "rounding errors" in str(FAMILY.why_not(conv(**layer, tolerance=2e-6), DEVICES[0]))
    careful = SearchSpace(FAMILY, conv(**layer, tolerance=1e-5), DEVICES[0])
    assert set(careful.columns()["m"].tolist()) == {2}
    assert "5e-5 allows" in str(careful.why_not(SearchSpace(FAMILY, conv(**layer), DEVICES[0]).default))


@pytest.mark.parametrize("features", [
    {"stride_h": 2}, {"dilation_w": 2}, {"groups": 2}, {"s": 5}, {"dtype": "bf16"}, {"h": 3, "w": 3}, {"k": 2}])
def test_what_it_does_not_solve_is_refused_with_the_reason(features: dict[str, int | str]) -> None:
    assert FAMILY.why_not(conv(**{"c": 8, "h": 9, "w": 9, "k": 8, **features}), DEVICES[0])


@pytest.mark.parametrize("m", [2, 4])
def test_the_transforms_multiply_to_a_correlation(m: int) -> None:
    rows = filter_transform(m)
    assert rows.shape == ((m + 2) ** 2, 9)
    delta = rows @ np.eye(9)[:, 0]  # a filter of its first tap alone has the same value at every finite point
    one = delta.reshape(m + 2, m + 2)
    assert np.allclose(one, np.outer(one[:, 0], one[:, 0]) / one[0, 0])


def test_sizes_that_arrive_at_run_time_share_one_source() -> None:
    first = conv(c=64, h=56, w=56, k=64, pad_h=1, pad_w=1)
    other = conv(n=2, c=128, h=31, w=17, k=96)
    chosen = SearchSpace(FAMILY, first, DEVICES[0]).default
    assert (llvm_winograd.IMPLEMENTATION.source(first, DEVICES[0], chosen)
            == llvm_winograd.IMPLEMENTATION.source(other, DEVICES[0], chosen))
