"""Quads: four neighbouring floats in each 128 bits of an SVE register, which multiply vectors by lane.

LD1RQW loads a quad, and FMLA multiplies a vector with one lane of it: one load for four numbers that would each be
broadcast. LLVM uses neither for vectors of fixed length, so both are written as its intrinsics for scalable vectors. A
vector as long as a register becomes a scalable one, and back, without an instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...devices.device import Device
from .elements import FP32, Element
from .writer import Writer

FLOATS = 4
REGISTERS = 32  # FMLA by lane takes its quad from the first eight only, so few quads are held beside the sums
PIXELS = 2  # whose quads are in registers at once: with one, a sum would wait longer for its last product
_WIDE = f"<vscale x {FLOATS} x float>"


def reads_quads(device: Device, vector: int, channels: int, x: Element) -> bool:
    """Whether a tile can read quads of `channels` neighbours of `x` and multiply vectors of so many floats by lane.

    The device must have SVE with registers of that size, and the numbers must be fp32.
    """
    return (device.instruction_set.startswith("sve") and vector == device.vector_floats
            and channels % FLOATS == 0 and x == FP32)


def at_once(pixels: int, vectors: int) -> int:
    """How many channels of a quad (4 or 2) have their weights in registers beside a tile's sums and quads; or 0."""
    return next((channels for channels in (FLOATS, 2) if (pixels + channels) * vectors + PIXELS <= REGISTERS), 0)


def declare_quads(lanes: int) -> str:
    """Declarations of the intrinsics for vectors of `lanes` floats."""
    kind = f"<{lanes} x float>"
    return "\n".join([
        f"declare {_WIDE} @llvm.aarch64.sve.ld1rq.nxv4f32(<vscale x {FLOATS} x i1>, ptr)",
        f"declare {_WIDE} @llvm.aarch64.sve.fmla.lane.nxv4f32({_WIDE}, {_WIDE}, {_WIDE}, i32)",
        f"declare {_WIDE} @llvm.vector.insert.nxv4f32.v{lanes}f32({_WIDE}, {kind}, i64)",
        f"declare {kind} @llvm.vector.extract.v{lanes}f32.nxv4f32({_WIDE}, i64)"])


def multiply_quads(write: Writer, lanes: int, at: Sequence[str], weights: Callable[[int], Sequence[str]],
                   sums: Sequence[str]) -> list[str]:
    """The sums, ordered [pixel][vector], with the products of four channels added.

    `at` points to the four channels of each pixel; `weights` loads the vectors of a channel.
    """
    sums, vectors = list(sums), len(sums) // len(at)
    channels = at_once(len(at), vectors)
    for first in range(0, FLOATS, channels):
        rows = [weights(channel) for channel in range(first, first + channels)]
        for pixel in range(0, len(at), PIXELS):
            quads = [_load(write, pointer) for pointer in at[pixel:pixel + PIXELS]]
            for lane, row in enumerate(rows, first):
                for number, quad in enumerate(quads, pixel):
                    for index, vector in enumerate(row, number * vectors):
                        sums[index] = _fma(write, lanes, quad, lane, vector, sums[index])
    return sums


def _load(write: Writer, pointer: str) -> str:
    """A quad from memory."""
    return write.let(f"call {_WIDE} @llvm.aarch64.sve.ld1rq.nxv4f32(<vscale x {FLOATS} x i1> splat (i1 true), "
                     f"ptr {pointer})")


def _fma(write: Writer, lanes: int, quad: str, lane: int, weights: str, sums: str) -> str:
    """The sums with one of the quad's floats times a vector of weights added."""
    kind = f"<{lanes} x float>"
    sums, weights = (
        write.let(f"call {_WIDE} @llvm.vector.insert.nxv4f32.v{lanes}f32({_WIDE} poison, {kind} {value}, i64 0)")
        for value in (sums, weights))
    added = write.let(f"call {_WIDE} @llvm.aarch64.sve.fmla.lane.nxv4f32({_WIDE} {sums}, {_WIDE} {weights}, "
                      f"{_WIDE} {quad}, i32 {lane})")
    return write.let(f"call {kind} @llvm.vector.extract.v{lanes}f32.nxv4f32({_WIDE} {added}, i64 0)")
