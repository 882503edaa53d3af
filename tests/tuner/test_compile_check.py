"""Compile checks: families compiled for a GPU that need not be here, and declarations that the compiler contradicts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from seqtune.__main__ import main
from seqtune.errors import UnavailableError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.launches.call import Call, CallStep
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.table import IN_USE
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.random_configurations import random_configurations
from seqtune.kernels.registry import kernel, names
from seqtune.tuner.backends.cuda import compiler
from seqtune.tuner.compile_check import check_families
from tests.support.devices import described_gpu

H200 = described_gpu("cuda", "h200")
TEXT = """
extern "C" __global__ void __launch_bounds__(THREADS) work(const float *x, const float *, const float *, float *y) {
  extern __shared__ float part[];
  part[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = part[THREADS - 1 - threadIdx.x];
}
"""


class Planted:
    """A kernel whose formulas may be wrong on purpose."""

    includes = "everything"
    text = TEXT
    bound = 0  # more threads than the launch has

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        threads = configuration.number("threads")
        source = KernelSource(self.text, (f"-DTHREADS={threads - self.bound}",))
        return Call(source, (CallStep("work", (), (threads,), (threads,), 4 * threads),))


GOOD, BROKEN, NARROW = Planted(), Planted(), Planted()
BROKEN.text = TEXT.replace("part[threadIdx", "port[threadIdx")
NARROW.bound = 16


def family(implementation: str, shared: str = "4 * threads") -> Kernel:
    return Kernel.of(
        name="cuda.planted", operation="gemm", meaning="planted",
        parameters=(Parameter("threads", (32, 64, 128, 30_000)),),
        derived=(("shared_bytes", shared), ("block_threads", "threads")), solves=(("dtype == 'fp16'", "only fp16"),),
        constraints=(("threads <= 1024", "too many"),), default={"threads": 32},
        implementation=f"{__name__}:{implementation}")


@pytest.fixture(autouse=True)
def _compiler(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        compiler.version()
    except UnavailableError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def test_a_sound_family_passes_and_its_needs_are_reported() -> None:
    steps: list[str] = []
    check, = check_families([family("GOOD")], H200, 12, 0, progress=steps.append)
    assert check.passed
    assert check.drawn == check.compiled == 12
    assert check.ranges["shared"] == (128, 512)
    assert check.ranges["occupancy"][1] <= 1
    assert steps[-1] == "cuda.planted: 12 of 12 compiled, 0 failed, 0 contradict"


@pytest.mark.parametrize(("implementation", "shared", "message"), [
    ("GOOD", "threads", "shared_bytes is 32 by the formula and 128 in the compiled kernel"),
    ("NARROW", "4 * threads", "work is launched with 32 threads and built for 16")])
def test_a_declaration_that_the_compiler_contradicts_is_found(implementation: str, shared: str, message: str) -> None:
    check, = check_families([family(implementation, shared)], H200, 12, 0)
    assert not check.passed
    assert len(check.contradictions) == 12
    assert message in {finding.message for finding in check.contradictions}


def test_a_limit_of_the_device_that_is_exceeded_is_found() -> None:
    small = replace(H200, local_memory=256)
    check, = check_families([family("GOOD")], small, 12, 0)
    assert {finding.message for finding in check.contradictions} == {
        "work needs 512 bytes of shared memory; the device has 256"}


def test_random_configurations_have_the_element_type_that_the_family_solves_and_follow_the_seed() -> None:
    drawn = random_configurations(family("GOOD"), H200, 10, 3)
    assert {problem["dtype"] for problem, _ in drawn} == {"fp16"}
    assert len(set(drawn)) == 10
    assert drawn == random_configurations(family("GOOD"), H200, 10, 3) != random_configurations(
        family("GOOD"), H200, 10, 4)


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("cuda.")])
def test_every_cuda_family_compiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    check, = check_families([kernel(name)], H200, 2, 0)
    assert check.passed, [*check.failures, *check.contradictions]


def test_the_command_reports_and_fails_where_a_family_fails(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(IN_USE, "cuda", Library("cuda", {"cuda.planted": family("GOOD")}))
    words = ["kernels", "--compile", "cuda:h200", "--sample", "4", "--seed", "1"]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["passed"], report["families"][0]["compiled"]) == (True, 4)
    assert main([*words, "cuda.planted", "cuda.planted", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["families"]) == 1
    assert main([*words, "gemm", "m=8", "n=8", "k=8", "dtype=fp16"]) == 0
    capsys.readouterr()
    monkeypatch.setitem(IN_USE, "cuda", Library("cuda", {"cuda.planted": family("BROKEN")}))
    assert main([*words, "cuda.planted"]) == 1
    assert "failed: cuda.planted threads=" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "message"), [
    (["--compile", "opencl:0"], "opencl"),
    (["--compile", "cuda:h200", "cuda.nothing"], "no kernel 'cuda.nothing'"),
    (["--compile", "cuda:h200", "cuda.gemm", "m=8"], "no kernel 'm=8'"),
    (["--compile", "cuda:h200", "triton.gemm"], "triton.gemm runs on triton, not on cuda"),
    (["--compile", "cuda:h200", "cuda.gemm", "llvm.direct"], "llvm.direct runs on llvm, not on cuda"),
    (["--compile", "triton:h200", "triton.fused_moe"], "triton.fused_moe has no code here that could be compiled"),
    (["--compile", "cuda:h200", "gemm", "m=8", "n=8", "k=8", "dtype=int8"], "only fp"),
    (["--compile", "cuda:h201"], "no device 'cuda:h201'; described GPUs are cuda:h20"),
    (["one.json", "two.json"], "one file of kernels is read at a time"),
    (["cuda.gemm", "two.json"], "no kernel family 'two.json'"),
    (["cuda.gem"], "no kernel family and no file 'cuda.gem'"),
    (["--sample", "3"], "--sample is for --compile and --check-memory"),
    (["--seed", "1"], "--seed is for --compile"),
    (["--no-such-option"], "no option '--no-such-option'")])
def test_misuse_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert len(shown.err.splitlines()) == 1
