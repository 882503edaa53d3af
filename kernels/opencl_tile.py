"""OpenCL C text of one register tile: what the direct convolution and the matrix product share.

A work-item computes tile_h x tile_w output pixels of vectors_k x vector output channels. Accumulators are named
variables, because PoCL keeps no array in registers. The text holds the shape of the tile alone: the shape of the
problem arrives as `int` arguments (ARGUMENTS), so that one build serves every problem. The last tile along each axis
is moved back to overlap the one before it, and writes the same numbers again; nothing else handles tails.

A matrix product is a convolution with one tap whose pixels are the rows of A.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seqtune.kernels.device import Device
from seqtune.kernels.implementation import Launch, Phase, Source

OPTIONS = ("-cl-std=CL1.2", "-cl-fast-relaxed-math", "-cl-mad-enable")

# Steps and offsets count floats. x_* walk the input as the tile reads it (the padded copy where there is one).
ARGUMENTS = (
    "channels", "filter_h", "filter_w",  # of one group; the sum runs over them
    "x_image", "x_group", "x_channel", "x_row", "x_pixel",  # x_row, x_pixel: from one output pixel's input to the next
    "x_tap_h", "x_tap_w",
    "y_image", "y_group", "y_channel", "y_row", "y_pixel",
    "images", "groups", "rows", "columns", "outputs",  # outputs: channels of y in one group
    "tiles_h", "tiles_w", "blocks", "channels_first",
    "padded", "planes", "height", "padded_height", "above", "row_floats", "margin",  # of the padded copy
)


@dataclass(frozen=True, slots=True)
class Tile:
    """What enters the text."""

    vector: int  # floats of one vector variable
    vectors_k: int
    tile_w: int
    tile_h: int
    pixel_step: int  # floats between the inputs of neighbouring pixels; 0: x_pixel says it, and channels are adjacent
    channels_last: bool  # the output's channels are adjacent, else its pixels
    bias: bool
    relu: bool

    @property
    def block(self) -> int:
        """Output channels of one work-item."""
        return self.vector * self.vectors_k


def source(tile: Tile) -> Source:
    """The kernels `pad` and `tile`."""
    return Source(_HEAD.replace("FLOATS", _vector_type(tile.vector)) + _PAD + _tile(tile), OPTIONS)


def launch(tile: Tile, device: Device, order: str, work_group: int, sizes: Mapping[str, int]) -> Launch:
    """The phases for a problem described by ARGUMENTS; `sizes` leaves out what follows from the tile.

    `order` names the axis along which neighbouring work-items lie, "pixels" or "channels"; a work-group holds
    `work_group` of them.
    """
    values = dict(sizes)
    values["tiles_h"], values["tiles_w"] = -(-values["rows"] // tile.tile_h), -(-values["columns"] // tile.tile_w)
    values["blocks"] = -(-values["outputs"] // tile.block)
    values["channels_first"] = int(order == "channels")
    across, down = values["tiles_w"], values["tiles_h"] * values["images"]
    deep = values["blocks"] * values["groups"]
    first, second, third = (deep, across, down) if order == "channels" else (across, down, deep)
    rounded = -(-first // work_group) * work_group
    phases = [Phase("tile", global_size=(rounded, second, third), local_size=(work_group, 1, 1))]
    workspace = 0
    if values["padded"]:
        rows = values["planes"] * values["padded_height"]
        workspace = rows * (values["row_floats"] + 2 * values["margin"])
        items = min(rows, 32 * device.compute_units)
        phases.insert(0, Phase("pad", global_size=(items,), local_size=(1,)))
    return Launch(tuple(values[name] for name in ARGUMENTS), tuple(phases), workspace)


_SIGNATURE = ("__global const float *restrict x, __global const float *restrict weights,\n"
              "    __global const float *restrict bias, __global float *restrict y,\n"
              "    __global float *restrict workspace, " + ", ".join(f"int {name}" for name in ARGUMENTS))

# min_vector_width: without it LLVM splits float16 in two on the CPUs where it prefers 256 bits.
_HEAD = """\
#ifdef __AVX512F__
#define WIDE __attribute__((min_vector_width(512)))
#else
#define WIDE
#endif
typedef FLOATS floats;
typedef FLOATS __attribute__((aligned(4))) loose;
typedef float4 __attribute__((aligned(4))) loose4;
"""

_PAD = f"""
__kernel void pad({_SIGNATURE}) {{
  const int total = planes * padded_height, length = row_floats + 2 * margin;
  const int items = get_global_size(0), item = get_global_id(0);
  const int share = (total + items - 1) / items;
  for (int row = item * share; row < min(total, (item + 1) * share); row++) {{
    const int line = row % padded_height - above;
    __global float *to = workspace + row * length;
    if (line < 0 || line >= height) {{
      for (int i = 0; i < length; i++) to[i] = 0.0f;
    }} else {{
      __global const float *from = x + (row / padded_height * height + line) * row_floats;
      for (int i = 0; i < margin; i++) to[i] = 0.0f;
      for (int i = 0; i < row_floats; i++) to[margin + i] = from[i];
      for (int i = margin + row_floats; i < length; i++) to[i] = 0.0f;
    }}
  }}
}}
"""


def _vector_type(vector: int) -> str:
    return "float" if vector == 1 else f"float{vector}"


def _tile(tile: Tile) -> str:
    rows, pixels, vectors = range(tile.tile_h), range(tile.tile_w), range(tile.vectors_k)
    pixel_step = str(tile.pixel_step) if tile.pixel_step else "x_pixel"
    channel_step = "x_channel" if tile.pixel_step else "1"
    lines = [
        f"\n__kernel WIDE void tile({_SIGNATURE}) {{",
        "  const int i0 = get_global_id(0), i1 = get_global_id(1), i2 = get_global_id(2);",
        "  const int across = channels_first ? i1 : i0, down = channels_first ? i2 : i1;",
        "  const int deep = channels_first ? i0 : i2;",
        "  if (across >= tiles_w || down >= tiles_h * images || deep >= blocks * groups) return;",
        f"  const int image = down / tiles_h, top = min(down % tiles_h * {tile.tile_h}, rows - {tile.tile_h});",
        f"  const int left = min(across * {tile.tile_w}, columns - {tile.tile_w});",
        f"  const int group = deep / blocks, first = min(deep % blocks * {tile.block}, outputs - {tile.block});",
        "  __global const float *corner = (padded ? workspace : x) + image * x_image + group * x_group",
        f"      + top * x_row + left * {pixel_step};",
        "  __global const floats *w = (__global const floats *)"
        f"(weights + deep * channels * filter_h * filter_w * {tile.block});",
    ]
    accumulators = [f"a{j}_{i}_{v}" for j in rows for i in pixels for v in vectors]
    lines.append("  floats " + ", ".join(f"{name} = 0.0f" for name in accumulators) + ";")
    lines += [
        "  for (int r = 0; r < filter_h; r++) for (int s = 0; s < filter_w; s++) {",
        "    __global const float *p0 = corner + r * x_tap_h + s * x_tap_w;",
        *(f"    __global const float *p{j} = p0 + {j} * x_row;" for j in rows if j),
        f"    for (int c = 0; c < channels; c++, w += {tile.vectors_k}) {{",
        "      const floats " + ", ".join(f"w{v} = w[{v}]" for v in vectors) + ";",
    ]
    for j in rows:
        for i in pixels:
            lines.append(f"      {{ const float s = p{j}[{i} * {pixel_step}]; "
                         + " ".join(f"a{j}_{i}_{v} += s * w{v};" for v in vectors) + " }")
    lines.append("      " + " ".join(f"p{j} += {channel_step};" for j in rows))
    lines += ["    }", "  }"]
    lines += _store(tile)
    lines.append("}\n")
    return "\n".join(lines)


def _store(tile: Tile) -> list[str]:
    lines = ["  __global float *to = y + image * y_image + group * y_group + top * y_row"
             + (" + left * y_pixel + first;" if tile.channels_last else " + left + first * y_channel;")]
    rows, pixels = range(tile.tile_h), range(tile.tile_w)
    for v in range(tile.vectors_k):
        if tile.bias:
            lines.append(f"  const floats b{v} = *(__global const loose *)"
                         f"(bias + group * outputs + first + {v * tile.vector});")
        for name in (f"a{j}_{i}_{v}" for j in rows for i in pixels):
            if tile.bias:
                lines.append(f"  {name} += b{v};")
            if tile.relu:
                lines.append(f"  {name} = {name} > 0.0f ? {name} : (floats)(0.0f);")
        for j in rows:
            if tile.channels_last:
                lines += [f"  *(__global loose *)(to + {j} * y_row + {i} * y_pixel + {v * tile.vector}) = a{j}_{i}_{v};"
                          for i in pixels]
                continue
            for lane in range(tile.vector):
                place = f"to + {v * tile.vector + lane} * y_channel + {j} * y_row"
                element = f".s{lane:x}" if tile.vector > 1 else ""
                fours = tile.tile_w // 4 * 4
                for i in range(0, fours, 4):  # LLVM turns these into a transposition in registers
                    four = ", ".join(f"a{j}_{i + o}_{v}{element}" for o in range(4))
                    lines.append(f"  *(__global loose4 *)({place} + {i}) = (float4)({four});")
                lines += [f"  *({place} + {i}) = a{j}_{i}_{v}{element};" for i in range(fours, tile.tile_w)]
    return lines
