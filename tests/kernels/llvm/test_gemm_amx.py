"""llvm.gemm_amx on any x86-64 CPU: functions of the same meaning replace its instructions, with registers in memory.

The functions follow Intel's description of AMX: TDPBF16PS adds the products of the pairs along k, one pair after the
other. Shapes that do not fit each other, or registers that were released, give NaN.
"""

from __future__ import annotations

import platform
from dataclasses import replace

import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import decode, encode
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.fusion import NONE, Fusion
from seqtune.kernels.llvm.gemm_amx import IMPLEMENTATION, LLVMGemmAmx
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.llvm.text.writer import Writer
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.networks.program.bound_kernels import KernelBinder
from seqtune.predictor.answering import answering
from seqtune.tuner.backends.llvm import compiler
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.backends.llvm.compiler import Compiler, capabilities
from seqtune.tuner.backends.llvm.threads import Threads
from seqtune.tuner.measuring.reference import make_operands, reference
from tests.support.exactness import check
from tests.support.llvm import DEVICES, needs_llvm, x86_assembly

FAMILY = kernel("llvm.gemm_amx")
ABLE = Device("llvm:avx512:1", "llvm", "sapphirerapids", "avx512", vector_bits=512, vector_registers=32,
              l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=32 << 20, extra=(("bf16_dots", 1), ("amx_bf16", 1)))
PLAIN = replace(ABLE, extra=(("amx_bf16", 1),))  # rounds to bf16 by integers, as every CPU can
HERE = next((device for device in DEVICES if device.threads == 1), ABLE)  # the registers in memory are one thread's
PROBLEMS = [Problem.make("gemm", dtype="bf16", **features) for features in (
    {"m": 1, "n": 16, "k": 32}, {"m": 50, "n": 70, "k": 128, "trans_b": "yes", "bias": "yes"},
    {"m": 33, "n": 48, "k": 64, "bias": "yes", "activation": "relu"}, {"m": 100, "n": 33, "k": 96})]
FEATURES = dict.fromkeys(("avx512f", "avx512bf16", "avx512vnni", "avxvnni", "amx-tile", "amx-bf16", "amx-int8"), True)
_REGISTER = "[16 x [16 x float]]"
_NAN = "0x7FF8000000000000"


def _shape(write: Writer, register: str) -> tuple[str, str]:
    """The rows of a register and the bytes of a row, as the last `ldtilecfg` set them."""
    rows = write.let(f"load i8, ptr {write.at('@shapes_set', write.add(register, 48), 'i8')}")
    width = write.let(f"load i16, ptr {write.at('@shapes_set', write.add(register, 8), 'i16')}")
    return write.let(f"zext i8 {rows} to i64"), write.let(f"zext i16 {width} to i64")


def _row(write: Writer, register: str, row: str) -> str:
    """A pointer to a row of a register."""
    return write.let(f"getelementptr {_REGISTER}, ptr @registers, i64 {register}, i64 {row}")


def _copy(write: Writer, to: str, source: str, size: str | int) -> None:
    write.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {size}, i1 false)")


def _moved(load: bool) -> str:
    """The functions of `tileloadd64`, which zeroes the rest of the register, and `tilestored64`."""
    write = Writer()
    register = write.let("zext i8 %r to i64")
    rows, width = _shape(write, register)
    if load:
        write.do(f"call void @llvm.memset.p0.i64(ptr {_row(write, register, '0')}, i8 0, i64 1024, i1 false)")
    with write.loop(0, rows) as row:
        own, other = _row(write, register, row), write.at("%p", write.mul(row, "%stride"), "i8")
        _copy(write, *((own, other) if load else (other, own)), width)
    return write.function(f"internal void @{'tileloadd64' if load else 'tilestored64'}(i8 %r, ptr %p, i64 %stride)")


def _multiplied() -> str:
    """The function of `tdpbf16ps`: both numbers of a pair are the halves of the words of A and B."""
    write, floats, words = Writer(), "<16 x float>", "<16 x i32>"
    c, a, b = (write.let(f"zext i8 %{name} to i64") for name in "cab")
    (c_rows, c_width), (a_rows, a_width), (b_rows, b_width) = (_shape(write, register) for register in (c, a, b))
    pairs = write.i64("lshr", a_width, 2)
    wrong = [write.let(f"icmp ne i64 {left}, {right}") for left, right in (
        (c_rows, a_rows), (c_width, b_width), (pairs, b_rows))] + [write.let(f"icmp eq i64 {c_rows}, 0")]
    bad = wrong[0]
    for other in wrong[1:]:
        bad = write.let(f"or i1 {bad}, {other}")
    poison = write.let(f"select i1 {bad}, float {_NAN}, float 0.0")
    with write.loop(0, write.i64("umax", c_rows, 1)) as row, write.loop(0, pairs) as pair:
        word = write.let(f"load i32, ptr {write.at(_row(write, a, row), pair)}")
        first = write.let(f"insertelement {words} poison, i32 {word}, i32 0")
        of_a = write.let(f"shufflevector {words} {first}, {words} poison, {words} zeroinitializer")
        of_b = write.let(f"load {words}, ptr {_row(write, b, pair)}")
        at = _row(write, c, row)
        sums = write.let(f"fadd {floats} {write.load(floats, at)}, {write.splat(16, poison)}")
        for half in (f"shl {words} {{}}, splat (i32 16)", f"and {words} {{}}, splat (i32 -65536)"):
            x, w = (write.let(f"bitcast {words} {write.let(half.format(value))} to {floats}") for value in (of_a, of_b))
            sums = write.let(f"fadd {floats} {sums}, {write.let(f'fmul {floats} {x}, {w}')}")
        write.store(floats, sums, at)
    return write.function("internal void @tdpbf16ps(i8 %c, i8 %a, i8 %b)")


