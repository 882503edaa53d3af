"""Built kernels: functions of arrays and tensors, in place, checked, and right from several threads."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import seqtune
from seqtune.errors import DeviceError, MisuseError
from seqtune.kernels.devices.element_types import decode, encode
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import spaces_for
from seqtune.tuner.backends.opencl.discovery import devices as opencl_devices
from seqtune.tuner.building.built_kernel import BuiltKernel, built_kernel
from seqtune.tuner.building.chosen import Chosen
from tests.support.libraries.stencil import write

CONV = "conv2d c=8 h=9 w=7 k=16 r=3 pad=1"
Arrays = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> BuiltKernel:
    return seqtune.build(CONV, "llvm:0", journal=tmp_path_factory.mktemp("journal") / "none.sqlite")


def operands(kernel: BuiltKernel, seed: int = 0) -> Arrays:
    generator = np.random.default_rng(seed)
    return {place.name: generator.integers(-8, 9, place.shape).astype(np.int8) if place.dtype == "int8" else encode(
        generator.uniform(-1, 1, place.shape).astype(np.float32), place.dtype) for place in kernel.inputs}


def expected(kernel: BuiltKernel, arrays: Arrays) -> NDArray[np.float64]:
    types = {place.name: place.dtype for place in kernel.inputs}
    return operation(kernel.chosen.problem.type).reference(
        kernel.chosen.problem, {name: decode(array, types[name]) for name, array in arrays.items()})


def error(kernel: BuiltKernel, y: NDArray[Any], arrays: Arrays) -> float:
    reference = expected(kernel, arrays)
    return float(abs(decode(y, kernel.outputs[0].dtype) - reference).max() / abs(reference).max())


@pytest.mark.parametrize(("problem", "device"), [
    (CONV, "llvm:1"), ("gemm m=13 n=17 k=11 bias=yes activation=relu", "llvm:0"),
    ("gemm m=12 n=16 k=8 dtype=int8", "llvm:0"), ("gemm m=12 n=16 k=8 dtype=bf16", "llvm:0"),
    ("gemm m=13 n=17 k=11", "opencl:0"), ("conv2d c=8 h=9 w=7 k=16 r=3 pad=1 bias=yes", "opencl:0")])
def test_a_kernel_computes_from_arrays_and_from_packed_constants(problem: str, device: str, tmp_path: Path) -> None:
    try:
        built = seqtune.build(problem, device, journal=tmp_path / "none.sqlite")
    except (DeviceError, seqtune.errors.KernelError) as reason:  # the CPU has no products of bf16 or int8, no OpenCL
        pytest.skip(str(reason))
    arrays = operands(built)
    y = built(*arrays.values())
    assert error(built, y, arrays) < 1e-2
    out = np.empty_like(y)
    constant = list(arrays)[1]
    for seed in (1, 2):
        arrays |= {"x": operands(built, seed)["x"]}
        assert built(**{**arrays, constant: built.pack(arrays[constant])}, out=out) is out
        assert error(built, out, arrays) < 1e-2


def test_tensors_are_taken_in_place_and_answered_with_tensors(kernel: BuiltKernel) -> None:
    torch = pytest.importorskip("torch")
    arrays = operands(kernel)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    y = kernel(**tensors)
    assert error(kernel, y.numpy(), arrays) < 1e-4
    out = torch.empty_like(y)
    assert kernel(tensors["x"], kernel.pack(tensors["weights"]), out=out) is out
    assert torch.equal(out, y)
    with pytest.raises(MisuseError, match=r"x needs gradients, .* give `x\.detach\(\)`"):
        kernel(tensors["x"].clone().requires_grad_(), tensors["weights"])
    with pytest.raises(MisuseError, match="x is not contiguous; its `contiguous"):
        kernel(tensors["x"].transpose(2, 3).contiguous().transpose(2, 3), tensors["weights"])
    with pytest.raises(MisuseError, match="x is a view whose signs are not changed yet; its `resolve_neg"):
        kernel(torch._neg_view(tensors["x"]), tensors["weights"])
    with pytest.raises(MisuseError, match="x has no memory"):
        kernel(torch._efficientzerotensor(tensors["x"].shape), tensors["weights"])


def test_operands_that_do_not_suit_are_refused_in_a_line(kernel: BuiltKernel) -> None:
    x, weights = operands(kernel).values()
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    y = np.zeros((2 * 16 * 9 * 7,), np.float32)
    for given, named, message in (
            ((x,), {}, "the kernel takes x, weights; 1 are given"), ((x, weights, x), {}, "3 are given"),
            ((kernel.pack(weights), weights), {}, "x is the packed weights; give an array"),
            ((x,), {"filter": weights}, "filter is none of them"), ((x, weights), {"x": x}, "x is given twice"),
            ((x.astype(np.float64), weights), {}, "x is float64 of the shape .*; the kernel takes float32"),
            ((x[:, :4], weights), {}, "x is float32 of the"), ((x[..., ::-1], weights), {}, "x is not contiguous"),
            ((unaligned, weights), {}, "x is not aligned"), ((x.tolist(), weights), {}, "x is a list; give"),
            ((x, weights), {"out": {"z": y}}, "out has z; the outputs are y"),
            ((y[:x.size].reshape(x.shape), weights), {"out": y[8:8 + 16 * 63].reshape(1, 16, 9, 7)}, "overlaps x"),
            ((x, seqtune.build("gemm m=4 n=4 k=4", "llvm:0").pack(np.zeros((4, 4), np.float32))), {},
             "packed for another kernel")):
        with pytest.raises(MisuseError, match=message):
            kernel(*given, **named)
    frozen = kernel(x, weights)
    frozen.flags.writeable = False
    with pytest.raises(MisuseError, match="y is read-only"):
        kernel(x, weights, out=frozen)
    with pytest.raises(MisuseError, match=r"x is a masked array, .*; give its `filled\(...\)`"):
        kernel(np.ma.masked_less(x, 0), weights)


def test_calls_from_several_threads_are_right(kernel: BuiltKernel) -> None:
    errors: list[float] = []
    weights = operands(kernel)["weights"]
    packed = kernel.pack(weights)

    def work(seed: int) -> None:
        arrays = {"x": operands(kernel, seed)["x"], "weights": weights}
        reference = expected(kernel, arrays)
        errors.extend(float(abs(kernel(arrays["x"], packed) - reference).max()) for _ in range(40))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 120
    assert max(errors) < 1e-3


def test_threads_and_code_are_freed_with_the_object(tmp_path: Path) -> None:
    before = threading.active_count()
    try:
        built = seqtune.build("gemm m=4 n=4 k=4", "llvm:sse:2", journal=tmp_path / "none.sqlite")
    except DeviceError as reason:
        pytest.skip(str(reason))
    assert threading.active_count() == before + 1
    runner = weakref.ref(built._runner)
    del built
    gc.collect()
    assert runner() is None
    assert threading.active_count() == before


def test_a_device_that_is_not_here_has_the_source_alone(tmp_path: Path) -> None:
    built = seqtune.build("gemm m=64 n=64 k=64 dtype=fp16", "cuda:h100", journal=tmp_path / "none.sqlite")
    assert "__global__" in built.source
    assert str(built.launches[0]["entry"]) in built.source
    with pytest.raises(DeviceError, match="cuda:h100 is not here, so the kernel can be read and saved, and not be run"):
        built(*(np.zeros((64, 64), np.float16) for _ in built.inputs))


FORKED = """
import os, sys, numpy, seqtune
kernel = seqtune.build("gemm m=3 n=5 k=4", sys.argv[1], journal=sys.argv[2])
x, weights = numpy.ones((3, 4), "f4"), numpy.ones((4, 5), "f4")
before = kernel(x, weights)
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for run in (kernel, lambda *operands: seqtune.build("gemm m=3 n=5 k=4", sys.argv[1], journal=sys.argv[2])(*operands)):
    try:
        print((run(x, weights) == before).all())
    except seqtune.errors.MisuseError as error:
        print(error)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
