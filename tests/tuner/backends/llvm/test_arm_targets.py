"""The llvm kernels compile for ARM CPUs of every kind, which the test machine need not have."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from seqtune.errors import MisuseError, UnavailableError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.processors import PROCESSORS
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.llvm.fusion import FusingImplementation, Fusion
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.networks.steps.pointwise import pointwise
from seqtune.networks.steps.view import View
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.backends.llvm.offline_compiler import LLVMOfflineCompiler
from seqtune.tuner.backends.llvm.threads import pool_text
from tests.support.inner_loops import shares_of_ideal
from tests.support.steps.guarded_steps import steps

# neon, sve256; in make test-anywhere also sve512 and Apple's object files
CORES = ("neoverse-n1", "neoverse-v1", "a64fx", "apple-m1")
LAYER = Problem.make("conv2d", c=12, h=14, w=14, k=24, r=3, s=3, pad_h=1, pad_w=1, bias="yes")
PROBLEMS = {
    "llvm.direct": LAYER, "llvm.winograd": LAYER,
    "llvm.depthwise": Problem.make("conv2d", c=12, h=14, w=14, k=12, r=3, s=3, pad_h=1, pad_w=1, groups=12),
    "llvm.grouped": Problem.make("conv2d", c=12, h=14, w=14, k=12, r=3, s=3, pad_h=1, pad_w=1, groups=3,
                                 layout="NHWC"),
    "llvm.gemm": Problem.make("gemm", m=20, n=40, k=16),
    "llvm.gemm_int8": Problem.make("gemm", m=20, n=64, k=16, dtype="int8"),
    "llvm.attention": Problem.make("attention", heads=2, q_len=20, kv_len=30, head_dim=16, value_dim=20, mask="scores"),
    "llvm.attention_decode": Problem.make("attention", heads=2, q_len=1, kv_len=90, head_dim=16, value_dim=20),
}
MULTIPLY = {"llvm.gemm_int8": ("mla", "mad")}  # of integers; other families multiply and add floats
BAR = 0.9  # share of the ideal that an inner loop reaches


@pytest.fixture(scope="module", params=[*CORES[:2], *(
    pytest.param(core, marks=pytest.mark.anywhere) for core in CORES[2:])])
def compiler(request: pytest.FixtureRequest) -> LLVMOfflineCompiler:
    return compiler_for(request.param)


def compiler_for(core: str) -> LLVMOfflineCompiler:
    try:
        return LLVMOfflineCompiler(find(f"llvm:{core}"))
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_family_compiles_to_the_vectors_of_the_instruction_set(name: str, compiler: LLVMOfflineCompiler) -> None:
    family = kernel(name)
    space, implementation = SearchSpace(family, PROBLEMS[name], compiler.device), llvm_implementation(family)
    generator = np.random.default_rng(0)
    wide = "z0." if compiler.device.instruction_set.startswith("sve") else ".4s"
    for configuration in (space.default, space[int(generator.integers(len(space)))]):
        text = compiler.assembly(implementation.source(space.problem, compiler.device, configuration))
        assert any(f"\t{word}" in text for word in MULTIPLY.get(name, ("fmla", "fmad")))
        assert configuration["vector"] != compiler.device.vector_floats or wide in text


@pytest.mark.parametrize("core", ["neoverse-v1", "a64fx"])
@pytest.mark.parametrize(("words", "settings"), [
    ("gemm m=128 n=768 k=768", {"vectors_n": 3, "tile_m": 4, "unroll_k": 4, "chunk": 0}),
    ("gemm m=128 n=768 k=768", {"vectors_n": 2, "tile_m": 8, "unroll_k": 1, "chunk": 1}),
    ("conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1 layout=NHWC", {
        "borders": "copy", "vectors_k": 3, "tile_w": 5, "tile_h": 1, "body": "c4", "chunk": 1}),
    ("conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1", {
        "m": 4, "vectors_k": 2, "group": 7, "block_rows": 1, "split": 0, "unroll": 1})])
def test_sve_reads_four_channels_at_once_and_multiplies_by_lane(core: str, words: str, settings: dict[str, int | str],
                                                                ) -> None:
    compiler = compiler_for(core)
    family = {"gemm": "llvm.gemm", "conv2d": "llvm.winograd" if "m" in settings else "llvm.direct"}[words.split()[0]]
    configuration = Configuration.of(family, {"vector": compiler.device.vector_floats, **settings})
    assert min(shares_of_ideal(configuration, words, compiler)) >= BAR
    source = llvm_implementation(kernel(family)).source(parse_problem(words.split()), compiler.device, configuration)
    text = compiler.assembly(source)
    assert "\tld1rqw\t" in text
    assert re.search(r"\tfmla\tz\d+\.s, z\d+\.s, z[0-7]\.s\[3\]", text)


@pytest.mark.parametrize("name", PROBLEMS)
def test_fused_kernels_compile_for_neon(name: str) -> None:
    problem, family, compiler = PROBLEMS[name], kernel(name), compiler_for("neoverse-n1")
    if problem.type == "conv2d":
        problem = Problem.make("conv2d", **{**dict(problem), "layout": "NHWC"})
    space, implementation = SearchSpace(family, problem, compiler.device), llvm_implementation(family)
    if problem.element.is_float and isinstance(implementation, FusingImplementation):
        for epilogue in (Formula.of("add", 0, 1), Formula.of_activation("gelu")):
            source = implementation.source(problem, compiler.device, space.default, Fusion(epilogue, 100, 100))
            assert "fmla" in compiler.assembly(source)


def test_steps_compile_for_neon_and_call_no_function() -> None:
    compiler = compiler_for("neoverse-n1")
    view = View.contiguous((40,))
    named = [(name, step) for name, step, _ in steps(19, 4)]
    named += [(name, pointwise(Formula.of(name, 0), view, [view], 4)) for name in ("exp", "log", "tanh", "erf")]
    for name, step in named:
        text = compiler.assembly(step.source)
        assert ".4s" in text
        assert "\tbl\t" not in text, name


@pytest.mark.parametrize(("system", "machine", "called"), [
    ("Linux", "aarch64", ("syscall", "sched_yield")), ("Darwin", "arm64", ("usleep", "sched_yield")),
    ("Windows", "ARM64", ("Sleep", "SwitchToThread"))])
def test_the_pool_of_threads_is_written_for_every_system(system: str, machine: str, called: tuple[str, ...]) -> None:
    text = pool_text(system, machine)
    with llvm.parse_assembly(text, llvm.create_context()) as module:  # only ARM's LLVM reads its pause
        module.verify()
    assert 'asm sideeffect "yield"' in text
    assert all(f"@{name}(" in text for name in called)


def test_a_processor_that_is_neither_here_nor_described_is_refused() -> None:
    unknown = Device("llvm:neon:4", "llvm", "cortex-x99", "neon")
    with pytest.raises(MisuseError, match=f"no CPU 'cortex-x99' is described; there are {', '.join(PROCESSORS)}"):
        LLVMOfflineCompiler(unknown)
