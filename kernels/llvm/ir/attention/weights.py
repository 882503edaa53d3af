"""Weights of a softmax: e^x of differences from the largest score, which are never above 0."""

from __future__ import annotations

import struct

import numpy as np

from ..writer import Writer

LOWEST = -3.4028234663852886e38  # the least finite fp32 number: the largest score before any was seen
_LOG2_E = 1.4426950408889634
# Adding it rounds |t| < 2^22 to a whole number n, as 1.5 * 2^23 has bits for units only; the low bits are then n + 127,
# which are the exponent's bits of 2^n.
_ROUND = 12582912.0 + 127.0
# 2^f for |f| <= 1/2 as a polynomial: relative error 2.1e-7 in fp32 (weighted least squares, repeated until the errors
# were level); the constant is 1, so that e^0 = 1.
_POWER = (1.0, 0.6931469440460205, 0.24022120237350464, 0.05550713464617729, 0.009675540961325169,
          0.0013276430545374751)
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
    power = write.let(f"fmul {kind} {difference}, {constant(lanes, _LOG2_E)}")
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


def larger(write: Writer, lanes: int, value: str, limit: str) -> str:
    """Write max(value, limit); a NaN in `value` gives `limit`."""
    above = write.let(f"fcmp ogt <{lanes} x float> {value}, {limit}")
    return write.let(f"select <{lanes} x i1> {above}, <{lanes} x float> {value}, <{lanes} x float> {limit}")
