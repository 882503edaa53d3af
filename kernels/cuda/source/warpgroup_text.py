"""CUDA text of a matrix product on Hopper: one warpgroup fetches tiles with TMA, the others multiply them with wgmma.

Sources: PTX ISA 8.x, "Asynchronous Warpgroup Level Matrix Instructions" (layouts in shared memory, descriptors) and
"Tensors" (swizzling modes); the division of labour follows NVIDIA's description of warp-specialised persistent kernels
in the CUTLASS documentation ("Efficient GEMM in CUDA").

Shared memory holds a ring of `stages` stages, each with a tile of A and one of B, then two barriers for every stage:
`full` (the bytes are there) and `empty` (every warp that multiplies is done with them).

Source of the epilogue: PTX ISA 8.x, "Register Fragments for wgmma.mma_async.m64nNk16".
"""

from __future__ import annotations

from functools import lru_cache
from string import Template

from ...c_text.prelude import NVRTC_OPTIONS
from ...files import sections
from ...launches.implementation import KernelSource
from .instructions import hopper_instructions
from .warpgroup_tile import BARRIER, WARPGROUP, StagedOperand, WarpgroupTile

ARGUMENTS = "int m, int n, int tiles_m, int tiles_n, int group_m, int steps, int slice_steps, int slices"
SUM_THREADS = 256
_PARTS = sections(__file__, "warpgroup.cu")


@lru_cache(maxsize=512)  # configurations that differ in order alone are often consecutive
def source(tile: WarpgroupTile) -> KernelSource:
    """The source of the kernel `wgmma_gemm`, and where k is split of the kernel `sum_slices`."""
    text = [hopper_instructions(tile.product), _PARTS["locate"], *_head(tile), *_fetch(tile), *_multiply(tile),
            *epilogue(tile), "    }", "  }"]
    if tile.cluster > 1:
        text.append("  cluster_sync();  // the other block may still write to this one's memory")
    text.append("}\n")
    return KernelSource("\n".join(text) + (sum_of_slices(tile) if tile.split else ""), NVRTC_OPTIONS)


def _head(t: WarpgroupTile) -> list[str]:
    bounds = f"__launch_bounds__({t.threads}, {t.resident})"
    if t.cluster > 1:
        bounds += f" __cluster_dims__({t.cluster}, 1, 1)"
    rank = ", rank = cluster_rank()" if t.cluster > 1 else ""
    per_cluster = f" / {t.cluster}" if t.cluster > 1 else ""
    return [
        f'extern "C" __global__ void {bounds} wgmma_gemm(',
        "    const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,",
        "    const element *x, const element *weights, const element *bias, element *y, float *workspace,",
        f"    {ARGUMENTS}) {{",
        f"  const unsigned ring_a = 0, ring_b = {t.stages * t.a.bytes};",
        f"  const unsigned full = {t.stages * (t.a.bytes + t.b.bytes)}, empty = full + {t.stages * BARRIER};",
        f"  const int warpgroup = threadIdx.x / {WARPGROUP}{rank};",
        f"  const int tiles = tiles_m * tiles_n * slices, first = blockIdx.x{per_cluster};",
        f"  const int stride = gridDim.x{per_cluster};",
        "  if (threadIdx.x == 0) {",
        "    copy_prefetch(map_a);",
        "    copy_prefetch(map_b);",
        f"    for (int stage = 0; stage < {t.stages}; stage++) {{",
        f"      barrier_init(full + {BARRIER} * stage, 1);",
        f"      barrier_init(empty + {BARRIER} * stage, {4 * t.consumers * t.cluster});",
        "    }",
        "    barrier_publish();",
        "  }",
        "  cluster_sync();" if t.cluster > 1 else "  __syncthreads();",
        "  int stage = 0, phase = 0;",
    ]


