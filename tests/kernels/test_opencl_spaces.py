"""Spaces of the opencl kernels: worth searching, and few sources."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace, spaces_for
from tests.support.oddities import CPU, GPU, random_convolution


@pytest.mark.parametrize("device", [CPU, replace(CPU, vector_bits=256, vector_registers=16), GPU])
@pytest.mark.parametrize("shape", [
    {"c": 64, "h": 56, "w": 56, "k": 64, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1},
    {"c": 64, "h": 56, "w": 56, "k": 64, "r": 1, "s": 1},
    {"c": 512, "h": 7, "w": 7, "k": 512, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1}])
def test_spaces_are_worth_searching_and_can_be_exhausted(device: Device, shape: dict[str, int]) -> None:
    spaces = spaces_for(Problem.make("conv2d", **shape), device)
    assert 500 <= sum(map(len, spaces)) <= (2000 if device.threads else 8000)
    for space in spaces:
        assert space.default in space
        assert all(np.isfinite(column).all() for column in space.columns().values() if column.dtype.kind in "if")


def test_every_problem_has_a_configuration_on_every_kind_of_device() -> None:
    generator = np.random.default_rng(11)
    problems = [random_convolution(generator) for _ in range(100)]
    problems += [Problem.make("gemm", m=m, n=n, k=2) for m in (1, 2, 3, 5, 100) for n in (1, 3, 4, 7, 8, 15, 16, 100)]
    for device in (CPU, replace(CPU, vector_bits=128, vector_registers=16), GPU):
        for problem in problems:
            family = kernel("opencl.gemm" if problem.type == "gemm" else "opencl.direct")
            assert len(SearchSpace(family, problem, device)) > 0, problem.brief()


def test_the_sources_of_many_problems_are_few() -> None:
    family = kernel("opencl.direct")
    builds = set()
    for size in range(14, 28):
        problem = Problem.make("conv2d", n=size % 3 + 1, c=4, h=2 * size, w=size, k=64, r=3, s=size % 4 + 1, pad_h=1)
        for configuration in SearchSpace(family, problem, CPU):
            builds.add((call_of(family, problem, CPU, configuration).source, configuration["work_group"]))
    assert len(builds) <= 300


@pytest.mark.parametrize(("features", "reason"), [({"dtype": "fp16"}, "only fp32"),
                                                  ({"direction": "backward_data"}, "only the forward direction")])
def test_what_is_not_solved_is_refused_with_a_reason(features: dict[str, str], reason: str) -> None:
    problem = Problem.make("conv2d", c=4, h=4, w=4, k=4, r=1, s=1, **features)
    assert reason in str(kernel("opencl.direct").why_not(problem, CPU))
