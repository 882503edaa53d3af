"""Kernel text of a matrix product in shared memory, which is both OpenCL C and CUDA C++.

Three ways to bring the tiles of the sum: one buffer (load, wait, compute); two buffers, where registers hold the next
tile while this one is computed; or asynchronous copies into a ring of `stages` buffers. In the last, a barrier at the
head of each step separates the reads of a buffer from the copies that fill it again `stages` steps later.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...c_text.text import accumulator, signature
from . import shared_loads as loads
from .shared_block import ARGUMENTS, REDUCE_GROUP, WARP, SharedBlock
from .shared_loads import kind

UNROLLED = 16  # most channels of a tile: longer code is no faster
FOUR = 4  # floats that a thread reads from shared memory at once


def text(block: SharedBlock) -> str:
    """The text of the kernels `shared_block` and, where the sum is split, `reduce`."""
    return "\n".join([*_product(block), *(_reduce(block) if block.split else [])])


def _product(b: SharedBlock) -> list[str]:
    return [
        f"\n__kernel WIDE GROUP({b.threads}, 1) void shared_block({signature(ARGUMENTS)}) {{",
        f"  POOL(pool, {b.stages * b.buffer});",
        "  const int item = get_local_id(0), g0 = get_group_id(0), g1 = get_group_id(1);",
        "  const int slice = g1 % slices, group = g1 / slices;",
        *_swizzle(b),
        f"  const int start = spot * {b.block_m}, first = panel * {b.block_n};",
        *_threads(b),
        "  const int begin = slice * share, end = min(tiles, begin + share);",
        "  __global const float *w = weights"
        f" + ((group * blocks + panel) * tiles + begin) * {b.block_k * b.block_n} + item * {b.load_b};",
        *loads.rows(b),
        "  floats " + ", ".join(f"{accumulator(0, i, v)} = 0.0f"
                                for i in range(b.thread_m) for v in range(_vectors(b))) + ";",
        "  {", *_indent(_ring(b) if b.asynchronous else _double(b) if b.stages > 1 else _single(b)), "  }",
        *_epilogue(b), "}\n"]


def width(b: SharedBlock) -> int:
    """The columns of one accumulator: the size of `floats`."""
    return min(FOUR, b.thread_n)


def _vectors(b: SharedBlock) -> int:
    return b.thread_n // width(b)


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _swizzle(b: SharedBlock) -> list[str]:
    """The block's place among the blocks: group_m rows of blocks run together, column by column."""
    if b.group_m == 1:
        return ["  const int spot = g0 / blocks, panel = g0 % blocks;"]
    return [f"  const int top = g0 / ({b.group_m} * blocks) * {b.group_m}, rest = g0 % ({b.group_m} * blocks);",
            f"  const int high = min(spots - top, {b.group_m});",
            "  const int spot = top + rest % high, panel = rest / high;"]


def _threads(b: SharedBlock) -> list[str]:
    """The thread's place in the block, along the columns (tx) and the rows (ty)."""
    across = b.threads_n // b.lanes_n  # warps
    return [f"  const int lane = item % {WARP}, warp = item / {WARP};",
            f"  const int tx = warp % {across} * {b.lanes_n} + lane % {b.lanes_n};",
            f"  const int ty = warp / {across} * {WARP // b.lanes_n} + lane / {b.lanes_n};"]


def _single(b: SharedBlock) -> list[str]:
    return [loads.staged(b), "for (int t = begin; t < end; t++) {", *_indent(loads.load(b)),
            "  barrier(CLK_LOCAL_MEM_FENCE);", *_indent(loads.store(b, "pool")),
            "  barrier(CLK_LOCAL_MEM_FENCE);", *_indent(_sum(b, "0")), "}"]


def _double(b: SharedBlock) -> list[str]:
    return [loads.staged(b), *loads.load(b), *loads.store(b, "pool"), "barrier(CLK_LOCAL_MEM_FENCE);",
            "int at = 0;", "for (int t = begin; t < end; t++) {",
            "  if (t + 1 < end) {", *_indent(_indent(loads.load(b))), "  }",
            *_indent(_sum(b, "at")),
            f"  at = {b.buffer} - at;", "  LOCAL float *next = pool + at;",
            "  if (t + 1 < end) {", *_indent(_indent(loads.store(b, "next"))), "  }",
            "  barrier(CLK_LOCAL_MEM_FENCE);", "}"]


def _ring(b: SharedBlock) -> list[str]:
    whole = b.stages * b.buffer
    return [f"for (int ahead = 0; ahead < {b.stages - 1}; ahead++) {{", "  if (begin + ahead < end) {",
            f"    LOCAL float *next = pool + ahead * {b.buffer};", *_indent(_indent(loads.copy(b, "next"))),
            "  }", "  COMMIT;", "}", f"int at = 0, to = {(b.stages - 1) * b.buffer};",
            "for (int t = begin; t < end; t++) {",
            f"  AWAIT({b.stages - 2});", "  barrier(CLK_LOCAL_MEM_FENCE);",
            f"  if (t + {b.stages - 1} < end) {{", "    LOCAL float *next = pool + to;",
            *_indent(_indent(loads.copy(b, "next"))), "  }", "  COMMIT;",
            *_indent(_sum(b, "at")),
            f"  at += {b.buffer}; if (at == {whole}) at = 0;",
            f"  to += {b.buffer}; if (to == {whole}) to = 0;", "}"]


