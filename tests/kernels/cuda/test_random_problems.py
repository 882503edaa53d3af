"""Random small problems, GPUs and configurations of the tensor-core families compute right numbers on the shim."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seqtune.errors import ProblemError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.measuring.timing import prepare
from tests.support.cuda.shim import run_on_shim, why_not_here

FAMILIES = ("cuda.tensor_gemm", "cuda.tensor_convolution", "cuda.wgmma_gemm")
GPUS = ("a100", "h200", "rtx-4090", "t4", "rtx-5090")  # an architecture each
SAMPLES = 3  # of each family; more seeds find more
MOST_TRIES = 1000  # problems drawn before a family counts as one that solves none


def draw(family: Kernel, generator: np.random.Generator) -> SearchSpace:
    """A random space of the family that is not empty."""
    def pick(*values: Any) -> Any:
        return values[generator.integers(len(values))]

    for _ in range(MOST_TRIES):
        device = described(family.backends[0], pick(*GPUS))
        if device is not None and pick(False, True):  # so few that persistent blocks take several tiles
            device = replace(device, compute_units=pick(2, 3, 5))
        features = product(pick) if family.operation == "gemm" else convolution(pick)
        features |= {"dtype": pick("fp16", "bf16"), "bias": pick("no", "yes"), "activation": pick("none", "relu")}
        with suppress(ProblemError):  # a filter larger than the input
            problem = Problem.make(family.operation, **features)
            if device is not None and family.why_not(problem, device) is None and len(
                    space := SearchSpace(family, problem, device)):
                return space
    raise AssertionError(f"{family.name} solves none of {MOST_TRIES} random problems on {', '.join(GPUS)}")


def product(pick: Any) -> dict[str, Any]:
    """The features of a matrix product of any divisibility."""
    return {"m": pick(1, 8, 33, 64, 100, 128, 257), "n": pick(1, 8, 40, 64, 99, 130, 200, 264),
            "k": pick(1, 16, 36, 64, 77, 130, 256, 500, 1024), "trans_a": pick("no", "yes"),
            "trans_b": pick("no", "yes")}


def convolution(pick: Any) -> dict[str, Any]:
    """The features of a convolution with odd sizes, strides, dilations and groups, or of a plain one."""
    groups, r, s = pick(1, 1, 2, 3), pick(1, 1, 3, 5), pick(1, 1, 3, 4)
    plain = pick(False, True)
    return {"n": pick(1, 2, 3), "c": groups * pick(1, 3, 4, 8, 16, 30, 64), "k": groups * pick(8, 18, 32, 40, 72, 130),
            "groups": groups, "r": r, "s": r if plain else s, "h": pick(1, 7, 13, 16), "w": pick(8, 9, 11, 16, 24),
            "pad_h": pick(0, 1, 2), "pad_w": pick(0, 1, 2), "layout": pick("NCHW", "NHWC"),
            **dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w"), 1),
            **({} if plain else {"stride_h": pick(1, 2, 3), "stride_w": pick(1, 2), "dilation_h": pick(1, 2),
                                 "dilation_w": pick(1, 2)})}


@pytest.mark.slow
@pytest.mark.skipif(why_not_here() is not None, reason=why_not_here() or "")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("sample", range(SAMPLES))
def test_a_random_configuration_of_a_random_problem_is_right(name: str, sample: int) -> None:
    generator = np.random.default_rng((0, sample))
    space = draw(kernel(name), generator)
    configuration = space[int(generator.integers(len(space)))]
    operands, expected = prepare(space.problem, sample)
    error = expected.error(run_on_shim(space.kernel, space.problem, space.device, configuration, sample, operands))
    assert error <= expected.tolerance, f"{space.problem.brief()} on {space.device.name}: {configuration.brief()}"
