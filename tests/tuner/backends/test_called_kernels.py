"""Called kernels on an OpenCL device: types, local memory, workspaces, several launches and outputs, stray writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import ELEMENT_TYPES
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.c_types import DECLARABLE
from seqtune.kernels.launches.call_declaration import CallDeclaration
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.backend import BuildError, LaunchError
from seqtune.tuner.backends.called_executable import CalledExecutable
from seqtune.tuner.backends.opencl.backend import OpenCLBackend

pytestmark = pytest.mark.device
PROBLEM = Problem.make("gemm", m=8, n=4, k=2)
CONFIGURATION = Configuration.of("mine.kernel", {"block": 4})
C_NAMES = {dtype: ELEMENT_TYPES[dtype].opencl for dtype in DECLARABLE}


def built(backend: OpenCLBackend, text: str, arguments: list[str], tensors: Tensors,
          **more: Any) -> CalledExecutable:
    sizes: dict[str, Any] = {"global_size": ["m"], "local": ["block"], **more}
    declaration = CallDeclaration.of("opencl", text, "go", arguments, **sizes)
    call = declaration.call(PROBLEM, backend.device, CONFIGURATION, tensors)
    return CalledExecutable(backend.calls, call, tensors)


def ran(executable: CalledExecutable, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    executable.load(arrays)
    executable.poison()
    executable.run()
    assert executable.overrun() is None
    outputs = executable.outputs()
    executable.close()
    return outputs


def test_every_type_reaches_the_kernel_and_comes_back(backend: OpenCLBackend) -> None:
    types = [dtype for dtype in DECLARABLE if dtype != "fp16"]
    parameters = [f"__global const {C_NAMES[dtype]} *x{dtype}, __global {C_NAMES[dtype]} *y{dtype}, "
                  f"{C_NAMES[dtype]} n{dtype}" for dtype in types]
    body = " ".join(f"y{dtype}[i] = x{dtype}[i] + n{dtype} + block;" for dtype in types)
    text = f"__kernel void go({', '.join(parameters)}) {{ int i = get_global_id(0); {body} }}"
    arguments = [word for dtype in types for word in (f"x{dtype}", f"y{dtype}", f"{C_NAMES[dtype]} n")]
    tensors = Tensors({f"x{dtype}": Tensor((8,), dtype) for dtype in types},
                      {f"y{dtype}": Tensor((8,), dtype, None) for dtype in types})
    arrays = {f"x{dtype}": np.arange(8).astype(ELEMENT_TYPES[dtype].stored) for dtype in types}
    outputs = ran(built(backend, text, arguments, tensors), arrays)
    assert all((outputs[f"y{dtype}"] == arrays[f"x{dtype}"] + 8).all() for dtype in types)


def test_local_memory_workspaces_and_outputs_are_bound_in_the_order_of_the_arguments(backend: OpenCLBackend) -> None:
    text = """__kernel void go(__global int *sums, __local int *part, __global int *scratch, __global int *copy,
                               __global const int *x) {
        int i = get_global_id(0), l = get_local_id(0);
        part[l] = x[i]; scratch[i] = i; barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        copy[i] = part[block - 1 - l] + scratch[i] - i;
        if (l == 0) { int s = 0; for (int j = 0; j < block; j++) s += part[j]; sums[get_group_id(0)] = s; } }"""
    tensors = Tensors({"x": Tensor((8,), "int32")}, {"sums": Tensor((2,), "int32", None),
                                                     "copy": Tensor((8,), "int32", None)})
    arguments = ["sums", "local int block", "workspace int m", "copy", "x"]
    outputs = ran(built(backend, text, arguments, tensors), {"x": np.arange(8, dtype=np.int32)})
    assert outputs["sums"].tolist() == [6, 22]
    assert outputs["copy"].tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_launches_follow_each_other_and_may_swap_buffers(backend: OpenCLBackend) -> None:
    text = """__kernel void go(__global const float *from, __global float *to, int launch) {
        int i = get_global_id(0); to[i] = from[i] * 2 + launch; }"""
    tensors = Tensors({"x": Tensor((8,))}, {"y": Tensor((8,), "fp32", None)})
    arguments = ["x if launch % 2 == 0 else y", "y if launch % 2 == 0 else x", "int launch"]
    executable = built(backend, text, arguments, tensors, launches="3")
    x = np.ones(8, np.float32)
    assert (ran(executable, {"x": x})["y"] == ((1 * 2 + 0) * 2 + 1) * 2 + 2).all()


def test_an_output_with_contents_is_reset_before_the_check_and_others_are_poisoned(backend: OpenCLBackend) -> None:
    text = "__kernel void go(__global int *y, __global float *z) { y[get_global_id(0)] += 1; }"
    tensors = Tensors({}, {"y": Tensor((8,), "int32", "index"), "z": Tensor((8,), "fp32", None)})
    executable = built(backend, text, ["y", "z"], tensors)
    executable.load({"y": np.arange(8, dtype=np.int32)})
    for _ in range(2):
        executable.poison()
        executable.run()
        outputs = executable.outputs()
        assert outputs["y"].tolist() == list(range(1, 9))
        assert np.isnan(outputs["z"]).all()
    assert executable.time(3) > 0
    executable.close()
    executable.close()


@pytest.mark.parametrize(("index", "kind"), [("8", "char"), ("-1", "int"), ("-1", "double")])
def test_writes_beside_a_buffer_are_seen(backend: OpenCLBackend, index: str, kind: str) -> None:
    text = f"""__kernel void go(__global {kind} *y) {{ int i = get_global_id(0); y[i] = 1;
        if (i == 0) y[{index}] = 1; }}"""
    dtype = {"char": "int8", "int": "int32", "double": "fp64"}[kind]
    executable = built(backend, text, ["y"], Tensors({}, {"y": Tensor((8,), dtype, None)}))
    executable.poison()
    executable.run()
    assert executable.overrun() == "y"
    executable.close()


@pytest.mark.parametrize(("arguments", "more", "kind", "message"), [
    (["y"], {"global_size": ["10"]}, LaunchError, "cannot be divided into groups"),
    (["y"], {"global_size": ["1 << 20"], "local": ["1 << 20"]}, LaunchError, "exceeds the device's limit"),
    (["y", "local float 1 << 30"], {"text": "__global float *y, __local float *p"}, LaunchError, "local memory"),
    (["y", "int n"], {}, LaunchError, "takes 1 arguments, and 2 are declared"),
    (["int n"], {}, LaunchError, "another type"),
    (["y"], {"text": "nonsense *y"}, BuildError, "nonsense"),
    (["y"], {"name": "other"}, BuildError, "no kernel 'go'; it has other"),
])
def test_calls_that_the_device_cannot_run_are_refused(
        backend: OpenCLBackend, arguments: list[str], more: dict[str, Any], kind: type[Exception],
        message: str) -> None:
    more = dict(more)
    text = f"__kernel void {more.pop('name', 'go')}({more.pop('text', '__global float *y')}) {{ y[0] = 1; }}"
    with pytest.raises(kind, match=message):
        built(backend, text, arguments, Tensors({}, {"y": Tensor((8,), "fp32", None)}), **more)
