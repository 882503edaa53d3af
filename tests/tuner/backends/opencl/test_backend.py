"""The opencl backend: it refuses with a reason, and builds equal sources once."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seqtune.data.record import Status
from seqtune.kernels.c_text.gemm import Panels
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call import Call, CallStep
from seqtune.kernels.launches.entry_arguments import entry_arguments
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import BuildError, LaunchError
from seqtune.tuner.backends.called_executable import CalledExecutable
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from seqtune.tuner.measuring.timing import check, prepare


@pytest.mark.device
def test_equal_sources_are_built_once_for_many_problems(backend: OpenCLBackend) -> None:
    family = kernel("opencl.direct")
    backend.programs.clear()
    programs = []
    for size in (36, 65):
        problem = Problem.make("conv2d", n=size % 2 + 1, c=size, h=size, w=size, k=size, r=size % 4 + 1, s=3, pad_h=1)
        executable = backend.build(problem, family, SearchSpace(family, problem, backend.device).default)
        programs.append(next(iter(backend.programs.values())))
        executable.close()
    assert programs[0] is programs[1]
    assert len(backend.programs) == 1


class _Planted:
    includes = ""

    def __init__(self, body: str, local_size: int = 1) -> None:
        self.body, self.local_size = body, local_size

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        source = KernelSource("__kernel void planted(__global float *x, __global float *weights, __global float *bias,"
                              f" __global float *y, __global float *workspace, int n) {{ {self.body} }}")
        arguments = entry_arguments(problem, [problem.size("m") * problem.size("n")], workspace=8)
        return Call(source, (CallStep("planted", arguments, (self.local_size,), (self.local_size,)),))


@pytest.fixture
def plant(backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> Callable[..., CalledExecutable]:
    def build(body: str, local_size: int = 1, features: Mapping[str, str] | None = None) -> CalledExecutable:
        module = types.ModuleType("planted_kernel")
        module.it = _Planted(body, local_size)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "planted_kernel", module)
        problem = Problem.make("gemm", m=4, n=4, k=4, **{"bias": "yes", **(features or {})})
        family = replace(kernel("opencl.gemm"), implementation="planted_kernel:it")
        return backend.build(problem, family, Configuration.of("opencl.gemm", {}))

    return build


def test_a_kernel_that_does_not_compile_is_a_build_error(plant: Callable[..., Any]) -> None:
    with pytest.raises(BuildError, match="nonsense"):
        plant("nonsense;")


@pytest.mark.device
def test_a_work_group_beyond_the_limit_is_a_launch_error(plant: Callable[..., Any], backend: OpenCLBackend) -> None:
    with pytest.raises(LaunchError, match="work-group"):
        plant("y[0] = 0.0f;", local_size=backend.device.max_work_group * 2)


@pytest.mark.device
def test_local_memory_beyond_the_limit_is_a_launch_error(plant: Callable[..., Any], backend: OpenCLBackend) -> None:
    small = plant("__local float few[16]; few[n & 15] = n; barrier(CLK_LOCAL_MEM_FENCE); y[0] = few[n & 15];")
    program = next(reversed(backend.programs.values()))
    entry = backend.cl.Kernel(program, "planted")
    reported = entry.get_work_group_info(backend.cl.kernel_work_group_info.LOCAL_MEM_SIZE, backend.handle)
    small.close()
    if not reported:  # such as PoCL 5.0 for CPUs; a launch beyond the limit ends the process
        pytest.skip("this OpenCL runtime does not say how much local memory a kernel needs")
    floats = backend.device.local_memory // 2
    with pytest.raises((LaunchError, BuildError)):  # some compilers refuse it themselves
        plant(f"__local float big[{floats}]; big[n] = n; barrier(CLK_LOCAL_MEM_FENCE); y[0] = big[n];")


@pytest.mark.parametrize(("write", "buffer"), [
    ("y[n]", "y"), ("y[-1]", "y"), ("x[-5]", "x"), ("weights[16]", "weights"), ("bias[4]", "bias"),
    ("workspace[8]", "workspace")])
def test_a_write_outside_a_buffer_is_detected(plant: Callable[..., Any], write: str, buffer: str) -> None:
    executable = plant(f"{write} = 1.0f;")
    executable.poison()
    assert executable.overrun() is None
    executable.run()
    assert executable.overrun() == buffer
    executable.poison()
    assert executable.overrun() is None
    executable.close()


def test_an_output_that_was_not_written_stays_poisoned(plant: Callable[..., Any]) -> None:
    executable = plant("y[0] = 1.0f;")
    executable.poison()
    executable.run()
    assert np.isnan(executable.outputs()["y"]).sum() == 15
    executable.close()


@pytest.mark.device
def test_what_the_problem_does_not_have_is_a_null_address(plant: Callable[..., Any]) -> None:
    executable = plant("y[0] = bias == 0; y[1] = x == 0;", features={"bias": "no"})
    executable.run()
    assert executable.outputs()["y"].ravel()[:2].tolist() == [1, 0]
    executable.close()


@pytest.mark.device
def test_read_only_weights_are_packed_once_for_configurations_that_read_them_alike(
        backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[Panels] = []
    pack = Panels.pack

    def counted(panels: Panels, array: Array) -> Array:
        packed.append(panels)
        return pack(panels, array)

    monkeypatch.setattr(Panels, "pack", counted)
    problem, family = Problem.make("gemm", m=16, n=32, k=5), kernel("opencl.gemm")
    default = SearchSpace(family, problem, backend.device).default
    operands, expected = prepare(problem)
    for order in ("rows", "columns"):
        executable = backend.build(problem, family, Configuration.of(
            family.name, {**dict(default.settings), "order": order}))
        assert check(executable, operands, expected)[0].status is Status.CORRECT
        executable.close()
    assert len(packed) == 2  # once for the size, once for the array