def _emulation() -> str:
    """The functions of all instructions."""
    shapes, release, zero = Writer(), Writer(), Writer()
    _copy(shapes, "@shapes_set", "%p", 64)
    release.do("call void @llvm.memset.p0.i64(ptr @shapes_set, i8 0, i64 64, i1 false)")
    first = _row(zero, zero.let("zext i8 %r to i64"), "0")
    zero.do(f"call void @llvm.memset.p0.i64(ptr {first}, i8 0, i64 1024, i1 false)")
    return "\n".join([
        f"@registers = internal global [8 x {_REGISTER}] zeroinitializer, align 64",
        "@shapes_set = internal global [64 x i8] zeroinitializer, align 64",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "declare i64 @llvm.umax.i64(i64, i64)",
        shapes.function("internal void @ldtilecfg(ptr %p)"), release.function("internal void @tilerelease()"),
        zero.function("internal void @tilezero(i8 %r)"), _moved(load=True), _moved(load=False), _multiplied()])


EMULATION = _emulation()
# They call the C library, and the linker of LLVM ends the process where it lies too far away, as on ARM.
needs_x86 = pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="the functions need x86-64")


class Emulated(LLVMGemmAmx):
    """The implementation for a device with AMX, in code that every CPU can run."""

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               fusion: Fusion = NONE) -> KernelSource:
        own = super().source(problem, PLAIN, configuration, fusion)
        lines = [line for line in own.text.splitlines() if not line.startswith("declare void @llvm.x86.")]
        return KernelSource("\n".join([EMULATION, *lines]).replace("@llvm.x86.", "@"), own.options)


@needs_llvm
@needs_x86
@pytest.mark.parametrize("problem", PROBLEMS, ids=Problem.brief)
def test_every_tile_computes_the_product(problem: Problem) -> None:
    space = SearchSpace(FAMILY, problem, ABLE)
    chosen = {configuration["tile_m"]: configuration for configuration in space}  # one of each
    chosen |= {settings["vectors_n"]: settings for settings in space.sample(np.random.default_rng(0), 12)}
    backend = LLVMBackend(HERE)
    try:
        check(backend, replace(FAMILY, implementation=Emulated()), problem, dict.fromkeys(chosen.values()))
    finally:
        backend.close()


@needs_llvm
@needs_x86
def test_a_second_operand_is_added_where_rows_lie_apart() -> None:
    problem, implementation = PROBLEMS[1], Emulated()
    fusion = Fusion(Formula.of("add", 0, 1), x_pitch=160, y_pitch=96, other_pitch=80, other_element="fp32")
    operands, generator = make_operands(problem, seed=3), np.random.default_rng(4)
    x, y = np.zeros((50, 160), np.float32), np.zeros((50, 96), np.uint16)
    x[:, :128] = operands["x"]
    other, stored = generator.standard_normal((50, 80), dtype=np.float32), encode(x, "bf16")
    compiler = Compiler(HERE.instruction_set)
    threads = Threads(compiler, 1)
    try:
        for configuration in SearchSpace(FAMILY, problem, ABLE).sample(generator, 6):
            y[:] = 7
            call = KernelBinder(HERE, compiler, threads).bind_source(
                implementation.source(problem, HERE, configuration, fusion),
                implementation.launch(problem, HERE, configuration, fusion),
                implementation.pack(problem, HERE, configuration, operands["weights"]), operands["bias"])
            call.with_fused(stored.ctypes.data, other.ctypes.data, y.ctypes.data)
            expected = reference(problem, operands) + other[:, :70]
            error = np.abs(decode(y[:, :70], "bf16") - expected)
            assert (error <= np.abs(expected) * 2.0**-8 + 1e-5 * np.abs(expected).max()).all(), configuration.brief()
            assert (y[:, 70:] == 7).all()
    finally:
        threads.close()


def test_it_compiles_to_the_instructions_for_a_cpu_that_has_them() -> None:
    for problem in PROBLEMS[1:]:
        for configuration in SearchSpace(FAMILY, problem, ABLE).sample(np.random.default_rng(1), 5):
            text = x86_assembly(IMPLEMENTATION.source(problem, ABLE, configuration), "sapphirerapids")
            registers = -(-configuration.number("tile_m") // 16) * configuration.number("vectors_n")
            assert text.count("\ttdpbf16ps\t") == registers * configuration.number("unroll_k")
            assert text.count("\tldtilecfg\t") == text.count("\ttilerelease\n") == 1


def test_devices_without_amx_have_the_same_spaces_and_proposals_are_the_same_with_it() -> None:
    without = replace(ABLE, extra=ABLE.extra[:1])
    for problem in PROBLEMS[1:]:
        assert [family.name for family in kernels_for(problem, without)] == ["llvm.gemm_bf16"]
        assert [family.name for family in kernels_for(problem, ABLE)] == ["llvm.gemm_bf16", "llvm.gemm_amx"]
        assert answering(problem, ABLE).propose(9) == answering(problem, without).propose(9)


def test_amx_is_told_where_the_system_lets_programs_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "request_permission", lambda: True)
    assert dict(capabilities("avx512", compiler.usable(FEATURES))) == dict.fromkeys(
        ("bf16_dots", "int8_dots", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"), 1)
    assert dict(capabilities("avx2", compiler.usable(FEATURES))) == {"int8_dots": 1, "avx_vnni": 1}
    monkeypatch.setattr(compiler, "request_permission", lambda: False)
    facts = {fact for fact, _ in capabilities("avx512", compiler.usable(FEATURES))}
    assert facts == {"bf16_dots", "int8_dots", "avx_vnni"}