def _walk(t: WarpgroupTile) -> list[str]:
    """The loop over the block's tiles, which both roles run, and the place of each tile."""
    across = f"(row_index * {t.cluster} + rank)" if t.cluster > 1 else "row_index"
    return [
        "for (int tile = first; tile < tiles; tile += stride) {",
        "  int row_index, column_index;",
        "  locate(tile / slices, tiles_m, tiles_n, group_m, row_index, column_index);",
        f"  const int slice = tile % slices, row = {across} * {t.block_m}, column = column_index * {t.block_n};",
        "  const int begin = slice * slice_steps, end = min(steps, begin + slice_steps);",
    ]


def _advance(t: WarpgroupTile) -> str:
    return f"if (++stage == {t.stages}) {{ stage = 0; phase ^= 1; }}"


def _fetch(t: WarpgroupTile) -> list[str]:
    """The first warpgroup: one thread waits until a stage is empty and starts the copies that fill it."""
    lines = ["  if (warpgroup == 0) {"]
    if t.registers:
        lines.append(f"    release_registers<{t.registers[0]}>();")
    lines += [
        "    if (threadIdx.x == 0) {",
        *("      " + line for line in _walk(t)),
        "        for (int step = begin; step < end; step++) {",
        f"          const unsigned ready = full + {BARRIER} * stage;",
        f"          const unsigned to_a = ring_a + {t.a.bytes} * stage, to_b = ring_b + {t.b.bytes} * stage;",
        f"          const int depth = step * {t.block_k};",
        f"          barrier_wait(empty + {BARRIER} * stage, phase ^ 1);",
        f"          barrier_expect(ready, {t.a.bytes + t.b.bytes});",
        *("          " + line for line in _copies(t.a, "a", "row", 1)),
        *("          " + line for line in _copies(t.b, "b", "column", t.cluster)),
        f"          {_advance(t)}",
        "        }",
        "      }",
        "    }",
        "  } else {",
    ]
    return lines


def _copies(operand: StagedOperand, name: str, width: str, cluster: int) -> list[str]:
    """The copies of one stage's operand; in a cluster each block fetches its share for all of them."""
    call, tail = (("copy_box_to_all", f", {(1 << cluster) - 1}") if cluster > 1 else ("copy_box", ""))
    start = width if cluster == 1 else f"{width} + rank * {operand.share}"
    begin = "" if cluster == 1 else f" + rank * {operand.offset(operand.share, 0)}"
    lines = []
    for index in range(operand.copies):
        inner, outer = ((f"{start} + {index * operand.span}", "depth") if operand.across else
                        (f"depth + {index * operand.span}", start))
        lines.append(f"{call}(to_{name}{begin} + {index * operand.part}, map_{name}, ready, {inner}, {outer}{tail});")
    return lines


def _multiply(t: WarpgroupTile) -> list[str]:
    """The other warpgroups: wait until a stage is full, start its products, then release the stage before.

    The products of one stage run while the next stage is waited for. `sums` belongs to the tensor cores from
    `products_begin` to the wait that ends them.
    """
    lines = []
    if t.registers:
        lines.append(f"    take_registers<{t.registers[1]}>();")
    per_consumer = t.a.offset(64 * t.rows, 0)
    lines += [
        "    const int consumer = warpgroup - 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;",
        *("    " + line for line in _walk(t)),
        f"      float sums[{t.rows}][{t.product.registers}];",
        f"#pragma unroll\n      for (int i = 0; i < {t.rows}; i++)",
        f"#pragma unroll\n        for (int j = 0; j < {t.product.registers}; j++) sums[i][j] = 0.0f;",
        "      unsigned used = 0;",
        "      for (int step = begin; step < end; step++) {",
        f"        const unsigned at_a = ring_a + {t.a.bytes} * stage + consumer * {per_consumer};",
        f"        const unsigned at_b = ring_b + {t.b.bytes} * stage;",
        f"        const descriptor from_a = shared_descriptor({t.a.descriptor:#x}ull, at_a);",
        f"        const descriptor from_b = shared_descriptor({t.b.descriptor:#x}ull, at_b);",
        f"        barrier_wait(full + {BARRIER} * stage, phase);",
        "        products_begin();",
    ]
    for depth in range(0, t.block_k, 16):
        for i in range(t.rows):
            lines.append(f"        {t.product.call}(sums[{i}], from_a + {t.a.offset(64 * i, depth) // 16}, "
                         f"from_b + {t.b.offset(0, depth) // 16});")
    lines += [
        "        products_commit();",
        "        products_wait<1>();",
        f"        if (step > begin) {_release(t)}",
        f"        used = empty + {BARRIER} * stage;",
        f"        {_advance(t)}",
        "      }",
        "      products_wait<0>();",
        f"      {_release(t)}",
    ]
    return lines


