"""Contents that a launch changes are restored before the next one: OpenCL, the stand-ins of CUDA and Triton, T1."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.data.record import Status
from seqtune.kernels.launches.call_declaration import CallDeclaration
from seqtune.kernels.launches.contents import all_contents
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import Restoring
from seqtune.tuner.backends.called_executable import CalledExecutable
from seqtune.tuner.backends.cuda.calls import CudaCalls
from seqtune.tuner.backends.cuda.compiler import Image
from seqtune.tuner.backends.cuda.driver import Driver, Gpu
from seqtune.tuner.backends.cuda.resources import Resources
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from seqtune.tuner.measuring.expected_outputs import ExpectedOutputs, prepare_arrays
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options, check_and_time
from tests.support.cuda.fake_pycuda import KERNEL_SECONDS, FakeCuda, FakeLibCuda
from tests.support.devices import described_gpu
from tests.tuner.backends.test_called_kernels import CONFIGURATION, PROBLEM, built

SCAN = """__kernel void go(__global int *y) {
    for (int i = 1; i < 8; i++) y[i] += y[i - 1];
}"""


def launched(executable: CalledExecutable, arrays: Mapping[str, NDArray[Any]]) -> list[dict[str, NDArray[Any]]]:
    """The outputs after the check's launch, after launches that warm, and after timed ones."""
    executable.load(arrays)
    outputs = []
    executable.poison()
    for launch in (executable.run, executable.run, lambda: executable.time(1), lambda: executable.time(3)):
        launch()
        assert executable.overrun() is None
        outputs.append(executable.outputs())
    return outputs


@pytest.mark.device
@pytest.mark.parametrize("dtype", ["int32", "fp32", "uint8"])
def test_a_scan_in_place_begins_every_launch_with_the_same_numbers(backend: OpenCLBackend, dtype: str) -> None:
    kind = {"int32": "int", "fp32": "float", "uint8": "uchar"}[dtype]
    tensors = Tensors({}, {"y": Tensor((8,), dtype, "index")})
    executable = built(backend, SCAN.replace("global int", f"global {kind}"), ["y"], tensors, global_size=["1"],
                       local=["1"])
    expected = [0, 1, 3, 6, 10, 15, 21, 28]
    assert all(outputs["y"].tolist() == expected for outputs in launched(executable, all_contents(tensors, 0)))
    assert isinstance(executable, Restoring)
    assert executable.restored() == ("y",)
    executable.load({"y": np.zeros(8, executable.outputs()["y"].dtype)})  # other contents, which no launch changes
    executable.run()
    assert executable.restored() == ()
    executable.close()


