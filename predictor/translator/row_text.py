"""Row text: the LLVM IR of functions of rows, and how rows are read, written and added up by vectors of LANES floats.

Every number that a function writes is computed in one order of operations, from its own row alone. The order is that
of vectors of LANES floats, whatever the CPU's vectors are: LLVM cuts them into the CPU's own. So the result depends
neither on the other rows, nor on the number of rows, nor on addresses; and all CPUs that have the fused multiply-add
give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from seqtune.kernels.llvm.text.elements import FP32
from seqtune.kernels.llvm.text.vector_math import exp_of_negative
from seqtune.kernels.llvm.text.vectors import Vectors, float_text
from seqtune.kernels.llvm.text.writer import Writer

LANES = 16  # floats of a vector
EPSILON = 1e-5  # of PyTorch's layer norm
VECTOR = f"<{LANES} x float>"
_INTEGERS = f"<{LANES} x i32>"
_NUMBERS = f"<{', '.join(f'i32 {lane}' for lane in range(LANES))}>"
KEYS = 4  # positions whose scores are added up together
# ln of the normal distribution function of -|x| as a polynomial of |x|; the first coefficient is that of |x|^5. It was
# fitted so that the greatest error of gelu is least: 5e-7, which is the spacing of float32 numbers around 4.
GELU_TAIL = (-0.0003280729636587605, 0.004910640277841955, -0.03592400208323824, -0.3188424656785892,
             -0.7976653527835121, -0.6931732588960425)

# Entry -> its parameters; pitches are the floats from a row to the next one.
SIGNATURES = {
    "attend": "ptr %query, i64 %query_pitch, ptr %pairs, i64 %pair_pitch, ptr %starts, ptr %counts, i64 %rows, "
              "i64 %heads, i64 %size, ptr %scratch, ptr %y",
    "gelu": "ptr %x, i64 %count",
    "unit": "ptr %x, i64 %rows, i64 %size, ptr %y",
    "centre": "ptr %x, i64 %rows, i64 %size, ptr %y",
    "dots": "ptr %a, i64 %a_pitch, ptr %b, i64 %b_pitch, i64 %rows, i64 %size, ptr %y",
}


def row_text() -> str:
    """The functions of `SIGNATURES`."""
    return "\n".join([_attend(), _gelu(), _unit(), _centre(), _dots()])


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


def first_lanes(write: Writer, count: str) -> str:
    """The first `count` lanes; none where it is negative."""
    narrow = write.let(f"trunc i64 {write.i64('smin', count, LANES)} to i32")
    first = write.let(f"insertelement {_INTEGERS} poison, i32 {narrow}, i32 0")
    counts = write.let(f"shufflevector {_INTEGERS} {first}, {_INTEGERS} poison, {_INTEGERS} zeroinitializer")
    return write.let(f"icmp slt {_INTEGERS} {_NUMBERS}, {counts}")


@contextmanager
def lanes(write: Writer, count: str) -> Iterator[tuple[str, str]]:
    """Loop over `count` floats, a vector at a time: the index of its first float, and the mask of those that exist."""
    with write.loop(0, count, LANES) as index:
        yield index, first_lanes(write, write.i64("sub", count, index))


def load(write: Writer, base: str, index: str, mask: str) -> str:
    """Read the lanes of a mask from float `index` on; the others are 0."""
    return FP32.load_masked(write, LANES, write.at(base, index), mask)


def store(write: Writer, value: str, base: str, index: str, mask: str) -> None:
    """Write the lanes of a mask from float `index` on."""
    FP32.store_masked(write, LANES, value, write.at(base, index), mask)


def across(write: Writer, value: str, operation: str = "fadd") -> str:
    """Reduce the lanes of a vector to a float, by `fadd` or to the `larger` one: halves join until a lane is left."""
    count = LANES
    while count > 1:
        half = count // 2
        low, high = (write.shuffle(count, value, "poison", range(begin, begin + half)) for begin in (0, half))
        if operation == "larger":
            v = Vectors(write, half)
            value = v.select(v.compare("ogt", low, high), low, high)
        else:
            value = write.let(f"{operation} <{half} x float> {low}, {high}")
        count = half
    return write.let(f"extractelement <1 x float> {value}, i32 0")


def dot(write: Writer, first: str, second: str, size: str) -> str:
    """The sum of the products of two rows of `size` > 0 floats."""
    passes = write.i64("udiv", write.add(size, LANES - 1), LANES)

    def step(carried: list[str]) -> list[str]:
        index, total = carried
        mask = first_lanes(write, write.i64("sub", size, index))
        added = write.fma(LANES, load(write, first, index, mask), load(write, second, index, mask), total)
        return [write.add(index, LANES), added]

    return across(write, write.repeat(passes, [("i64", "0"), (VECTOR, "zeroinitializer")], step)[1])


def across_each(write: Writer, values: Sequence[str]) -> str:
    """Add up the lanes of each of several vectors as `across` does: a vector of the sums.

    Two vectors join into one while there are several, so that most instructions work for several sums. The number of
    values is a power of two.
    """
    vectors, size, left = list(values), LANES, LANES  # lanes of a vector, and how many of them are of one value
    while left > 1:
        half, others = left // 2, vectors[1::2] or ["poison"]
        begins = range(0, size * 2 if len(vectors) > 1 else size, left)
        added = []
        for first, second in zip(vectors[::2], others, strict=True):
            low, high = (write.shuffle(size, first, second, [begin + lane for begin in begins for lane in part])
                         for part in (range(half), range(half, left)))
            added.append(write.let(f"fadd <{len(begins) * half} x float> {low}, {high}"))
        vectors, size, left = added, len(begins) * half, half
    return vectors[0]


def dots(write: Writer, row: str, others: Sequence[str], size: str) -> str:
    """The sums of the products of a row and each of several others: a vector of what `dot` gives."""
    passes = write.i64("udiv", write.add(size, LANES - 1), LANES)

    def step(carried: list[str]) -> list[str]:
        index, *totals = carried
        mask = first_lanes(write, write.i64("sub", size, index))
        x = load(write, row, index, mask)
        return [write.add(index, LANES), *(write.fma(LANES, x, load(write, other, index, mask), total)
                                           for other, total in zip(others, totals, strict=True))]

    return across_each(write, write.repeat(passes, [("i64", "0"), *[(VECTOR, "zeroinitializer")] * len(others)],
                                           step)[1:])


def unit_scale(write: Writer, row: str, size: str) -> str:
    """The factor that scales a centred row to length 1."""
    length = dot(write, row, row, size)
    sizes = write.let(f"sitofp i64 {size} to float")
    total = write.let(f"fadd float {length}, {write.let(f'fmul float {sizes}, {float_text(EPSILON)}')}")
    v = Vectors(write, LANES)
    root = v.unary("sqrt", write.splat(LANES, total))
    return write.let(f"extractelement {VECTOR} {v.div(v.constant(1.0), root)}, i32 0")
