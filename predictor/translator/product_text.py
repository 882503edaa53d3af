"""Product text: the LLVM IR of matrix products, and the module of all that a prediction computes in compiled functions.

The sum of an element of a product is added up from the first input to the last one, in one lane, so it depends on
nothing but its row of the inputs and its column of the weights.
"""

from __future__ import annotations

from seqtune.kernels.llvm.text.elements import FP32
from seqtune.kernels.llvm.text.vectors import declare_math, float_text
from seqtune.kernels.llvm.text.writer import Writer, declarations

from .row_text import LANES, VECTOR, first_lanes, row_text, unit_scale
from .row_text import SIGNATURES as ROW_SIGNATURES

PANEL = 2 * LANES  # columns of a matrix that lie together, row after row; the last ones are padded with zeros
BLOCK = 256  # rows that are multiplied with a panel while it is in the first-level cache
UNIT, GELU, ADD = 1, 2, 4  # what is done in addition to the product
# Bits of a CPU's vectors -> rows and vectors of a tile whose sums stay in registers, beside a weight and an input.
_TILES = {512: (8, 2), 256: (4, 1), 128: (2, 1)}

# Entry -> its parameters; pitches are the floats from a row to the next one.
SIGNATURES = {
    "multiply": "ptr %x, i64 %x_pitch, i64 %rows, i64 %depth, ptr %w, ptr %bias, ptr %y, i64 %columns, i64 %flags",
    **ROW_SIGNATURES,
}


def text(bits: int) -> str:
    """The module for a CPU whose vectors have `bits` bits; its entries are the keys of `SIGNATURES`."""
    return "\n".join([declarations(LANES), declare_math(LANES), FP32.declare(LANES), _product(bits), row_text()])


def _function(write: Writer, name: str) -> str:
    return write.function(f"void @{name}({SIGNATURES[name]})")


def _product(bits: int) -> str:
    """The function `multiply` for a CPU whose vectors have `bits` bits; it calls `gelu`."""
    most, vectors = _TILES[bits]
    sizes = [most >> step for step in range(most.bit_length())]
    return "\n".join([*(_tile(rows, vectors) for rows in sizes), _multiply(sizes)])


def _tile(rows: int, vectors: int) -> str:
    """Write `rows` rows of a panel of a product: the sums of some columns are added up one depth after the other."""
    write = Writer()
    xs = [write.at("%x", write.mul("%x_pitch", row)) for row in range(rows)]
    ys = [write.at("%y", write.mul("%y_pitch", row)) for row in range(rows)]
    is_added = write.let("icmp ne i64 %add, 0")
    positions = [(row, vector) for row in range(rows) for vector in range(vectors)]

    def block(column: int, masks: list[str] | None) -> None:
        def step(carried: list[str]) -> list[str]:
            depth, weights, *sums = carried
            loaded = [write.load(VECTOR, write.at(weights, vector * LANES)) for vector in range(vectors)]
            inputs = [write.splat(LANES, write.load("float", write.at(x, depth))) for x in xs]
            return [write.add(depth, 1), write.at(weights, PANEL),
                    *(write.fma(LANES, inputs[row], loaded[vector], total)
                      for (row, vector), total in zip(positions, sums, strict=True))]

        start = [("i64", "0"), ("ptr", write.at("%w", column)), *[(VECTOR, "zeroinitializer")] * len(positions)]
        sums = write.repeat("%depth", start, step)[2:]
        for (row, vector), total in zip(positions, sums, strict=True):
            offset = column + vector * LANES
            scale = write.splat(LANES, write.load("float", write.at("%scales", row)))
            value = write.fma(LANES, total, scale, write.load(VECTOR, write.at("%bias", offset)))
            to = write.at(ys[row], offset)
            before = write.let(f"select i1 {is_added}, ptr {to}, ptr @nothing")
            if masks is None:
                write.store(VECTOR, write.let(f"fadd {VECTOR} {value}, {write.load(VECTOR, before)}"), to)
            else:
                old = FP32.load_masked(write, LANES, before, masks[vector])
                FP32.store_masked(write, LANES, write.let(f"fadd {VECTOR} {value}, {old}"), to, masks[vector])

    width = LANES * vectors
    for column in range(0, PANEL, width):
        with write.when(write.let(f"icmp sge i64 %columns, {column + width}")):
            block(column, None)
        beyond = write.let(f"icmp sgt i64 %columns, {column}")
        partly = write.let(f"icmp slt i64 %columns, {column + width}")
        with write.when(write.let(f"and i1 {beyond}, {partly}")):
            block(column, [first_lanes(write, write.i64("sub", "%columns", column + vector * LANES))
                           for vector in range(vectors)])
    return write.function(f"internal void @tile{rows}(ptr %x, i64 %x_pitch, i64 %depth, ptr %w, ptr %bias, ptr %y, "
                          "i64 %y_pitch, i64 %columns, ptr %scales, i64 %add) noinline")


def _multiply(sizes: list[int]) -> str:
    """Write x @ w + bias, which read a panel of w once for BLOCK rows; `w` holds panel after panel.

    `flags`: with UNIT the rows of x are scaled to length 1, GELU applies gelu, and ADD adds the result to y.
    """
    write = Writer()
    unit, gelu, add = (write.i64("and", "%flags", flag) for flag in (UNIT, GELU, ADD))
    scales = write.let(f"alloca [{BLOCK} x float], align 64")
    with write.loop(0, BLOCK) as row:
        write.store("float", float_text(1.0), write.at(scales, row))
    with write.loop(0, "%rows", BLOCK) as first:
        count = write.i64("smin", write.i64("sub", "%rows", first), BLOCK)
        x, y = (write.at(base, write.mul(first, pitch)) for base, pitch in (("%x", "%x_pitch"), ("%y", "%columns")))
        with write.when(write.let(f"icmp ne i64 {unit}, 0")), write.loop(0, count) as row:
            write.store("float", unit_scale(write, write.at(x, write.mul(row, "%x_pitch")), "%depth"),
                        write.at(scales, row))
        with write.loop(0, "%columns", PANEL) as column:
            panel, bias = write.at("%w", write.mul(column, "%depth")), write.at("%bias", column)
            left = write.i64("sub", "%columns", column)
            done = "0"
            for size in sizes:
                end = write.i64("and", count, -size)
                with write.loop(done, end, size) as row:
                    from_row = write.at(x, write.mul(row, "%x_pitch"))
                    to = write.at(write.at(y, write.mul(row, "%columns")), column)
                    write.do(f"call void @tile{size}(ptr {from_row}, i64 %x_pitch, i64 %depth, ptr {panel}, "
                             f"ptr {bias}, ptr {to}, i64 %columns, i64 {left}, ptr {write.at(scales, row)}, "
                             f"i64 {add})")
                done = end
    with write.when(write.let(f"icmp ne i64 {gelu}, 0")):
        write.do(f"call void @gelu(ptr %y, i64 {write.mul('%rows', '%columns')})")
    function = _function(write, "multiply")
    return f"@nothing = internal constant {VECTOR} zeroinitializer, align 64\n{function}"
