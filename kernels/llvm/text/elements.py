"""Elements: the numbers that kernels read and write in memory, fp32, bf16 or int8, as LLVM IR.

Values in registers are fp32. Kernels read int8 in words of four bytes and add their products to 32-bit sums
(`WordProducts`); no kernel writes it.

A bf16 number is the upper half of an fp32 number. Stores round to the nearest, ties to even; infinities stay, and a NaN
becomes a quiet NaN. Where the CPU has an instruction for this (`Element.rounds`), it replaces numbers below the
smallest normal one (1.2e-38) by zero. In IR, a bf16 number in memory is an i16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seqtune.errors import KernelError

from ...devices.device import Device
from ...devices.element_types import element_type
from .writer import Writer

X86 = ("avx512", "avx2", "sse")  # the instruction sets of x86; the others are ARM's
QUIET_NAN = 0x7FC0
# Methods to multiply words of four int8. "dots": one instruction, whose first factor is unsigned. "pairs": the products
# of pairs of 16-bit numbers that every x86 CPU has, once for the even and once for the odd bytes. "numbers": products
# of 32-bit numbers, which every CPU has.
WORD_METHODS = ("dots", "pairs", "numbers")
_PAIRS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}  # by lanes
_FLIP = 0x80808080 - (1 << 32)  # as a signed number; XOR adds 128 to each byte of a word, which is unsigned then


@dataclass(frozen=True, slots=True)
class Element:
    """One kind of number in memory. Raises KernelError for a dtype other than fp32, bf16 and int8.

    Pointers are to the first of `lanes` elements; they are aligned to one element.
    """

    dtype: str = "fp32"
    rounds: bool = False  # the CPU has an instruction that rounds fp32 to bf16; without it, integers do
    word_method: str = ""  # int8: one of WORD_METHODS

    def __post_init__(self) -> None:
        if self.dtype not in ("fp32", "bf16", "int8"):
            raise KernelError(f"llvm kernels do not compute in {self.dtype:.20}, only in fp32, bf16 and int8")

    @classmethod
    def of(cls, dtype: str, device: Device) -> Element:
        """The element with the fastest rounding and products that the device has."""
        facts = device.names()
        if dtype != "int8":
            return cls(dtype, dtype == "bf16" and facts["bf16_dots"] == 1)
        if facts["int8_dots"] == 1:
            return cls(dtype, word_method="dots")
        return cls(dtype, word_method="pairs" if device.instruction_set in X86 else "numbers")

    @property
    def bytes(self) -> int:
        """The size in memory."""
        return element_type(self.dtype).size

    @property
    def kind(self) -> str:
        """The type in memory: float, i16 or i8."""
        return element_type(self.dtype).ir

    def suffix(self, lanes: int) -> str:
        """The type of a vector as names of intrinsics write it, such as v16f32 or v16i16."""
        return f"v{lanes}{'f32' if self.dtype == 'fp32' else 'i16'}"

    def declare(self, *lanes: int) -> str:
        """Declarations of the intrinsics of masked loads and stores."""
        loads = (f"declare <{n} x {self.kind}> @llvm.masked.load.{self.suffix(n)}.p0(ptr, i32, <{n} x i1>, "
                 f"<{n} x {self.kind}>)" for n in lanes)
        return "\n".join([*loads, self.declare_stores(*lanes)])

    def declare_stores(self, *lanes: int) -> str:
        """Declarations of the intrinsics of masked stores."""
        return "\n".join(f"declare void @llvm.masked.store.{self.suffix(n)}.p0(<{n} x {self.kind}>, ptr, i32, "
                         f"<{n} x i1>)" for n in lanes)

    def at(self, writer: Writer, base: str, offset: str | int) -> str:
        """A pointer moved by `offset` elements."""
        return writer.at(base, offset, self.kind)

    def load(self, writer: Writer, lanes: int, pointer: str) -> str:
        """A vector of `lanes` floats from memory."""
        kind = f"<{lanes} x {self.kind}>"
        return self.widened(writer, lanes, writer.let(f"load {kind}, ptr {pointer}, align {self.bytes}"))

    def store(self, writer: Writer, lanes: int, value: str, pointer: str) -> None:
        """Write a vector of `lanes` floats to memory."""
        writer.do(f"store <{lanes} x {self.kind}> {self.narrowed(writer, lanes, value)}, ptr {pointer}, "
                  f"align {self.bytes}")

    def load_one(self, writer: Writer, pointer: str) -> str:
        """One float from memory."""
        number = writer.let(f"load {self.kind}, ptr {pointer}, align {self.bytes}")
        if self.dtype == "fp32":
            return number
        bits = writer.let(f"shl i32 {writer.let(f'zext i16 {number} to i32')}, 16")
        return writer.let(f"bitcast i32 {bits} to float")

    def store_one(self, writer: Writer, value: str, pointer: str) -> None:
        """Write one float to memory."""
        if self.dtype == "fp32":
            writer.store("float", value, pointer)
        else:
            self.store(writer, 1, writer.let(f"insertelement <1 x float> poison, float {value}, i32 0"), pointer)

    def load_masked(self, writer: Writer, lanes: int, pointer: str, mask: str) -> str:
        """The lanes of a mask from memory, 0 in the others, whose memory is not touched; see `declare`."""
        kind = f"<{lanes} x {self.kind}>"
        return self.widened(writer, lanes, writer.let(
            f"call {kind} @llvm.masked.load.{self.suffix(lanes)}.p0(ptr {pointer}, i32 {self.bytes}, "
            f"<{lanes} x i1> {mask}, {kind} zeroinitializer)"))

    def store_masked(self, writer: Writer, lanes: int, value: str, pointer: str, mask: str) -> None:
        """Write the lanes of a mask to memory; see `declare`."""
        stored = self.narrowed(writer, lanes, value)
        writer.do(f"call void @llvm.masked.store.{self.suffix(lanes)}.p0(<{lanes} x {self.kind}> {stored}, "
                  f"ptr {pointer}, i32 {self.bytes}, <{lanes} x i1> {mask})")

    def widened(self, writer: Writer, lanes: int, stored: str) -> str:
        """The vector of floats whose numbers were loaded as `stored`."""
        if self.dtype == "fp32":
            return stored
        wide = writer.let(f"zext <{lanes} x i16> {stored} to <{lanes} x i32>")
        bits = writer.let(f"shl <{lanes} x i32> {wide}, splat (i32 16)")
        return writer.let(f"bitcast <{lanes} x i32> {bits} to <{lanes} x float>")

    def narrowed(self, writer: Writer, lanes: int, value: str) -> str:
        """The vector to store for a vector of floats, rounded to the element's type."""
        if self.dtype == "fp32":
            return value
        if self.rounds:
            halves = writer.let(f"fptrunc <{lanes} x float> {value} to <{lanes} x bfloat>")
            return writer.let(f"bitcast <{lanes} x bfloat> {halves} to <{lanes} x i16>")
        integers = f"<{lanes} x i32>"
        bits = writer.let(f"bitcast <{lanes} x float> {value} to {integers}")
        last = writer.let(f"and {integers} {writer.let(f'lshr {integers} {bits}, splat (i32 16)')}, splat (i32 1)")
        half = writer.let(f"add {integers} {last}, splat (i32 {0x7FFF})")
        carried = writer.let(f"lshr {integers} {writer.let(f'add {integers} {bits}, {half}')}, splat (i32 16)")
        nan = writer.let(f"fcmp uno <{lanes} x float> {value}, {value}")
        chosen = writer.let(f"select <{lanes} x i1> {nan}, {integers} splat (i32 {QUIET_NAN}), {integers} {carried}")
        return writer.let(f"trunc {integers} {chosen} to <{lanes} x i16>")


