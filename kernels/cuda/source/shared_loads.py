"""Text that brings one tile of A and of B from global into shared memory, by registers or asynchronously.

Variables: `c0` is the first channel of the next tile, `r` and `s` its tap, `w` this thread's part of the next tile of
B. `at` variables are offsets of rows of A in `x`, -1 where there is nothing to read.
"""

from __future__ import annotations

from .shared_block import SharedBlock


def kind(floats: int) -> str:
    """The type of so many floats."""
    return "float" if floats == 1 else f"float{floats}"


def _position(b: SharedBlock, load: int) -> tuple[str, str, int]:
    """The row in the tile and the channel in the tile of a load of A, as expressions, and the number of its row."""
    across = (b.block_m if b.rows_first else b.block_k) // b.load_a  # loads along the contiguous axis
    if b.threads >= across:
        near, far = f"item % {across} * {b.load_a}", f"item / {across} + {load * (b.threads // across)}"
        return (near, far, 0) if b.rows_first else (far, near, load)
    pieces = across // b.threads  # loads of a long row, which all threads share
    near, far = f"(item + {load % pieces * b.threads}) * {b.load_a}", f"{load // pieces}"
    return (near, far, load % pieces) if b.rows_first else (far, near, load // pieces)


def rows(b: SharedBlock) -> list[str]:
    """Declare, once, the rows that this thread loads, and the first tile's channel and tap."""
    lines = []
    positions = {number: row for row, _, number in (_position(b, load) for load in range(b.loads_a))}
    for number, row in positions.items():
        lines.append(f"  const int m{number} = start + {row};")
        if not b.gathered:
            lines.append(f"  const int at{number} = m{number} < rows ? m{number} * x_row : -1;")
            continue
        lines += [
            f"  const int p{number} = m{number} % area, base{number} = m{number} / area * x_image + group * x_group;",
            f"  const int h{number} = m{number} < rows ? p{number} / columns * stride_h - above : {-1 << 28};",
            f"  const int v{number} = p{number} % columns * stride_w - before;"]
        if not b.flat:
            lines.append(f"  int at{number} = -1;")
    if not b.gathered or b.flat:
        return [*lines, f"  int c0 = begin * {b.block_k};"]
    return [*lines, f"  const int tap_tiles = (channels + {b.block_k - 1}) / {b.block_k};",
            "  int r = begin / tap_tiles / filter_w, s = begin / tap_tiles % filter_w;",
            f"  int c0 = begin % tap_tiles * {b.block_k}, fresh = 1;"]


def _inside(b: SharedBlock, number: int, line: str, column: str) -> str:
    """The offset of a pixel's input at one tap, -1 outside."""
    offset = f"base{number} + ({line}) * x_line + ({column}) * x_pixel"
    if not b.padded:
        return f"h{number} < 0 ? -1 : {offset}"
    return (f"({line}) >= 0 && ({line}) < height && ({column}) >= 0 && ({column}) < width"
            f" ? {offset} : -1")


def locate(b: SharedBlock) -> list[str]:
    """Compute the offsets of the rows where a new tap begins."""
    if not b.gathered or b.flat:
        return []
    numbers = dict.fromkeys(_position(b, load)[2] for load in range(b.loads_a))
    lines = [f"at{number} = " + _inside(b, number, f"h{number} + r * dilation_h", f"v{number} + s * dilation_w") + ";"
             for number in numbers]
    return ["if (fresh) {", *(f"  {line}" for line in lines), "}"]


def _source(b: SharedBlock, load: int) -> tuple[list[str], str, str]:
    """Lines before a load of A, the condition under which there is something to load, and its address."""
    _, channel, number = _position(b, load)
    step = " * x_channel" if b.rows_first else ""
    if not b.flat:
        ragged = f" && c0 + {channel} < channels" if b.ragged else ""
        return [], f"at{number} >= 0{ragged}", f"x + at{number} + (c0 + {channel}){step}"
    lines = [f"const int e = c0 + {channel}, tap = e / channels, c = e % channels;",
             "const int line = tap / filter_w * dilation_h, column = tap % filter_w * dilation_w;",
             "const int from = " + _inside(b, number, f"h{number} + line", f"v{number} + column") + ";"]
    ragged = " && tap < taps" if b.ragged else ""
    return lines, f"from >= 0{ragged}", f"x + from + c{step}"


def advance(b: SharedBlock) -> list[str]:
    """Go to the next tile."""
    lines = [f"w += {b.block_k * b.block_n}; c0 += {b.block_k};"]
    if b.gathered and not b.flat:
        lines += ["fresh = c0 >= channels;", "if (fresh) { c0 = 0; s++; if (s == filter_w) { s = 0; r++; } }"]
    return lines


def staged(b: SharedBlock) -> str:
    """Declare the registers that hold a tile between global and shared memory."""
    names = [f"{kind(b.load_a)} " + ", ".join(f"fa{load}" for load in range(b.loads_a)),
             f"{kind(b.load_b)} " + ", ".join(f"fb{load}" for load in range(b.loads_b))]
    return "  " + "; ".join(names) + ";"


def load(b: SharedBlock) -> list[str]:
    """Load the next tile into registers."""
    lines = locate(b)
    for number in range(b.loads_a):
        before, inside, address = _source(b, number)
        lines.append("{ " + " ".join([*before, f"fa{number} = 0.0f;"])
                     + f" if ({inside}) fa{number} = *(__global const {kind(b.load_a)} *)({address}); }}")
    lines += [f"fb{number} = *(__global const {kind(b.load_b)} *)(w + {number * b.threads * b.load_b});"
              for number in range(b.loads_b)]
    return lines + advance(b)


def store(b: SharedBlock, pool: str) -> list[str]:
    """Store the registers in shared memory at `pool`: A as [channel][row], B as [channel][column]."""
    lines = []
    for number in range(b.loads_a):
        row, channel, _ = _position(b, number)
        if b.rows_first:
            lines.append(f"*(LOCAL {kind(b.load_a)} *)({pool} + ({channel}) * {b.pitch} + {row}) = fa{number};")
            continue
        for lane in range(b.load_a):
            element = f".s{lane}" if b.load_a > 1 else ""
            lines.append(f"{pool}[({channel} + {lane}) * {b.pitch} + {row}] = fa{number}{element};")
    lines += [f"*(LOCAL {kind(b.load_b)} *)({pool} + {b.block_k * b.pitch + number * b.threads * b.load_b}"
              f" + item * {b.load_b}) = fb{number};" for number in range(b.loads_b)]
    return lines


def copy(b: SharedBlock, pool: str) -> list[str]:
    """Copy the next tile asynchronously into shared memory at `pool`, and commit to it."""
    lines = locate(b)
    for number in range(b.loads_a):
        row, channel, _ = _position(b, number)
        before, inside, address = _source(b, number)
        lines.append("{ " + " ".join(before)
                     + f" COPY({b.load_a}, {pool} + ({channel}) * {b.pitch} + {row}, {address}, {inside}); }}")
    lines += [f"COPY({b.load_b}, {pool} + {b.block_k * b.pitch + number * b.threads * b.load_b} + item * {b.load_b}, "
              f"w + {number * b.threads * b.load_b}, 1);" for number in range(b.loads_b)]
    return lines + advance(b)
