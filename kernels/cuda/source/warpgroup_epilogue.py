"""CUDA text that stores the sums of a warpgroup: to the output with bias and activation, or to the workspace.

Source: PTX ISA 8.x, "Register Fragments for wgmma.mma_async.m64nNk16".
"""

from __future__ import annotations

from .warpgroup_tile import WarpgroupTile

ARGUMENTS = "int m, int n, int tiles_m, int tiles_n, int group_m, int steps, int slice_steps, int slices"
SUM_THREADS = 256


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
    return f"""
extern "C" __global__ void __launch_bounds__({SUM_THREADS}) sum_slices(
    const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
    const element *x, const element *weights, const element *bias, element *y, float *workspace,
    {ARGUMENTS}) {{
  const long long size = static_cast<long long>(m) * n;
  for (long long at = static_cast<long long>(blockIdx.x) * {SUM_THREADS} + threadIdx.x; at < size;
       at += static_cast<long long>(gridDim.x) * {SUM_THREADS}) {{
    float sum = 0.0f;
    for (int slice = 0; slice < slices; slice++) sum += load_global(workspace + slice * size + at);{bias}{relu}
    store_global(y + at, to_element(sum));
  }}
}}
"""
