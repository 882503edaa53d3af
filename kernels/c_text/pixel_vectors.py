"""OpenCL C text of a register tile of one output channel, whose vectors lie along the pixels of a row.

It computes what `tile.text` does for single floats. There the compiler finds the vectors: LLVM in PoCL does, Intel's
compiler for CPUs does not and multiplies one pixel at a time.
"""

from __future__ import annotations

from .text import accumulator

WIDTHS = (16, 8, 4, 2, 1)  # floats of a vector variable


def parts(pixels: int) -> list[tuple[int, int]]:
    """The (first pixel, width) of the vectors that hold a row of `pixels` pixels."""
    vectors: list[tuple[int, int]] = []
    first = 0
    for width in WIDTHS:
        while pixels - first >= width:
            vectors.append((first, width))
            first += width
    return vectors


def types(rows: int, pixels: int) -> list[str]:
    """Lines that declare vectors that memory need not align, and the accumulators, all 0."""
    return [line for width in sorted({width for _, width in parts(pixels)})
            for line in (f"  typedef {_kind(width)} __attribute__((aligned(4))) pixels{width};",
                         f"  {_kind(width)} " + ", ".join(
                             f"{accumulator(j, first, 0)} = 0.0f" for j in range(rows)
                             for first, own in parts(pixels) if own == width) + ";")]


def sums(rows: int, pixels: int, load: bool) -> str:
    """Statements that load the accumulators from `sums`, or store them there."""
    lines = []
    for j in range(rows):
        for first, width in parts(pixels):
            place = f"*(__global pixels{width} *)(sums + {j * pixels + first})"
            name = accumulator(j, first, 0)
            lines.append(f"{name} = {place};" if load else f"{place} = {name};")
    return " ".join(lines)


def taps(rows: int, pixels: int) -> list[str]:
    """The sum over a piece of the inner axis; the inputs of neighbouring pixels are neighbours in memory."""
    lines = ["    __global const float *p0 = (padded ? workspace : x) + (corner + o * x_outer + m * x_middle);",
             *(f"    __global const float *p{j} = p0 + {j} * x_row;" for j in range(1, rows)),
             "    for (int i = 0; i < piece; i++, w++) {", "      const float w0 = *w;"]
    lines += [f"      {accumulator(j, first, 0)} += *(__global const pixels{width} *)(p{j} + {first}) * w0;"
              for j in range(rows) for first, width in parts(pixels)]
    return [*lines, "      " + " ".join(f"p{j} += x_inner;" for j in range(rows)) + " }"]


def store(rows: int, pixels: int, bias: bool, relu: bool) -> list[str]:
    """Lines that apply the epilogue to the accumulators and store them at `to`."""
    lines = ["  const float b0 = *bias_at;"] if bias else []
    for j in range(rows):
        for first, width in parts(pixels):
            name = accumulator(j, first, 0)
            if bias:
                lines.append(f"  {name} += b0;")
            if relu:  # not fmax: PoCL 3.0 finds no kernel in a text that calls it on 16 floats where AVX-512 is missing
                lines.append(f"  {name} = {name} > 0.0f ? {name} : ({_kind(width)})(0.0f);")
            lines.append(f"  *(__global pixels{width} *)(to + {j} * y_row + {first}) = {name};")
    return lines


def _kind(width: int) -> str:
    return f"float{width}" if width > 1 else "float"