@pytest.mark.parametrize("device", ["llvm:0", "opencl:0"])
def test_a_forked_process_computes_on_one_thread_or_is_refused(device: str, tmp_path: Path) -> None:
    if device == "opencl:0" and not opencl_devices():
        pytest.skip("no OpenCL device")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED, device, str(tmp_path / "none.sqlite")],
                          capture_output=True, text=True, timeout=100, check=False)
    refusal = "opencl:.* was opened before this process was forked, which its driver does not survive; use a process"
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 2), done.stderr
    assert all(re.match("True$" if device == "llvm:0" else refusal, line) for line in lines), lines


IN_PLACE = """name = "inplace"
[operations.quadruple]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = {shape = "n", values = "copy of x"}, z = {shape = "n", values = 2}}
[operations.twice]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = {shape = "n", values = "copy of x"}}
[kernels.k]
operation = "quadruple"
parameters = {block = [1]}
[kernels.k.opencl]
text = '''kernel void k(global float *y, global float *z, global const float *x) {
    int i = get_global_id(0); y[i] *= 4 * block; z[i] += x[i]; }'''
entry = "k"
arguments = ["y", "z", "x"]
global = ["n"]
[kernels.alone]
operation = "twice"
parameters = {block = [1]}
[kernels.alone.opencl]
text = "kernel void alone(global float *y) { y[get_global_id(0)] *= 2 * block; }"
entry = "alone"
arguments = ["y"]
global = ["n"]
"""


def test_outputs_that_a_kernel_changes_begin_as_they_are_declared(tmp_path: Path) -> None:
    if not opencl_devices():
        pytest.skip("no OpenCL device")
    use(read_library(write(tmp_path, IN_PLACE)))

    def in_place(text: str) -> BuiltKernel:
        problem, device = parse_problem(text), opencl_devices()[0]
        space = spaces_for(problem, device)[0]
        return built_kernel(Chosen(problem.type, problem, device, space.kernel, space[0], "a test"))

    kernel = in_place("quadruple n=4")
    x = np.arange(4, dtype=np.float32)
    for _ in range(2):
        result = kernel(x)
        assert result["y"].tolist() == [0, 4, 8, 12]
        assert result["z"].tolist() == [2, 3, 4, 5]
    given = {"y": np.ones(4, np.float32), "z": np.zeros(4, np.float32)}
    kernel(x, out=given)
    assert given["y"].tolist() == [4, 4, 4, 4]
    with pytest.raises(MisuseError, match="the outputs y and z overlap; give each an array of its own"):
        kernel(x, out={"y": given["y"], "z": given["y"]})
    twice = in_place("twice n=4")  # its code takes y alone
    assert twice(x).tolist() == [0, 2, 4, 6]
    twice.save(tmp_path / "out")
    assert "int twice(struct twice *kernel, const float *x, float *y);" in (tmp_path / "out" / "twice.h").read_text()


def test_the_winner_of_an_answer_is_built(tmp_path: Path) -> None:
    answer = seqtune.predict("gemm m=13 n=17 k=11", "llvm:0", journal=tmp_path / "none.sqlite")
    built = answer.winner.build()
    assert built.chosen.configuration == answer.winner.configuration
    arrays = operands(built)
    assert error(built, built(**arrays), arrays) < 1e-4
