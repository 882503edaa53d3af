"""llvm.depthwise against the definition, on every instruction set and all over its space."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from seqtune.errors import ProblemError
from seqtune.kernels.llvm import depthwise as llvm_depthwise
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.kernels.registry import kernel, kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from tests.support.exactness import check_sample
from tests.support.llvm import DEVICES, needs_llvm

pytestmark = needs_llvm

# Every instruction set on all cores, the first also on one.
BY_NAME = {device.name: device for device in DEVICES if device.threads == DEVICES[0].threads or device in DEVICES[:2]}
FAMILY = kernel("llvm.depthwise")


def depthwise(c: int, **features: int | str) -> Problem:
    return Problem.make("conv2d", **{"c": c, "k": c, "groups": c, "r": 3, "s": 3, **features})


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    def pick(*values: int | str) -> int | str:
        return draw(st.sampled_from(values))

    made = None
    with suppress(ProblemError):  # a filter larger than the input
        made = depthwise(
            int(pick(1, 3, 4, 5, 8, 12, 16, 17, 33, 70)), n=pick(1, 1, 2, 3), h=pick(1, 4, 5, 7, 9, 12, 17),
            w=pick(1, 4, 6, 7, 10, 13, 30), r=pick(1, 2, 3, 5), s=pick(1, 2, 3, 4, 5), pad_h=pick(0, 1, 2),
            pad_w=pick(0, 1, 3), stride_h=pick(1, 2, 3), stride_w=pick(1, 2, 3), dilation_h=pick(1, 2),
            dilation_w=pick(1, 3), layout=pick("NCHW", "NHWC"), bias=pick("no", "yes"),
            activation=pick("none", "relu"))
    assume(made is not None)
    assert made is not None
    return made


@given(problem=problems(), name=st.sampled_from(list(BY_NAME) or ["none"]), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None, derandomize=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_odd_convolutions_are_right_all_over_the_space(
        backends: dict[str, LLVMBackend], problem: Problem, name: str, seed: int) -> None:
    check_sample(backends[name], BY_NAME[name], FAMILY, problem, seed)


def test_every_depthwise_layer_of_a_network_has_a_space_worth_searching() -> None:
    for device in DEVICES:
        for layer in network("mobilenet_v2"):
            if layer["groups"] == 1:
                continue
            for layout in ("NCHW", "NHWC"):
                problem = Problem.make("conv2d", **{**dict(layer), "layout": layout})
                assert FAMILY in kernels_for(problem, device)
                assert 4 <= len(SearchSpace(FAMILY, problem, device)) <= 1000


def test_what_it_does_not_solve_is_refused_with_the_reason() -> None:
    grouped = Problem.make("conv2d", c=8, h=9, w=9, k=8, r=3, s=3, groups=4)
    assert "a group of its own" in str(FAMILY.why_not(grouped, DEVICES[0]))
    multiplied = Problem.make("conv2d", c=8, h=9, w=9, k=16, r=3, s=3, groups=8)
    assert "a group of its own" in str(FAMILY.why_not(multiplied, DEVICES[0]))
    assert "at least 4" in str(FAMILY.why_not(depthwise(3, h=9, w=9, layout="NHWC"), DEVICES[0]))
    assert "fp32" in str(FAMILY.why_not(depthwise(8, h=9, w=9, dtype="fp16"), DEVICES[0]))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_sizes_that_arrive_at_run_time_share_one_source(layout: str) -> None:
    first = depthwise(96, h=56, w=56, pad_h=1, pad_w=1, layout=layout)
    other = depthwise(64, n=3, h=36, w=36, pad_h=1, pad_w=1, layout=layout)
    chosen = SearchSpace(FAMILY, first, DEVICES[0]).default
    assert (llvm_depthwise.IMPLEMENTATION.source(first, DEVICES[0], chosen)
            == llvm_depthwise.IMPLEMENTATION.source(other, DEVICES[0], chosen))
