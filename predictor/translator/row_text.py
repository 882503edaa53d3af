"""Row text: the LLVM IR of the arithmetic of a prediction: matrix products, attention and functions of rows.

Every number that a function writes is computed in one order of operations, from its own row alone. The order is that
of vectors of LANES floats, whatever the CPU's vectors are: LLVM cuts them into the CPU's own. So the result depends
neither on the other rows, nor on the number of rows, nor on addresses; and all CPUs that have the fused multiply-add
give the same bits.
"""

from __future__ import annotations

from seqtune.kernels.llvm.text.elements import FP32
from seqtune.kernels.llvm.text.vector_math import exp_of_negative
from seqtune.kernels.llvm.text.vectors import Vectors, declare_math, float_text
from seqtune.kernels.llvm.text.writer import Writer, declarations

from .lane_text import LANES, VECTOR, across, dot, dots, first_lanes, lanes, load, store, unit_scale
from .layer_text import SIGNATURES as LAYER_SIGNATURES
from .layer_text import layer_text
from .product_text import SIGNATURE, product_text

# ln of the normal distribution function of -|x| as a polynomial of |x|; the first coefficient is that of |x|^5. It was
# fitted so that the greatest error of gelu is least: 5e-7, which is the spacing of float32 numbers around 4.
GELU_TAIL = (-0.0003280729636587605, 0.004910640277841955, -0.03592400208323824, -0.3188424656785892,
             -0.7976653527835121, -0.6931732588960425)

KEYS = 4  # positions whose scores are added up together

# Entry -> its parameters; pitches are the floats from a row to the next one.
SIGNATURES = {
    "multiply": SIGNATURE,
    "attend": "ptr %query, i64 %query_pitch, ptr %pairs, i64 %pair_pitch, ptr %starts, ptr %counts, i64 %rows, "
              "i64 %heads, i64 %size, ptr %scratch, ptr %y",
    "gelu": "ptr %x, i64 %count",
    "unit": "ptr %x, i64 %rows, i64 %size, ptr %y",
    "centre": "ptr %x, i64 %rows, i64 %size, ptr %y",
    "dots": "ptr %a, i64 %a_pitch, ptr %b, i64 %b_pitch, i64 %rows, i64 %size, ptr %y",
    **LAYER_SIGNATURES,
}


def text(bits: int) -> str:
    """The module for a CPU whose vectors have `bits` bits; its entries are the keys of `SIGNATURES`."""
    return "\n".join([declarations(LANES), declare_math(LANES), FP32.declare(LANES), product_text(bits), _attend(),
                      _gelu(), _unit(), _centre(), _dots(), layer_text()])


def _function(write: Writer, name: str) -> str:
    return write.function(f"void @{name}({SIGNATURES[name]})")


