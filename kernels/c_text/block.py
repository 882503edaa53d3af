"""Text of an implicit GEMM in OpenCL C and CUDA C++: a convolution as a product whose rows are gathered as it runs.

Source: S. Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014.

A work-group computes a block of C = A B: pixels of one image by output channels. Row m of A holds the inputs of pixel
m: one float for every filter tap and input channel, zero outside the image. A is never stored as a whole. B holds the
filters. A work-item computes tile_m pixels, group_m apart, by vectors_n x vector output channels.

`local_a` and `local_b` say whether the work-group first copies block_k channels of A and of B into local memory: on a
GPU this makes it fast; on a CPU barriers cost more than the copies save. The text depends on the shape of the block
alone. The last blocks are moved back to overlap the ones before, so that every work-item reaches every barrier.
"""

from __future__ import annotations

from dataclasses import dataclass

from .text import accumulator, signature, store

ARGUMENTS = (
    "channels", "filter_h", "filter_w", "height", "width", "columns",  # of a group; of the input; of the output
    "above", "before", "stride_h", "stride_w", "dilation_h", "dilation_w",
    "x_image", "x_group", "x_line", "x_pixel", "x_channel", "y_image", "y_group", "y_pixel", "y_channel",
    "pixels", "outputs",  # pixels of an image, output channels of a group
    "spots", "blocks", "channels_first",  # blocks along the pixels of an image and the channels of a group
)


@dataclass(frozen=True, slots=True)
class Block:
    """The numbers that determine the source text."""

    vector: int
    vectors_n: int
    tile_m: int
    group_m: int
    group_n: int
    block_k: int  # channels held in local memory; 0 where none are
    local_a: bool
    local_b: bool
    unroll: int  # channels of one pass of the innermost loop
    channels_last: bool
    padded: bool
    bias: bool
    relu: bool

    @property
    def pixels(self) -> int:
        """The number of pixels of one work-group."""
        return self.tile_m * self.group_m

    @property
    def outputs(self) -> int:
        """The number of output channels of one work-group."""
        return self.vector * self.vectors_n * self.group_n

    @property
    def pitch(self) -> int:
        """Floats between channels of A in local memory; odd where neighbouring work-items write different channels."""
        return self.pixels + (1 if self.channels_last else 0)


def text(block: Block) -> str:
    """The text behind the head."""
    return "\n".join(_lines(block))


def _lines(block: Block) -> list[str]:
    b, items = block, block.group_m * block.group_n
    names = [accumulator(0, i, v) for i in range(b.tile_m) for v in range(b.vectors_n)]
    lines = [
        f"\n__kernel WIDE GROUP({b.group_m}, {b.group_n})",
        f"void implicit_gemm({signature(ARGUMENTS)}) {{",
        "  const int tx = get_local_id(0), ty = get_local_id(1), g0 = get_group_id(0), g1 = get_group_id(1);",
        f"  const int item = ty * {b.group_m} + tx;",
        "  const int spot = channels_first ? g1 : g0, deep = channels_first ? g0 : g1;",
        f"  const int image = spot / spots, start = min(spot % spots * {b.pixels}, pixels - {b.pixels});",
        f"  const int group = deep / blocks, first = min(deep % blocks * {b.outputs}, outputs - {b.outputs})"
        f" + ty * {b.vector * b.vectors_n};",
        "  __global const float *input = x + image * x_image + group * x_group;",
        f"  __global const float *w = weights + deep * filter_h * filter_w * channels * {b.outputs};",
    ]
    if b.local_a:
        lines += [f"  SHARED float a[{b.block_k * b.pitch}];", f"  SHARED int place[{b.pixels}];"]
    else:
        lines += _pixels(b)
    if b.local_b:
        lines.append(f"  SHARED float b[{b.block_k * b.outputs}] ALIGNED(64);")
    lines.append("  floats " + ", ".join(f"{name} = 0.0f" for name in names) + ";")
    lines.append("  for (int r = 0; r < filter_h; r++) for (int s = 0; s < filter_w; s++) {")
    if b.local_a:
        lines += _group_offsets(b, items)
    else:
        lines += _offsets(b)
    step = str(b.block_k or "channels")
    lines.append(f"    for (int c0 = 0; c0 < channels; c0 += {step}) {{" if b.block_k else "    {")
    if b.block_k:
        lines.append("      barrier(CLK_LOCAL_MEM_FENCE);")
        lines += _stage(b, items)
        lines.append("      barrier(CLK_LOCAL_MEM_FENCE);")
    if b.padded and not b.local_a:  # for most taps, all pixels are inside the input
        inside = " & ".join(f"k{i}" for i in range(b.tile_m))
        lines += [f"      if ({inside}) {{", *_sum(b, step, False), "      } else {", *_sum(b, step, True), "      }"]
    else:
        lines += _sum(b, step, False)
    if not b.local_b:
        lines.append(f"      w += {step} * {b.outputs};")
    if not b.local_a:
        lines.append(f"      from += {step} * x_channel;")
    lines += ["    }", "  }",
              "  __global const float *bias_at = bias + group * outputs + first;",
              "  __global float *to = y + image * y_image + group * y_group"
              " + (start + tx) * y_pixel + first * y_channel;",
              "  const int y_row = 0;",
              *store(1, b.tile_m, b.vectors_n, b.vector, b.channels_last, b.bias, b.relu, b.group_m), "}\n"]
    return lines