def _sum(b: SharedBlock, at: str) -> list[str]:
    """Add the products of the tile that lies at `at` in the pool."""
    high, across = min(FOUR, b.thread_m), width(b)
    lines = [f"LOCAL const float *a = pool + {at} + ty * {high};",
             f"LOCAL const float *b = pool + {at} + {b.block_k * b.pitch} + tx * {across};",
             f"UNROLL(unroll {min(b.block_k, UNROLLED)})",
             f"for (int k = 0; k < {b.block_k}; k++) {{"]
    lines += [f"  const {kind(high)} a{g} = *(LOCAL const {kind(high)} *)"
              f"(a + k * {b.pitch} + {g * high * b.threads_m});" for g in range(b.thread_m // high)]
    lines += [f"  const floats b{v} = *(LOCAL const floats *)(b + k * {b.block_n} + {v * across * b.threads_n});"
              for v in range(_vectors(b))]
    for i in range(b.thread_m):
        value = f"a{i // high}" + (f".s{i % high}" if high > 1 else "")
        lines.append("  " + " ".join(f"{accumulator(0, i, v)} += {value} * b{v};" for v in range(_vectors(b))))
    return ["{", *_indent(lines), "  }", "}"]


def _epilogue(b: SharedBlock) -> list[str]:
    """Bias, activation and stores of what lies inside C; a slice of the sum goes to the workspace as it is."""
    across = width(b)
    lines = ["  __global float *to = " + ("workspace + slice * y_total" if b.split else "y") + " + group * y_group;"]
    for v in range(_vectors(b)):
        column = f"first + {v * across * b.threads_n} + tx * {across}"
        lines.append(f"  const int n{v} = {column};")
        if b.bias and not b.split:
            values = [f"bias[group * outputs + min(n{v} + {lane}, outputs - 1)]" for lane in range(across)]
            lines.append(f"  const floats bias{v} = {_joined(values)};")
            lines += [f"  {accumulator(0, i, v)} += bias{v};" for i in range(b.thread_m)]
        if b.relu and not b.split:
            lines += [f"  {name} = RELU({name});" for name in (accumulator(0, i, v) for i in range(b.thread_m))]
    for group in range(b.thread_m // min(FOUR, b.thread_m)):
        lines += _columns_last(b, group) if b.columns_last else _rows_last(b, group)
    return lines


def _joined(values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"FLOAT{len(values)}({', '.join(values)})"


def _row(b: SharedBlock, group: int) -> str:
    """The first of the neighbouring rows of a group of a thread's rows."""
    high = min(FOUR, b.thread_m)
    return f"start + {group * high * b.threads_m} + ty * {high}"


def _element(b: SharedBlock, row: int, vector: int, lane: int) -> str:
    return accumulator(0, row, vector) + (f".s{lane}" if width(b) > 1 else "")


def _columns_last(b: SharedBlock, group: int) -> list[str]:
    """Store rows whose columns are neighbours."""
    high, lines = min(FOUR, b.thread_m), []
    for i in range(high):
        lines.append(f"  {{ const int row = {_row(b, group)} + {i}; if (row < rows) {{ "
                     "__global float *line = to + row * y_row;")
        for v in range(_vectors(b)):
            for lane in range(0, width(b), b.store):
                value = _joined([_element(b, group * high + i, v, lane + o) for o in range(b.store)])
                lines.append(f"    if (n{v} + {lane} < outputs) *(__global {kind(b.store)} *)(line + n{v} + {lane})"
                             f" = {value};")
        lines.append("  } }")
    return lines


def _rows_last(b: SharedBlock, group: int) -> list[str]:
    """Store columns whose rows, the pixels of an image, are neighbours; no store crosses from image to image."""
    high, lines = min(FOUR, b.thread_m), []
    for i in range(0, high, b.store):
        lines.append(f"  {{ const int row = {_row(b, group)} + {i}; if (row < rows) {{ "
                     "__global float *plane = to + row / area * y_image + row % area;")
        for v in range(_vectors(b)):
            for lane in range(width(b)):
                value = _joined([_element(b, group * high + i + o, v, lane) for o in range(b.store)])
                lines.append(f"    if (n{v} + {lane} < outputs) *(__global {kind(b.store)} *)"
                             f"(plane + (n{v} + {lane}) * area) = {value};")
        lines.append("  } }")
    return lines


def _reduce(b: SharedBlock) -> list[str]:
    """The second step: add the slices in their order, then bias and activation."""
    lines = [f"__kernel GROUP({REDUCE_GROUP}, 1) void reduce({signature(ARGUMENTS)}) {{",
             "  for (int i = get_global_id(0); i < y_total; i += get_global_size(0)) {",
             "    float sum = workspace[i];",
             "    for (int z = 1; z < slices; z++) sum += workspace[z * y_total + i];"]
    if b.bias:
        lines.append("    sum += bias[i / bias_step % bias_count];")
    if b.relu:
        lines.append("    sum = sum > 0.0f ? sum : 0.0f;")
    return [*lines, "    y[i] = sum;", "  }", "}\n"]
