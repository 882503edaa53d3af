"""seqtune.clblast: products by CLBlast with predicted or chosen parameters, and the library on the command line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import seqtune.clblast
from seqtune import api
from seqtune.api.library import use_library
from seqtune.errors import ConfigurationError, MisuseError, UnavailableError
from seqtune.integrations.clblast.backend.shared_library import load_clblast
from seqtune.integrations.clblast.hook import products
from seqtune.integrations.clblast.kernels import xgemm
from seqtune.kernels import registry
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.tuner.backends.opencl import discovery
from tests.support.command_line import Run
from tests.support.oddities import CPU

QUICK = {"GEMMK": 1, "MWG": 16, "NWG": 16, "MDIMC": 4, "NDIMC": 4, "VWM": 4, "VWN": 1, "KREG": 1}  # to compile


@pytest.fixture
def queue() -> Any:
    """A queue of the first OpenCL device on a machine with CLBlast."""
    if (reason := discovery.unavailable()) is not None:
        pytest.skip(reason)
    try:
        load_clblast()
    except UnavailableError as error:
        pytest.skip(str(error))
    cl = discovery.load()
    device = discovery.handle(discovery.devices()[0].name)
    return cl.CommandQueue(cl.Context([device]))


def quick(queue: Any, problem: Problem) -> Configuration:
    return SearchSpace(xgemm.KERNEL, problem, products.device_of(queue)).nearest(QUICK)


@pytest.mark.device
def test_a_product_of_arrays_is_right_with_turned_operands_and_scales(queue: Any) -> None:
    import pyopencl.array

    generator = np.random.default_rng(0)
    a, b, c = (generator.standard_normal(shape, np.float32) for shape in ((17, 33), (20, 17), (33, 20)))
    problem = Problem.make("gemm", m=33, n=20, k=17, trans_a="yes", trans_b="yes")
    seqtune.clblast.choose(queue, problem, quick(queue, problem))
    held = [pyopencl.array.to_device(queue, array) for array in (a, b, c)]
    result = seqtune.clblast.gemm(queue, *held, trans_a=True, trans_b=True, alpha=2.0, beta=0.5)
    assert result is held[2]
    assert np.allclose(result.get(), 2 * a.T @ b.T + 0.5 * c, atol=1e-4)
    buffers = [array.base_data for array in held]
    seqtune.clblast.gemm(queue, *buffers, trans_a=True, trans_b=True, sizes=(33, 20, 17))
    assert np.allclose(held[2].get(), a.T @ b.T, atol=1e-4)
    assert seqtune.clblast.parameters(queue, problem) == quick(queue, problem)


@pytest.mark.device
def test_shapes_types_and_values_that_do_not_fit_are_refused(queue: Any) -> None:
    import pyopencl.array

    a, b = (pyopencl.array.zeros(queue, (4, 6), np.float32) for _ in range(2))
    with pytest.raises(MisuseError, match="A has 6 columns and B 4 rows"):
        seqtune.clblast.gemm(queue, a, b)
    with pytest.raises(MisuseError, match="a must be a pyopencl array of float32"):
        seqtune.clblast.gemm(queue, a.astype(np.float64), b)
    with pytest.raises(MisuseError, match="name the buffer `c`"):
        seqtune.clblast.gemm(queue, a.base_data, b.base_data, sizes=(4, 4, 6))
    with pytest.raises(MisuseError, match=r"c has the shape \(4, 6\)"):
        seqtune.clblast.gemm(queue, a, b, a, trans_b=True)
    problem = Problem.make("gemm", m=4, n=4, k=6)
    wrong = Configuration.of("clblast.xgemm", {**dict(quick(queue, problem).settings), "VWM": 3})
    with pytest.raises(ConfigurationError, match="VWM=3 is not one of"):
        seqtune.clblast.choose(queue, problem, wrong)


def test_the_library_replaces_our_products_and_nothing_else_only_where_it_is_in_use() -> None:
    product, convolution = Problem.make("gemm", m=64, n=64, k=64), Problem.make("conv2d", c=8, h=9, w=9, k=8, r=3, s=3)
    before = Task.of(product, CPU), Task.of(convolution, CPU)
    assert {kernel.name for kernel in before[0].kernels} == {"opencl.gemm"}
    use_library("clblast")
    assert {kernel.name for kernel in Task.of(product, CPU).kernels} == {"clblast.xgemm", "clblast.xgemm_direct"}
    assert Task.of(convolution, CPU).kernels == before[1].kernels
    assert "opencl.gemm" in registry.names()


def test_the_shipped_checkpoint_answers_where_the_library_is_named() -> None:
    use_library("clblast")
    answer = api.predict("gemm m=128 n=512 k=256", CPU, top=5, evidence=False)
    assert answer.predictor == "clblast"
    assert len(answer.candidates) == 5
    kernels = {proposal.configuration.kernel for proposal in answer.candidates}
    assert kernels <= {"clblast.xgemm", "clblast.xgemm_direct"}
    assert answer.default.configuration.kernel == "clblast.xgemm_direct"


def test_the_command_line_shows_the_kernels_of_the_library(run: Run) -> None:
    (shown,) = run("kernels", "clblast.xgemm", "--library", "clblast")["kernels"]
    assert shown["name"] == "clblast.xgemm"
    assert "CLBlastSgemm" in shown["includes"]
