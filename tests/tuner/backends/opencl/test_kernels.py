"""The opencl kernel families compute correct results for odd shapes and all kinds of configurations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqtune.kernels.kernel import Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from tests.support.exactness import check
from tests.support.oddities import random_convolution

MOST_SHAPES = 200  # drawn until all kinds of configurations were chosen
SHAPES = 4  # odd convolutions of a family; PoCL takes half a second for each configuration


def _space(backend: OpenCLBackend, name: str, problem: Problem) -> SearchSpace:
    """The space on a device with a small cache, which holds configurations that larger caches exclude."""
    return SearchSpace(kernel(name), problem, replace(backend.device, l2_bytes=0))


DIRECT: list[dict[str, int | str]] = [
    {"vector": 16, "vectors_k": 1, "tile_w": 7, "tile_h": 1, "border": "peel", "chunk": 1, "piece": 0},
    {"vector": 16, "vectors_k": 1, "tile_w": 4, "tile_h": 1, "border": "peel", "chunk": 4, "piece": 32},
    {"vector": 8, "vectors_k": 2, "tile_w": 4, "tile_h": 2, "border": "copy", "chunk": 0, "piece": 32},
    {"vector": 8, "vectors_k": 2, "tile_w": 4, "tile_h": 2, "border": "copy", "inner": "row", "order": "channels"}]


@pytest.mark.slow
@pytest.mark.device
def test_the_direct_convolution_is_right_on_odd_shapes(backend: OpenCLBackend) -> None:
    generator = np.random.default_rng(3)
    seen: set[tuple[str, Setting]] = set()
    for number, problem in enumerate(random_convolution(generator) for _ in range(SHAPES)):
        space = _space(backend, "opencl.direct", problem)
        chosen = {space.nearest(settings) for settings in DIRECT[number % 2::2]}
        check(backend, space.kernel, problem, chosen)
        seen.update(*(configuration.settings for configuration in chosen))
    assert seen >= {("border", "peel"), ("inner", "row"), ("piece", 32), ("chunk", 4), ("chunk", 0)}


@pytest.mark.parametrize("settings", DIRECT)
@pytest.mark.parametrize("shape", [
    {"w": 7, "s": 3, "pad_w": 1}, {"w": 14, "s": 3, "pad_w": 1, "stride_w": 2}, {"w": 15, "s": 2, "pad_w": 1},
    {"w": 13, "s": 3, "pad_w": 2, "stride_w": 2}, {"w": 9, "s": 3, "pad_w": 1, "dilation_w": 3, "dilation_h": 2},
    {"w": 5, "s": 5, "pad_w": 1, "stride_w": 2}])
@pytest.mark.device
def test_a_peeled_border_is_like_zeros(backend: OpenCLBackend, shape: dict[str, int],
                                       settings: dict[str, int | str]) -> None:
    for pad_h in (0, 3):
        problem = Problem.make("conv2d", **{"n": 2, "c": 64, "h": 9, "k": 20, "r": 3, "pad_h": pad_h, **shape})
        space = _space(backend, "opencl.direct", problem)
        check(backend, space.kernel, problem, [space.nearest(settings)])


IMPLICIT: list[dict[str, int | str]] = [
    {"local_a": a, "local_b": b, "vector": 16, "vectors_n": 1, "tile_m": 8, "group_m": m, "group_n": n,
     "block_k": 8 if a or b else 0, "order": order}
    for a, b, m, n, order in ((0, 0, 1, 1, "channels"), (1, 0, 4, 1, "pixels"), (0, 1, 4, 1, "pixels"),
                              (1, 1, 1, 4, "pixels"))]


@pytest.mark.slow
@pytest.mark.device
def test_the_implicit_gemm_is_right_on_odd_shapes_with_and_without_local_memory(backend: OpenCLBackend) -> None:
    family = kernel("opencl.implicit_gemm")
    generator = np.random.default_rng(4)
    seen: set[tuple[int | str, int | str]] = set()
    for number, problem in enumerate(random_convolution(generator) for _ in range(MOST_SHAPES)):
        if number >= SHAPES and len(seen) == len(IMPLICIT):
            break
        if family.why_not(problem, backend.device) is None:
            space = SearchSpace(family, problem, backend.device)
            chosen = {space.nearest(settings) for settings in IMPLICIT[number % 2::2]}
            if number >= SHAPES:  # few shapes have room for local memory: only what was not seen yet is compiled
                chosen = {one for one in chosen if (one["local_a"], one["local_b"]) not in seen}
            check(backend, family, problem, chosen)
            seen.update((configuration.number("local_a"), configuration.number("local_b")) for configuration in chosen)
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.device
def test_any_configuration_of_a_convolution_is_right(backend: OpenCLBackend, layout: str) -> None:
    problem = Problem.make("conv2d", n=2, c=64, h=17, w=31, k=70, r=3, s=3, pad_h=1, pad_w=1, layout=layout)
    for name in ("opencl.direct", "opencl.implicit_gemm"):
        space = _space(backend, name, problem)
        check(backend, space.kernel, problem, space.sample(np.random.default_rng(5), 2))


@pytest.mark.device
def test_the_matrix_product_is_right_on_odd_shapes(backend: OpenCLBackend) -> None:
    family = kernel("opencl.gemm")
    for m, n, k in ((1, 5, 3), (37, 50, 512), (64, 3, 70), (5, 200, 1)):
        for trans_a, trans_b, epilogue in (("no", "yes", False), ("yes", "no", True)):
            problem = Problem.make("gemm", m=m, n=n, k=k, trans_a=trans_a, trans_b=trans_b,
                                   bias="yes" if epilogue else "no", activation="relu" if epilogue else "none")
            space = _space(backend, "opencl.gemm", problem)
            check(backend, family, problem, [
                space.default, space.nearest({"order": "columns", "vectors_n": 2, "piece": 256})])