FP32 = Element()


@dataclass(frozen=True, slots=True)
class WordProducts:
    """Products of vectors of `lanes` words of four int8, added to 32-bit sums: a lane's four products to its sum."""

    write: Writer
    lanes: int
    method: str  # one of WORD_METHODS

    @property
    def kind(self) -> str:
        """The type of a vector of words and of a vector of sums."""
        return f"<{self.lanes} x i32>"

    @property
    def declaration(self) -> str:
        """The declaration of the intrinsic function that multiplies; empty for a method without one."""
        kind, pairs = self.kind, f"<{2 * self.lanes} x i16>"
        return {"dots": f"declare {kind} {self._dot}({kind}, {kind}, {kind})",
                "pairs": f"declare {kind} @{_PAIRS.get(self.lanes)}({pairs}, {pairs})"}.get(self.method, "")

    @property
    def _dot(self) -> str:
        """The function of the instruction VPDPBUSD of AVX512-VNNI and AVX-VNNI; its sums wrap around."""
        return f"@llvm.x86.avx512.vpdpbusd.{32 * self.lanes}"

    def first_sums(self, panel: str, vectors: int) -> tuple[list[str], str]:
        """The first sums of one pixel or row, and a pointer to the words of the panel, which `pack_words` made."""
        if self.method != "dots":
            return ["zeroinitializer"] * vectors, panel
        sums = [self.write.load(self.kind, self.write.at(panel, vector * self.lanes)) for vector in range(vectors)]
        return sums, self.write.at(panel, vectors * self.lanes)

    def broadcast(self, pointer: str) -> str:
        """The word at a pointer, in all lanes."""
        write, kind = self.write, self.kind
        word = write.let(f"load i32, ptr {pointer}, align 1")
        if self.method == "dots":
            word = write.let(f"xor i32 {word}, {_FLIP}")
        first = write.let(f"insertelement {kind} poison, i32 {word}, i32 0")
        return write.let(f"shufflevector {kind} {first}, {kind} poison, {kind} zeroinitializer")

    def factor(self, words: str) -> list[str]:
        """The numbers of a vector of words as `added` takes them: a vector for each call of the multiplication."""
        write, kind = self.write, self.kind
        if self.method == "dots":
            return [words]
        if self.method == "numbers":
            shifted = [write.let(f"shl {kind} {words}, splat (i32 {24 - 8 * byte})") for byte in range(4)]
            return [write.let(f"ashr {kind} {value}, splat (i32 24)") for value in shifted]
        pairs = f"<{2 * self.lanes} x i16>"
        odd = write.let(f"bitcast {kind} {words} to {pairs}")  # in the upper bytes of 16 bits
        even = write.let(f"shl {pairs} {odd}, splat (i16 8)")
        return [write.let(f"ashr {pairs} {value}, splat (i16 8)") for value in (even, odd)]

    def added(self, sums: str, x: Sequence[str], weights: Sequence[str]) -> str:
        """The sums with the products of two vectors of words added; `factor` made the factors."""
        write, kind, pairs = self.write, self.kind, f"<{2 * self.lanes} x i16>"
        for left, right in zip(x, weights, strict=True):
            if self.method == "dots":
                sums = write.let(f"call {kind} {self._dot}({kind} {sums}, {kind} {left}, {kind} {right})")
                continue
            products = (write.let(f"mul {kind} {left}, {right}") if self.method == "numbers" else
                        write.let(f"call {kind} @{_PAIRS[self.lanes]}({pairs} {left}, {pairs} {right})"))
            sums = write.let(f"add {kind} {sums}, {products}")
        return sums