def _release(t: WarpgroupTile) -> str:
    """One lane of each warp says that it is done with the stage before, to every block that fetches into it."""
    if t.cluster == 1:
        return "if (lane == 0) barrier_arrive(used);"
    return f"if (lane < {t.cluster}) barrier_arrive_at(used, lane);"


def epilogue(t: WarpgroupTile) -> list[str]:
    """The epilogue. Thread 4 r + q of a warp holds columns 8 j + 2 q and the next of rows r and r + 8."""
    lines = [
        f"      const int top = row + consumer * {64 * t.rows} + warp * 16 + lane / 4, left = column + lane % 4 * 2;",
        "#pragma unroll",
        f"      for (int j = 0; j < {t.block_n // 8}; j++) {{",
        "        const int at = left + 8 * j;",
        "        const bool one = at < n;" if t.paired else "        const bool one = at < n, two = at + 1 < n;",
    ]
    second = "one" if t.paired else "two"
    if t.bias and not t.split:
        lines += ["        const float low_bias = one ? to_float(load_global(bias + at)) : 0.0f;",
                  f"        const float high_bias = {second} ? to_float(load_global(bias + at + 1)) : 0.0f;"]
    lines += [
        "#pragma unroll",
        f"        for (int i = 0; i < {2 * t.rows}; i++) {{",
        "          const int line = top + i / 2 * 64 + i % 2 * 8;",
        "          float low = sums[i / 2][4 * j + i % 2 * 2], high = sums[i / 2][4 * j + i % 2 * 2 + 1];",
    ]
    if t.bias and not t.split:
        lines.append("          low += low_bias, high += high_bias;")
    if t.relu and not t.split:
        lines.append("          low = max(low, 0.0f), high = max(high, 0.0f);")
    lines.append("          if (line < m) {")
    lines += ["            " + line for line in (_partial(t) if t.split else _final(t))]
    return [*lines, "          }", "        }", "      }"]


def _partial(t: WarpgroupTile) -> list[str]:
    lines = ["float *to = workspace + (static_cast<long long>(slice) * m + line) * n + at;"]
    if t.paired:
        return [*lines, "if (one) store_global(reinterpret_cast<float2 *>(to), float2{low, high});"]
    return [*lines, "if (one) store_global(to, low);", "if (two) store_global(to + 1, high);"]


def _final(t: WarpgroupTile) -> list[str]:
    lines = ["element *to = y + static_cast<long long>(line) * n + at;", "const unsigned both = to_pair(low, high);"]
    if t.paired:
        return [*lines, "if (one) store_global(reinterpret_cast<unsigned *>(to), both);"]
    return [*lines, "if (one) store_global(to, static_cast<element>(both));",
            "if (two) store_global(to + 1, static_cast<element>(both >> 16));"]


def sum_of_slices(t: WarpgroupTile) -> str:
    """The second kernel: add the slices' sums in their order, then the epilogue."""
    bias = "\n    sum += to_float(load_global(bias + at % n));" if t.bias else ""
    relu = "\n    sum = max(sum, 0.0f);" if t.relu else ""
    return Template(_PARTS["sum_slices"]).substitute(SUM_THREADS=SUM_THREADS, ARGUMENTS=ARGUMENTS, bias=bias, relu=relu)
