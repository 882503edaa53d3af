"""Lane text: LLVM IR that reads, writes and adds up rows of floats by vectors of LANES floats.

The lanes of a sum are added in one order, which does not depend on the CPU's vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from seqtune.kernels.llvm.text.elements import FP32
from seqtune.kernels.llvm.text.vectors import Vectors, float_text
from seqtune.kernels.llvm.text.writer import Writer

LANES = 16  # floats of a vector
EPSILON = 1e-5  # of PyTorch's layer norm
VECTOR = f"<{LANES} x float>"
_INTEGERS = f"<{LANES} x i32>"
_NUMBERS = f"<{', '.join(f'i32 {lane}' for lane in range(LANES))}>"


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