def _attend() -> str:
    """Write what each row of queries attends to: `counts` positions from the one in `starts` on.

    A row of pairs holds the keys of all heads, then the values. `scratch` holds the scores of one head.
    """
    write, infinity = Writer(), float_text(float("-inf"))
    v = Vectors(write, LANES)
    width = write.mul("%heads", "%size")
    with write.loop(0, "%rows") as row:
        start, count = (write.let(f"load i64, ptr {write.at(base, row, 'i64')}, align 8")
                        for base in ("%starts", "%counts"))
        first, last = write.at("%pairs", write.mul(start, "%pair_pitch")), write.i64("sub", count, 1)
        with write.loop(0, "%heads") as head:
            offset = write.mul(head, "%size")
            query = write.at(write.at("%query", write.mul(row, "%query_pitch")), offset)
            key = write.at(first, offset)
            value = write.at(key, width)
            with write.loop(0, count, KEYS) as position:  # the last key is repeated
                keys = [write.at(key, write.mul(write.i64("smin", write.add(position, number), last), "%pair_pitch"))
                        for number in range(KEYS)]
                write.store(f"<{KEYS} x float>", dots(write, query, keys, "%size"), write.at("%scratch", position))
            write.store(VECTOR, f"splat (float {infinity})", write.at("%scratch", count))
            passes = write.i64("udiv", write.add(count, LANES - 1), LANES)

            def largest(carried: list[str]) -> list[str]:
                scores = write.load(VECTOR, write.at("%scratch", carried[0]))
                return [write.add(carried[0], LANES), v.select(v.compare("ogt", scores, carried[1]), scores,
                                                               carried[1])]

            most = write.repeat(passes, [("i64", "0"), (VECTOR, f"splat (float {infinity})")], largest)[1]
            greatest = write.splat(LANES, across(write, most, "larger"))

            def weigh(carried: list[str]) -> list[str]:
                to = write.at("%scratch", carried[0])
                weights = exp_of_negative(v, v.sub(write.load(VECTOR, to), greatest))
                write.store(VECTOR, weights, to)
                return [write.add(carried[0], LANES), v.add(carried[1], weights)]

            total = write.repeat(passes, [("i64", "0"), (VECTOR, "zeroinitializer")], weigh)[1]
            divisor = write.splat(LANES, across(write, total))
            y = write.at(write.at("%y", write.mul(row, width)), offset)
            with write.loop(0, "%size", 2 * LANES) as lane:  # two vectors: an addition waits for the one before
                masks = [first_lanes(write, write.i64("sub", write.i64("sub", "%size", lane), begin))
                         for begin in (0, LANES)]

                def gather(carried: list[str]) -> list[str]:
                    position, values, *totals = carried
                    weight = write.splat(LANES, write.load("float", write.at("%scratch", position)))
                    return [write.add(position, 1), write.at(values, "%pair_pitch"), *(
                        write.fma(LANES, weight, FP32.load_masked(write, LANES, write.at(values, begin), mask), total)
                        for begin, mask, total in zip((0, LANES), masks, totals, strict=True))]

                begun = [("i64", "0"), ("ptr", write.at(value, lane)), *[(VECTOR, "zeroinitializer")] * 2]
                for begin, mask, total in zip((0, LANES), masks, write.repeat(count, begun, gather)[2:], strict=True):
                    store(write, v.div(total, divisor), y, write.add(lane, begin), mask)
    return _function(write, "attend")


def _gelu() -> str:
    """Replace floats by gelu of them: x times the normal distribution function of x, with errors below 1e-6."""
    write = Writer()
    v = Vectors(write, LANES)
    with lanes(write, "%count") as (index, mask):
        x = load(write, "%x", index, mask)
        size = v.abs(x)
        tail = v.mul(exp_of_negative(v, v.horner(size, *GELU_TAIL)), size)
        store(write, v.sub(v.max(x, v.constant(0.0)), tail), "%x", index, mask)
    return _function(write, "gelu")


def _unit() -> str:
    """Write centred rows scaled to length 1."""
    write = Writer()
    with write.loop(0, "%rows") as row:
        x, y = (write.at(base, write.mul(row, "%size")) for base in ("%x", "%y"))
        scale = write.splat(LANES, unit_scale(write, x, "%size"))
        with lanes(write, "%size") as (index, mask):
            value = write.let(f"fmul {VECTOR} {load(write, x, index, mask)}, {scale}")
            store(write, value, y, index, mask)
    return _function(write, "unit")


def _centre() -> str:
    """Write rows less their mean."""
    write = Writer()
    v = Vectors(write, LANES)
    passes = write.i64("udiv", write.add("%size", LANES - 1), LANES)
    sizes = write.splat(LANES, write.let("sitofp i64 %size to float"))
    with write.loop(0, "%rows") as row:
        x, y = (write.at(base, write.mul(row, "%size")) for base in ("%x", "%y"))

        def step(carried: list[str]) -> list[str]:
            mask = first_lanes(write, write.i64("sub", "%size", carried[0]))
            return [write.add(carried[0], LANES), v.add(carried[1], load(write, x, carried[0], mask))]

        total = across(write, write.repeat(passes, [("i64", "0"), (VECTOR, "zeroinitializer")], step)[1])
        mean = v.div(write.splat(LANES, total), sizes)
        with lanes(write, "%size") as (index, mask):
            store(write, v.sub(load(write, x, index, mask), mean), y, index, mask)
    return _function(write, "centre")


def _dots() -> str:
    """Write the sum of the products of each row of a and the same row of b."""
    write = Writer()
    with write.loop(0, "%rows") as row:
        a, b = (write.at(base, write.mul(row, f"{base}_pitch")) for base in ("%a", "%b"))
        write.store("float", dot(write, a, b, "%size"), write.at("%y", row))
    return _function(write, "dots")
