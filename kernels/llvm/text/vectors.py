"""Vectors: arithmetic on vectors of fp32 as LLVM IR, one instruction a call.

Comparisons are ordered unless their name says otherwise, so a NaN takes the second value of `select`. The module that
uses them declares the intrinsics: `writer.declarations(lanes)` and `declare_math(lanes)`.
"""

from __future__ import annotations

import struct

from .writer import Writer


def float_text(value: float) -> str:
    """The fp32 number nearest to `value` as LLVM writes constants: the bits of the same number in fp64."""
    try:
        rounded = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        rounded = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def declare_math(*lanes: int) -> str:
    """Declarations of the intrinsics that `Vectors` uses beside the writer's own."""
    return "\n".join(f"declare <{n} x float> @llvm.{name}.v{n}f32(<{n} x float>)"
                     for n in lanes for name in ("sqrt", "floor"))


class Vectors:
    """Writes instructions on vectors of `lanes` floats; every value is the name or the constant of such a vector."""

    def __init__(self, write: Writer, lanes: int) -> None:
        self.write, self.lanes = write, lanes
        self.kind, self.integers = f"<{lanes} x float>", f"<{lanes} x i32>"

    def constant(self, value: float) -> str:
        """The same number in all lanes."""
        return f"splat (float {float_text(value)})"

    def whole(self, value: int) -> str:
        """The same 32-bit integer in all lanes."""
        return f"splat (i32 {value})"

    def real(self, operation: str, left: str, right: str) -> str:
        """Apply `fadd`, `fsub`, `fmul` or `fdiv`."""
        return self.write.let(f"{operation} {self.kind} {left}, {right}")

    def add(self, left: str, right: str) -> str:
        """left + right."""
        return self.real("fadd", left, right)

    def sub(self, left: str, right: str) -> str:
        """left - right."""
        return self.real("fsub", left, right)

    def mul(self, left: str, right: str) -> str:
        """left * right."""
        return self.real("fmul", left, right)

    def div(self, left: str, right: str) -> str:
        """left / right."""
        return self.real("fdiv", left, right)

    def fma(self, left: str, right: str, added: str) -> str:
        """left * right + added, rounded once where the target can."""
        return self.write.fma(self.lanes, left, right, added)

    def horner(self, x: str, *coefficients: float) -> str:
        """A polynomial in x; the coefficient of its highest power comes first."""
        value = self.constant(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.fma(value, x, self.constant(coefficient))
        return value

    def compare(self, relation: str, left: str, right: str) -> str:
        """A mask: `olt`, `ole`, `ogt`, `oge`, `oeq`, `une`, `uno` (a NaN is there) ..."""
        return self.write.let(f"fcmp {relation} {self.kind} {left}, {right}")

    def select(self, mask: str, yes: str, no: str) -> str:
        """`yes` where the mask holds, else `no`."""
        return self.write.let(f"select <{self.lanes} x i1> {mask}, {self.kind} {yes}, {self.kind} {no}")

    def at_least(self, x: str, low: str) -> str:
        """low where x < low, else x: a NaN in x stays."""
        return self.select(self.compare("olt", x, low), low, x)

    def at_most(self, x: str, high: str) -> str:
        """high where x > high, else x: a NaN in x stays."""
        return self.select(self.compare("ogt", x, high), high, x)

    def max(self, left: str, right: str) -> str:
        """The larger number; NaN where either is."""
        larger = self.select(self.compare("ogt", left, right), left, right)
        return self.select(self.compare("uno", left, left), left, larger)

    def min(self, left: str, right: str) -> str:
        """The smaller number; NaN where either is."""
        smaller = self.select(self.compare("olt", left, right), left, right)
        return self.select(self.compare("uno", left, left), left, smaller)

    def bits(self, x: str) -> str:
        """The bits of the numbers as integers."""
        return self.write.let(f"bitcast {self.kind} {x} to {self.integers}")

    def from_bits(self, bits: str) -> str:
        """The numbers with these bits."""
        return self.write.let(f"bitcast {self.integers} {bits} to {self.kind}")

    def integer(self, operation: str, left: str, right: str) -> str:
        """Apply `add`, `sub`, `and`, `or`, `xor`, `shl`, `lshr` or `ashr` to integers."""
        return self.write.let(f"{operation} {self.integers} {left}, {right}")

    def abs(self, x: str) -> str:
        """The numbers without their signs."""
        return self.from_bits(self.integer("and", self.bits(x), self.whole(0x7FFFFFFF)))

    def with_sign(self, magnitude: str, sign: str) -> str:
        """A number that is not negative, with the sign of another."""
        return self.from_bits(self.integer("or", self.bits(magnitude), self.integer(
            "and", self.bits(sign), self.whole(-2 ** 31))))

    def unary(self, name: str, x: str) -> str:
        """The intrinsic `sqrt` or `floor`."""
        return self.write.let(f"call {self.kind} @llvm.{name}.v{self.lanes}f32({self.kind} {x})")
