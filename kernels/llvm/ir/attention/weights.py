"""Weights of a softmax: e^x of differences from the largest score, which are never above 0."""

from __future__ import annotations

import struct

import numpy as np

from ...text.writer import Writer

LEAST_NORMAL = 2.0**-126
LOWEST = -3.4028234663852886e38  # the least finite fp32 number: the largest score before any was seen
LOG2_E = 1.4426950408889634
# Adding it rounds |t| < 2^22 to a whole number n, as 1.5 * 2^23 has bits for units only; the low bits are then n + 127,
# which are the exponent's bits of 2^n.
_ROUND = 12582912.0 + 127.0
# 2^f for |f| <= 1/2 as a polynomial: relative error 2.1e-7 in fp32 (weighted least squares, repeated until the errors
# were level); the constant is 1, so that e^0 = 1.
_POWER = (1.0, 0.6931469440460205, 0.24022120237350464, 0.05550713464617729, 0.009675540961325169,
          0.0013276430545374751)
# 2^f for 0 <= f < 1: relative error 8.6e-5, a fiftieth of what rounding to bf16 may add (linear program; 2^0 = 1).
_SHORT_POWER = (1.0, 0.695116631, 0.227644978, 0.0770672403)
_FLOOR = 9  # the operand of VREDUCEPS: x - floor(x), no exception for what is cut off
_LEAST_EXPONENT = -126.0  # below it, fp32 numbers lose bits: weights of less than 1e-38 are 0


def number(value: float) -> str:
    """An fp32 number as LLVM writes it: the bits of the same number in fp64."""
    return f"0x{struct.unpack('>Q', struct.pack('>d', float(np.float32(value))))[0]:016X}"


def constant(lanes: int, value: float) -> str:
    """A vector with the number in all lanes."""
    return f"<{', '.join([f'float {number(value)}'] * lanes)}>"


def weight(write: Writer, lanes: int, difference: str) -> str:
    """Write e^difference for a vector of differences of 0 or less; infinite ones give 0, NaN gives NaN.

    e^x = 2^n 2^f with n + f = x log2(e) and |f| <= 1/2.
    """
    kind, whole = f"<{lanes} x float>", f"<{lanes} x i32>"
    power = write.let(f"fmul {kind} {difference}, {constant(lanes, LOG2_E)}")
    rounded = write.let(f"fadd {kind} {power}, {constant(lanes, _ROUND)}")
    exponent = write.let(f"fsub {kind} {rounded}, {constant(lanes, _ROUND)}")
    fraction = write.let(f"fsub {kind} {power}, {exponent}")
    value = constant(lanes, _POWER[-1])
    for coefficient in reversed(_POWER[:-1]):
        value = write.fma(lanes, value, fraction, constant(lanes, coefficient))
    bits = write.let(f"shl {whole} {write.let(f'bitcast {kind} {rounded} to {whole}')}, "
                     f"<{', '.join(['i32 23'] * lanes)}>")
    value = write.let(f"fmul {kind} {value}, {write.let(f'bitcast {whole} {bits} to {kind}')}")
    tiny = write.let(f"fcmp olt {kind} {power}, {constant(lanes, _LEAST_EXPONENT)}")
    return write.let(f"select <{lanes} x i1> {tiny}, {kind} zeroinitializer, {kind} {value}")


def power_of_two(write: Writer, lanes: int, power: str) -> str:
    """Write 2^power for a vector of AVX-512; -infinity gives 0, NaN gives NaN. See `declare_powers`."""
    kind = f"<{lanes} x float>"
    masked = f"{kind} zeroinitializer, i{max(lanes, 8)} -1{', i32 4' if lanes == 16 else ''}"  # all lanes; 4: as set
    # VREDUCEPS: what is left of a number without its whole part; VSCALEFPS: times 2 to a whole power, rounded down.
    fraction = write.let(f"call {kind} @llvm.x86.avx512.mask.reduce.ps.{32 * lanes}({kind} {power}, i32 {_FLOOR}, "
                         f"{masked})")
    value = constant(lanes, _SHORT_POWER[-1])
    for coefficient in reversed(_SHORT_POWER[:-1]):
        value = write.fma(lanes, value, fraction, constant(lanes, coefficient))
    return write.let(f"call {kind} @llvm.x86.avx512.mask.scalef.ps.{32 * lanes}({kind} {value}, {kind} {power}, "
                     f"{masked})")


def declare_powers(lanes: int) -> str:
    """Declarations of the intrinsics of `power_of_two`."""
    kind = f"<{lanes} x float>"
    masked = f"{kind}, i{max(lanes, 8)}{', i32 immarg' if lanes == 16 else ''}"
    return (f"declare {kind} @llvm.x86.avx512.mask.reduce.ps.{32 * lanes}({kind}, i32 immarg, {masked})\n"
            f"declare {kind} @llvm.x86.avx512.mask.scalef.ps.{32 * lanes}({kind}, {kind}, {masked})")


def larger(write: Writer, lanes: int, value: str, limit: str) -> str:
    """Write max(value, limit); a NaN in `value` gives `limit`."""
    above = write.let(f"fcmp ogt <{lanes} x float> {value}, {limit}")
    return write.let(f"select <{lanes} x i1> {above}, <{lanes} x float> {value}, <{lanes} x float> {limit}")
