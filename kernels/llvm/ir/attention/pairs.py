"""Pairs of bf16 numbers in the lanes of vectors: products, rounding, transposition, packing. They need AVX512-BF16."""

from __future__ import annotations

from ...text.elements import Element
from ...text.writer import Writer, declarations
from .transposition import LANES_TO_ROWS, lanes_to_rows, transposed

BF16 = Element("bf16", rounds=True)
_QUERIES = "ptr %from, i64 %from_row, ptr %to, i64 %columns, i32 %sign, i64 %vectors"
_PACK = "ptr %k, ptr %v, ptr %to, i64 %k_token, i64 %v_token, i64 %keys, i64 %head_dim, i64 %value_dim"
DECLARATIONS = (f"declare void @seqtune_pairs_to_lanes({_QUERIES})\n"
                f"declare void @seqtune_to_bf16_rows({LANES_TO_ROWS})\ndeclare void @seqtune_pack_pairs({_PACK})")


def _type(lanes: int) -> str:
    return f"<{2 * lanes} x bfloat>"


def _name(lanes: int) -> str:
    return f"@llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"


def declare_dot(lanes: int) -> str:
    """The declaration of the instruction of `dot`."""
    kind = f"<{lanes} x float>"
    return f"declare {kind} {_name(lanes)}({kind}, {_type(lanes)}, {_type(lanes)})"


def dot(write: Writer, lanes: int, sums: str, left: str, right: str) -> str:
    """Add both products of each lane's pairs, which are held as floats, to sums in fp32 (VDPBF16PS)."""
    kind = f"<{lanes} x float>"
    pairs = [value if value.startswith("<") else write.let(f"bitcast {kind} {value} to {_type(lanes)}")
             for value in (left, right)]
    return write.let(f"call {kind} {_name(lanes)}({kind} {sums}, {_type(lanes)} {pairs[0]}, {_type(lanes)} {pairs[1]})")


def ones(lanes: int) -> str:
    """Pairs of 1."""
    return f"<{', '.join(['bfloat 1.0'] * (2 * lanes))}>"


def interleaved(write: Writer, lanes: int, low: str, high: str) -> str:
    """Round two vectors of floats to the pairs (low, high) of each lane, held as floats."""
    halves = [write.let(f"fptrunc <{lanes} x float> {value} to <{lanes} x bfloat>") for value in (low, high)]
    return _joined(write, lanes, "bfloat", halves)


def _joined(write: Writer, lanes: int, element: str, halves: list[str]) -> str:
    kind = f"<{lanes} x {element}>"
    order = ", ".join(f"i32 {lane // 2 + lanes * (lane % 2)}" for lane in range(2 * lanes))
    both = write.let(f"shufflevector {kind} {halves[0]}, {kind} {halves[1]}, <{2 * lanes} x i32> <{order}>")
    return write.let(f"bitcast <{2 * lanes} x {element}> {both} to <{lanes} x float>")


def pair_functions(lanes: int) -> str:
    """The module of these functions; a row has at least `lanes` pairs, and as many columns."""
    return "\n".join([declarations(lanes), _queries_to_lanes(lanes),
                      lanes_to_rows(lanes, "seqtune_to_bf16_rows", BF16), _pack(lanes)])


def _queries_to_lanes(lanes: int) -> str:
    """Write `to[pair][row] = from[row][pair]` for lanes x vectors rows of pairs, with `sign` changed in each.

    The last block of pairs overlaps its predecessor.
    """
    write, kind, whole = Writer(), f"<{lanes} x float>", f"<{lanes} x i32>"
    high = write.let("lshr i32 %sign, 16")
    signs = write.let(f"bitcast i32 {write.let(f'or i32 %sign, {high}')} to float")
    changed = write.let(f"bitcast {kind} {write.splat(lanes, signs)} to {whole}")
    last, step = write.i64("sub", "%columns", lanes), write.mul("%vectors", lanes)
    with write.loop(0, "%columns", lanes) as begin, write.loop(0, "%vectors") as vector:
        column = write.i64("umin", begin, last)
        first = write.mul(vector, lanes)
        row = write.at(write.at("%from", column), write.mul(first, "%from_row"), "i16")
        to = write.at(write.at("%to", write.mul(column, step)), first)
        loaded = []
        for _ in range(lanes):
            loaded.append(write.let(f"load {kind}, ptr {row}, align 2"))
            row = write.at(row, "%from_row", "i16")
        for value in transposed(write, lanes, loaded):
            bits = write.let(f"xor {whole} {write.let(f'bitcast {kind} {value} to {whole}')}, {changed}")
            write.do(f"store {whole} {bits}, ptr {to}, align 4")
            to = write.at(to, step)
    return write.function(f"void @seqtune_pairs_to_lanes({_QUERIES})")


def _pack(lanes: int) -> str:
    """Write a head's keys as [key][head_dim], then its values as pairs: [pair of keys][value_dim].

    A last key without a partner has zeros as its partner's values.
    """
    write, kind = Writer(), f"<{lanes} x i16>"

    def row(base: str, key: str, step: str) -> str:
        return write.at(base, write.mul(key, step), "i16")

    def loaded(base: str, offset: str) -> str:
        return write.let(f"load {kind}, ptr {write.at(base, offset, 'i16')}, align 2")

    last_k, last_v = write.i64("sub", "%head_dim", lanes), write.i64("sub", "%value_dim", lanes)
    with write.loop(0, "%keys") as key:
        from_, to = row("%k", key, "%k_token"), row("%to", key, "%head_dim")
        with write.loop(0, "%head_dim", lanes) as begin:
            column = write.i64("umin", begin, last_k)
            write.do(f"store {kind} {loaded(from_, column)}, ptr {write.at(to, column, 'i16')}, align 2")
    values = write.at("%to", write.mul("%keys", "%head_dim"), "i16")
    whole = write.i64("udiv", "%keys", 2)

    def pair(index: str, odd: bool) -> None:
        key = write.mul(index, 2)
        first, second = row("%v", key, "%v_token"), row("%v", write.add(key, 1), "%v_token")
        to = write.at(values, write.mul(index, "%value_dim"))
        with write.loop(0, "%value_dim", lanes) as begin:
            column = write.i64("umin", begin, last_v)
            both = _joined(write, lanes, "i16", [
                loaded(first, column), "zeroinitializer" if odd else loaded(second, column)])
            write.store(f"<{lanes} x float>", both, write.at(to, column))

    with write.loop(0, whole) as index:
        pair(index, False)
    odd = write.let("trunc i64 %keys to i1")
    with write.when(odd):
        pair(whole, True)
    return write.function(f"void @seqtune_pack_pairs({_PACK})")
