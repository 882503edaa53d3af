"""Cache lines: derived quantities that describe how a tile uses a first-level cache, for kernels to declare.

The first-level caches of today's CPUs have 64 sets of 64-byte lines, so lines a multiple of 4 KiB apart compete for the
8 to 12 ways of one set. Many sizes in networks are powers of two: on planes of 32x32 or 224x224 floats the same pixel
of all channels falls into one set. The formulas assume 64 sets of 64-byte lines; on other caches the quantities are
features only.
"""

from __future__ import annotations

LINE = 16  # floats
PERIOD = 1024  # floats after which the sets repeat
PADDED = "(h + 2 * pad_h) * (w + 2 * pad_w)"  # floats of a plane that is copied with its padding


def conv2d_lines(block: str, plane: str = PADDED, pixels: str = "tile_w",
                 element: int = 4) -> tuple[tuple[str, str], ...]:
    """Derived quantities for rows of `pixels` pixels by `block` output channels, in planes of `plane` elements.

    All three are texts of expressions. An element has `element` bytes.
    `x_lines_a_set`, `y_lines_a_set`: the approximate number of lines in each used set, of one pixel's input channels
    and of a tile's output channels (NCHW), or of a row of the tile's pixels (NHWC).
    `x_line_visits`, `y_line_visits`: the number of consecutive tiles that read, or write, the same line.
    """
    line = 4 * LINE // element
    return (
        ("x_lines_a_set", f"{_lines('c_per_group', plane, element)} "
                          f"if layout == 'NCHW' else {_lines(pixels, 'c * stride_w', element)}"),
        ("y_lines_a_set", f"{_lines(block, 'out_h * out_w', element)} "
                          f"if layout == 'NCHW' else {_lines(pixels, 'k', element)}"),
        ("x_line_visits", f"max(1, {line} / ({pixels} * stride_w)) if layout == 'NCHW' else 1"),
        ("y_line_visits", f"max(1, {line} / ({pixels})) if layout == 'NCHW' else max(1, {line} / {block})"),
    )


def gemm_lines(block: str, element: int = 4) -> tuple[tuple[str, str], ...]:
    """Derived quantities for a tile of tile_m rows by `block` columns (the text of an expression).

    An element has `element` bytes.
    `a_lines_a_set`, `c_lines_a_set`: the number of lines in a set, of a column of A and of the tile's rows of C;
    `c_line_visits`: the number of tiles that write the same line.
    """
    return (
        ("a_lines_a_set", f"{_lines('k', 'm', element)} if trans_a == 'yes' else {_lines('tile_m', 'k', element)}"),
        ("c_lines_a_set", _lines("tile_m", "n", element)),
        ("c_line_visits", f"max(1, {4 * LINE // element} / {block})"),
    )


def _lines(count: str, step: str, element: int) -> str:
    """The lines in a set: `count` elements, `step` apart, use period / max(line, gcd(period, step)) sets."""
    line, period = 4 * LINE // element, 4 * PERIOD // element
    return f"max(1, {count} * max({line}, gcd({period}, {step})) / {period})"
