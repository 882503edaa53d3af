"""Cache lines: derived quantities that say what a tile does to a first-level cache, for kernels to declare.

A first-level cache of a CPU has 64 sets of 64-byte lines, so lines whose addresses differ by a multiple of 4 KiB
compete for one set of 8 to 12 ways. Sizes of networks are rich in powers of two: on a plane of 32x32 or 224x224 floats
the same pixel of all channels falls into one set, and a tile that touches more channels than there are ways loads its
lines again and again, which can cost half of the speed.
"""

from __future__ import annotations

from seqtune.kernels.expression import Expression

LINE = 16  # floats
PERIOD = 1024  # floats after which the sets repeat


def conv2d_lines(block: str) -> tuple[tuple[str, Expression], ...]:
    """For a tile of tile_h x tile_w pixels by `block` output channels (an expression)."""
    return tuple((name, Expression(text)) for name, text in (
        # lines that the reduction over channels, or the pixels of a tile, put into one set
        ("x_lines_a_set", f"c_per_group * gcd({PERIOD}, (h + 2 * pad_h) * (w + 2 * pad_w)) / {PERIOD} "
                          f"if layout == 'NCHW' else tile_w * gcd({PERIOD}, c * stride_w) / {PERIOD}"),
        ("y_lines_a_set", f"({block}) * gcd({PERIOD}, out_h * out_w) / {PERIOD} "
                          f"if layout == 'NCHW' else tile_w * gcd({PERIOD}, k) / {PERIOD}"),
        # tiles that read, or write, the same line one after the other
        ("x_line_visits", f"max(1, {LINE} / (tile_w * stride_w)) if layout == 'NCHW' else 1"),
        ("y_line_visits", f"max(1, {LINE} / tile_w) if layout == 'NCHW' else max(1, {LINE} / ({block}))"),
    ))


def gemm_lines(block: str) -> tuple[tuple[str, Expression], ...]:
    """For a tile of tile_m rows by `block` columns (an expression)."""
    return tuple((name, Expression(text)) for name, text in (
        ("a_lines_a_set", f"k * gcd({PERIOD}, m) / {PERIOD} if trans_a == 'yes' "
                          f"else tile_m * gcd({PERIOD}, k) / {PERIOD}"),
        ("c_lines_a_set", f"tile_m * gcd({PERIOD}, n) / {PERIOD}"),
        ("c_line_visits", f"max(1, {LINE} / ({block}))"),
    ))