def _pixels(b: Block) -> list[str]:
    """The input row and column at which the taps of every pixel of this work-item begin."""
    lines = ["  int q = (start + tx) / columns, rest = (start + tx) % columns;"]
    for i in range(b.tile_m):
        if i:
            lines.append(f"  rest += {b.group_m}; "
                         + ("if (rest == columns) { rest = 0; q++; }" if b.group_m == 1 else
                            "q += rest / columns; rest %= columns;"))
        lines.append(f"  const int h{i} = q * stride_h - above, v{i} = rest * stride_w - before;")
    return lines


def _offsets(b: Block) -> list[str]:
    """The offset of every pixel's input for one tap, and a bit mask, 0 if that is outside the image."""
    lines = ["    const int dh = r * dilation_h, dw = s * dilation_w;", "    __global const float *from = input;"]
    for i in range(b.tile_m):
        if b.padded:
            lines += [f"    const int k{i} = -((h{i} + dh >= 0) & (h{i} + dh < height)"
                      f" & (v{i} + dw >= 0) & (v{i} + dw < width));",
                      f"    const int o{i} = k{i} & ((h{i} + dh) * x_line + (v{i} + dw) * x_pixel);"]
        else:
            lines.append(f"    const int o{i} = (h{i} + dh) * x_line + (v{i} + dw) * x_pixel;")
    return lines


def _group_offsets(b: Block, items: int) -> list[str]:
    """The offset of the input of every pixel of the work-group for one tap, -1 outside the image."""
    return [
        f"    for (int m = item; m < {b.pixels}; m += {items}) {{",
        "      const int h = (start + m) / columns * stride_h - above + r * dilation_h;",
        "      const int v = (start + m) % columns * stride_w - before + s * dilation_w;",
        "      place[m] = h >= 0 && h < height && v >= 0 && v < width ? h * x_line + v * x_pixel : -1;",
        "    }"]


def _stage(b: Block, items: int) -> list[str]:
    """Copy block_k channels of A and B; neighbouring work-items read neighbouring floats."""
    lines = []
    if b.local_a:
        m, k = (f"e / {b.block_k}", f"e % {b.block_k}") if b.channels_last else (f"e % {b.pixels}", f"e / {b.pixels}")
        lines += [
            f"      for (int e = item; e < {b.block_k * b.pixels}; e += {items}) {{",
            f"        const int m = {m}, k = {k}, at = place[m];",
            f"        a[k * {b.pitch} + m] = at < 0 ? 0.0f : input[at + (c0 + k) * x_channel];",
            "      }"]
    if b.local_b:
        lines += [f"      for (int e = item; e < {b.block_k * b.outputs}; e += {items}) b[e] = w[e];",
                  f"      w += {b.block_k * b.outputs};"]
    return lines


def _sum(b: Block, step: str, masked: bool) -> list[str]:
    """The sum over `step` channels of one tap: every pixel's input times every vector of weights."""
    lines = [f"      for (int c = 0; c < {step}; c += {b.unroll}) {{"]
    if not b.local_a:
        lines.append(f"        __global const float *here = from + c{'' if b.channels_last else ' * x_channel'};")
    for u in range(b.unroll):
        address = f"{'b' if b.local_b else 'w'} + (c + {u}) * {b.outputs} + ty * {b.vector * b.vectors_n}"
        kind = "LOCAL" if b.local_b else "__global"
        lines.append("        { const floats " + ", ".join(
            f"w{v} = *({kind} const floats *)({address} + {v * b.vector})" for v in range(b.vectors_n)) + ";")
        for i in range(b.tile_m):
            if b.local_a:
                value = f"a[(c + {u}) * {b.pitch} + {i * b.group_m} + tx]"
            else:
                value = f"here[o{i} + {u}" + ("]" if b.channels_last else " * x_channel]")
                value = f"as_float(as_int({value}) & k{i})" if masked else value
            lines.append(f"        {{ const float s = {value}; "
                         + " ".join(f"{accumulator(0, i, v)} += s * w{v};" for v in range(b.vectors_n)) + " }")
        lines[-1] += " }"
    return [*lines, "      }"]
