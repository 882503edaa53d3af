"""The llvm kernels compile for 128-bit NEON, a CPU that the test machine need not have."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.fusion import FusingImplementation, Fusion
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.networks.steps.pointwise import pointwise
from seqtune.networks.steps.view import View
from tests.support.steps.guarded_steps import steps

NEON = Device("llvm:neon:4", "llvm", "neoverse-n1", "neon", threads=4, compute_units=4, vector_bits=128,
              vector_registers=32, l1_bytes=64 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20)
LAYER = Problem.make("conv2d", c=12, h=14, w=14, k=24, r=3, s=3, pad_h=1, pad_w=1, bias="yes")
PROBLEMS = {
    "llvm.direct": LAYER, "llvm.winograd": LAYER,
    "llvm.depthwise": Problem.make("conv2d", c=12, h=14, w=14, k=12, r=3, s=3, pad_h=1, pad_w=1, groups=12),
    "llvm.grouped": Problem.make("conv2d", c=12, h=14, w=14, k=12, r=3, s=3, pad_h=1, pad_w=1, groups=3,
                                 layout="NHWC"),
    "llvm.gemm": Problem.make("gemm", m=20, n=40, k=16),
    "llvm.attention": Problem.make("attention", heads=2, q_len=20, kv_len=30, head_dim=16, value_dim=20, mask="scores"),
    "llvm.attention_decode": Problem.make("attention", heads=2, q_len=1, kv_len=90, head_dim=16, value_dim=20),
}


@pytest.fixture(scope="module")
def machine() -> llvm.TargetMachine:
    try:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError as error:
        pytest.skip(f"this LLVM does not compile for aarch64: {error}")
    return target.create_target_machine(cpu="generic", features="+neon", opt=3, reloc="pic")


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_family_compiles_for_neon(name: str, machine: llvm.TargetMachine) -> None:
    family, space = kernel(name), SearchSpace(kernel(name), PROBLEMS[name], NEON)
    implementation = llvm_implementation(family)
    generator = np.random.default_rng(0)
    for configuration in (space.default, *(space[int(row)] for row in generator.integers(len(space), size=4))):
        assert "fmla" in assembly(machine, implementation.source(space.problem, NEON, configuration))


@pytest.mark.parametrize("name", PROBLEMS)
def test_fused_kernels_compile_for_neon(name: str, machine: llvm.TargetMachine) -> None:
    problem, family = PROBLEMS[name], kernel(name)
    if problem.type == "conv2d":
        problem = Problem.make("conv2d", **{**dict(problem), "layout": "NHWC"})
    space, implementation = SearchSpace(family, problem, NEON), llvm_implementation(family)
    if isinstance(implementation, FusingImplementation):
        for epilogue in (Formula.of("add", 0, 1), Formula.of_activation("gelu")):
            source = implementation.source(problem, NEON, space.default, Fusion(epilogue, 100, 100))
            assert "fmla" in assembly(machine, source)


def test_steps_compile_for_neon_and_call_no_function(machine: llvm.TargetMachine) -> None:
    view = View.contiguous((40,))
    named = [(name, step) for name, step, _ in steps(19, 4)]
    named += [(name, pointwise(Formula.of(name, 0), view, [view], 4)) for name in ("exp", "log", "tanh", "erf")]
    for name, step in named:
        text = assembly(machine, step.source)
        assert ".4s" in text
        assert "\tbl\t" not in text, name


def assembly(machine: llvm.TargetMachine, source: KernelSource) -> str:
    """The assembly of a source and the modules that it calls."""
    result = ""
    for text in (source.text, *source.options):
        with llvm.parse_assembly(text, llvm.create_context()) as module:
            module.verify()
            result += machine.emit_assembly(module)
    return result