@pytest.mark.device
def test_nothing_is_copied_where_no_contents_change_or_a_declaration_opts_out(
        backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("something was copied")

    monkeypatch.setattr(type(backend.calls), "copy", refuse)
    text = "__kernel void go(__global float *y, __global float *z) { z[get_global_id(0)] = y[0] = 2; }"
    for values, restore in (("ones", False), (2, None)):
        tensors = Tensors({}, {"y": Tensor((8,), "fp32", values, restore=restore), "z": Tensor((8,), "fp32", None)})
        executable = built(backend, text, ["y", "z"], tensors)
        launched(executable, all_contents(tensors, 0))
        assert executable.restored() == ()
        executable.close()


LIBRARY = """name = "inplace"
[operations.compact]
features = {n = "numbers"}
inputs = {x = "n"}
[operations.compact.outputs]
kept = {shape = "n", values = "copy of x", check = "sum", tolerance = 1e-3}
count = {shape = "1", dtype = "int32", values = "start.npy"}
[kernels.atomic]
parameters = {group = [16, 64]}
[kernels.atomic.opencl]
text = '''
__kernel void compact(__global float *kept, __global int *count, __global const float *x, int n) {
    int i = get_global_id(0);
    if (i < n && x[i] > 0.0f) kept[atomic_inc(count)] = x[i];
}'''
entry = "compact"
arguments = ["kept", "count", "x", "int n"]
global = ["round_up(n, group)"]
local = ["group"]
"""


@pytest.mark.device
def test_a_counter_from_a_file_is_restored_in_the_measuring_worker_alone_and_beside_others(
        backend: OpenCLBackend, tmp_path: Path) -> None:
    np.save(tmp_path / "start.npy", np.zeros(1, np.int32))
    (tmp_path / "library.toml").write_text(LIBRARY)
    use(read_library(tmp_path / "library.toml"))
    problem = parse_problem("compact n=20000")
    configurations = list(SearchSpace(kernel("inplace.atomic"), problem, backend.device))
    with Runner(backend.device) as runner:
        alone = dict(runner.measure(problem, configurations, Options(samples=3)))
        together = runner.compare(problem, configurations, 3, Options())
    assert [measurement.status for measurement in (*alone.values(), *together)] == [Status.CORRECT] * 4


def gpu_calls(cuda: FakeCuda, entry: str, argument_bytes: int) -> CudaCalls:
    """The driver of a GPU whose compiled source has one entry."""
    gpu = Gpu(0, Driver(cuda, FakeLibCuda(cuda)))  # type: ignore[arg-type]
    image = Image(b"\x7fELF", {entry: Resources(16, 0, 0, 0, 0, argument_bytes, 0)})
    flushed = gpu.allocate(64)
    return CudaCalls(gpu, described_gpu("cuda", "h200"), lambda source: (gpu.module(image.cubin), image),
                     lambda: gpu.fill(flushed, 0, 64))


def test_a_gpu_copies_on_the_device_before_it_overwrites_caches_and_starts_its_clock() -> None:
    seen: list[list[int]] = []

    def scan(cuda: FakeCuda, arguments: bytes) -> None:
        y = cuda.view(struct.unpack("<Q", arguments)[0], (4,), np.int32)
        seen.append(y.tolist())
        y[:] = np.cumsum(y)

    cuda = FakeCuda({"scan": scan})
    calls = gpu_calls(cuda, "scan", 8)
    declaration = CallDeclaration.of("cuda", "", "scan", ["y"], global_size=["4"], local=["4"])
    tensors = Tensors({}, {"y": Tensor((4,), "int32", "index")})
    executable = CalledExecutable(calls, declaration.call(PROBLEM, described_gpu("cuda", "h200"), CONFIGURATION,
                                                          tensors), tensors)
    expected = ExpectedOutputs.of({"y": np.array([0, 1, 3, 6], np.int32)}, {}, tensors, None)
    measurement = check_and_time(executable, all_contents(tensors, 0), expected, Options(samples=3))
    assert measurement.status is Status.CORRECT
    assert measurement.samples == pytest.approx([KERNEL_SECONDS] * 3)
    assert len(seen) == 1 + 3 * 2  # the check; a launch that wakes and one that is timed
    assert executable.time(10) == pytest.approx(10 * KERNEL_SECONDS)  # in one graph
    assert seen == [[0, 1, 2, 3]] * len(seen)
    kinds = [kind for kind, _ in cuda.log]
    assert kinds == ["scan", *["copy", "scan"] * (len(seen) - 1)]
    executable.close()


def triton_calls(function: Any) -> Any:
    from seqtune.tuner.backends.triton.calls import TritonCalls

    pytest.importorskip("torch")
    return TritonCalls("cpu", function_of=lambda module, entry: function)


def test_triton_restores_outputs_and_what_its_own_tuner_lists() -> None:
    pytest.importorskip("triton", reason="Triton is not installed (Linux only): make develop")
    from triton.runtime.autotuner import Autotuner, Config

    class Launcher:
        """Stands in for a compiled function: adds x to y and to total, counts, and spoils x."""

        arg_names = ("y_ptr", "total_ptr", "x_ptr", "count_ptr")

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return self.add

        def add(self, y: Any, total: Any, x: Any, count: Any, **_: Any) -> None:
            assert count.item() == 0
            y += x
            total += x
            count += 1
            x.zero_()

    def plain() -> None:
        """The Python function, which is never called."""

    tuner = Autotuner(SimpleNamespace(fn=plain), list(Launcher.arg_names), [Config({})], [],
                      ["total_ptr", "count_ptr"], ["x_ptr"])
    tuner.fn = Launcher()
    tensors = Tensors({"x": Tensor((4,), "fp32", "ones")},
                      {"y": Tensor((4,), "fp32", "index"), "total": Tensor((4,), "fp32", None)})
    declaration = CallDeclaration.of("opencl", "", "add", ["y", "total", "x", "workspace int 1"], global_size=["1"])
    call = declaration.call(PROBLEM, described_gpu("triton", "h200"), CONFIGURATION, tensors)
    calls = triton_calls(tuner)
    calls.program = lambda source: ("module", {})
    executable = CalledExecutable(calls, call, tensors)
    for outputs in launched(executable, all_contents(tensors, 0)):
        assert outputs["y"].tolist() == [1, 2, 3, 4]
        assert outputs["total"].tolist() == [1, 1, 1, 1]
    assert executable.restored() == ("x", "y", "total", "workspace 4")
    executable.close()


def t1(*arguments: dict[str, Any]) -> dict[str, Any]:
    return {"General": {"BenchmarkName": "sums"}, "ConfigurationSpace": {
        "TuningParameters": [{"Name": "width", "Type": "int", "Values": "[1, 2]"}], "Conditions": []},
        "KernelSpecification": {"Language": "OpenCL", "KernelName": "go", "KernelFile": "go.cl", "ProblemSize": [8],
                                "LocalSize": {"X": "width"}, "GridDivX": ["width"], "Arguments": [
                                    {"Type": "int32", "MemoryType": "Vector", "FillType": "Constant", "FillValue": 1,
                                     "Size": 8, **argument} for argument in arguments]}}


def declared_t1(folder: Path, *arguments: dict[str, Any], text: str = "__kernel void go() {}") -> Tensors:
    (folder / "go.cl").write_text(text)
    (folder / "go.json").write_text(json.dumps(t1(*arguments)))
    use(read_library(folder / "go.json"))
    return operation("t1_sums").tensors(parse_problem("t1_sums"))


@pytest.mark.parametrize(("arguments", "restored"), [
    ([{"Name": "a", "AccessType": "ReadWrite"}, {"Name": "b", "AccessType": "ReadWrite"},
      {"Name": "c", "AccessType": "WriteOnly"}, {"Name": "d", "AccessType": "ReadOnly"}], ("a", "b")),
    ([{"Name": "a", "AccessType": "ReadWrite", "Output": 1}, {"Name": "b", "AccessType": "ReadWrite"},
      {"Name": "c", "AccessType": "WriteOnly", "Output": 1}, {"Name": "d"}, {"Name": "e", "Output": 1}],
     ("b", "a", "e"))])
def test_arguments_of_t1_that_are_read_and_written_are_restored(
        arguments: list[dict[str, Any]], restored: tuple[str, ...], tmp_path: Path) -> None:
    assert declared_t1(tmp_path, *arguments).restorable() == restored


@pytest.mark.device
def test_a_t1_file_with_several_arguments_that_are_read_and_written_runs_on_its_own_contents(
        backend: OpenCLBackend, tmp_path: Path) -> None:
    text = """__kernel void go(__global int *a, __global int *b, __global int *c) {
        int i = get_global_id(0); a[i] += b[i]; b[i] = a[i] + 1; c[i] = b[i] * width; }"""
    tensors = declared_t1(
        tmp_path, {"Name": "a", "AccessType": "ReadWrite", "Output": 1}, {"Name": "b", "AccessType": "ReadWrite"},
        {"Name": "c", "AccessType": "WriteOnly", "Output": 1}, text=text)
    problem = parse_problem("t1_sums")
    family = kernel("sums.go")
    executable = backend.build(problem, family, SearchSpace(family, problem, backend.device).default)
    for outputs in launched(executable, prepare_arrays(problem)[0]):
        assert (outputs["a"] == 2).all()
        assert (outputs["c"] == 3).all()
    assert set(executable.restored()) == {"a", "b"} == set(tensors.restorable())
    executable.close()
