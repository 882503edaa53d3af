"""Text of one register tile in OpenCL C and CUDA C++, for the direct convolution and the matrix product; its call.

A work-item computes a chunk of tiles, one after the other; a tile is tile_h x tile_w output pixels of vectors_k x
vector output channels. The text depends on the shape of the tile alone: the shape of the problem arrives as `int`
arguments (ARGUMENTS). The last tile along each axis is moved back to overlap the one before it and writes the same
numbers again; there is no other handling of tails.

The sum runs over three axes, `outer`, `middle` and `inner`, which are filter rows, filter columns and channels in some
order. The inner axis may come in pieces: all tiles of a chunk take one piece before the next, so that its weights stay
in the first-level cache; between pieces the sums are kept in the workspace.

Padding is either a copy of the input with zeros around it (`pad`, a step of its own), or peeled: the tile skips filter
rows outside the input and, at the left and right borders, the one pixel whose tap is outside.

A matrix product is a convolution with one tap whose pixels are the rows of A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..files import sections
from ..launches.call import Call, CallStep, Packing
from ..launches.entry_arguments import entry_arguments
from ..launches.implementation import KernelSource
from ..problem import Problem
from . import pixel_vectors
from .text import accumulator, signature, store

PadSizes: TypeAlias = Callable[[int], tuple[int, int]]  # rows of the padded copy -> work-items of `pad`, of a group

# Steps and offsets count floats. x_* walk the input as the tile reads it (the padded copy where there is one).
ARGUMENTS = (
    "outer", "middle", "inner", "x_outer", "x_middle", "x_inner",  # the sum's axes: lengths and steps
    "piece",  # length of a piece of the inner axis, which it divides
    "x_image", "x_group", "x_row", "x_pixel", "x_origin",  # x_row, x_pixel: from one output pixel's input to the next
    "y_image", "y_group", "y_channel", "y_row", "y_pixel",
    "images", "groups", "rows", "columns", "outputs",  # outputs: channels of y in one group
    "tiles_w", "tiles", "chunk", "spots", "blocks", "channels_first",  # tiles of an image; spots: chunks of all tiles
    "waiting",  # offset of the kept sums in the workspace
    "padded", "planes", "padded_height", "row_floats", "margin",  # of the padded copy of the input
    "height", "width", "above", "before", "stride_h", "stride_w", "dilation_h", "dilation_w",  # for peeled padding
)
# The texts of `pad` by the kind of device.
PADS = {kind: text.replace("SIGNATURE", signature(ARGUMENTS)) for kind, text in sections(__file__, "pad.cl").items()}


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """The numbers that determine the source text."""

    vector: int  # floats of one vector variable
    vectors_k: int
    tile_w: int
    tile_h: int
    pixel_step: int  # floats between the inputs of neighbouring pixels; 0: x_pixel, with contiguous channels
    channels_last: bool  # the output's channels are contiguous in memory, else its pixels are
    bias: bool
    relu: bool
    peeled: bool = False  # needs tile_h == 1 and borders that cut off one pixel at most

    @property
    def pixel_vectors(self) -> bool:
        """Whether vectors can lie along the pixels of a row instead of the output channels."""
        return self.vector == self.pixel_step == 1 < self.tile_w and not (self.channels_last or self.peeled)

    @property
    def block(self) -> int:
        """The number of output channels of one work-item."""
        return self.vector * self.vectors_k


def tile_call(problem: Problem, source: KernelSource, tile: RegisterTile, sizes: Mapping[str, int], packing: Packing, *,
              pixels_first: bool, chunk: int, work_group: int, pad: PadSizes = lambda rows: (rows, 1)) -> Call:
    """The call for a problem described by ARGUMENTS: `pad` where there is a padded copy, then `tile`.

    `sizes` may leave out arguments that are 0 or follow from the tile. With `pixels_first`, neighbouring work-items
    share their output channels, else their pixels; a work-group holds `work_group` work-items. A work-item computes
    `chunk` tiles; 0 means all tiles of an image.
    """
    values = {**dict.fromkeys(ARGUMENTS, 0), **sizes}
    values["tiles_w"] = -(-values["columns"] // tile.tile_w)
    values["tiles"] = values["tiles_w"] * -(-values["rows"] // tile.tile_h)
    values["blocks"] = -(-values["outputs"] // tile.block)
    values["channels_first"] = int(not pixels_first)
    values["chunk"] = chunk or values["tiles"]
    values["spots"] = -(-values["tiles"] * values["images"] // values["chunk"])
    deep = values["blocks"] * values["groups"]
    first, second = (values["spots"], deep) if pixels_first else (deep, values["spots"])
    rows = values["planes"] * values["padded_height"] if values["padded"] else 0
    workspace = rows * (values["row_floats"] + 2 * values["margin"])
    if values["piece"] < values["inner"]:
        values["waiting"] = workspace = -(-workspace // 16) * 16
        workspace += deep * values["images"] * values["tiles"] * tile.tile_h * tile.tile_w * tile.block
    arguments = entry_arguments(problem, (values[name] for name in ARGUMENTS), packing, workspace)
    steps = [CallStep("tile", arguments, (-(-first // work_group) * work_group, second), (work_group, 1))]
    if values["padded"]:
        items, group = pad(rows)
        steps.insert(0, CallStep("pad", arguments, (items,), (group,)))
    return Call(source, tuple(steps))


def text(tile: RegisterTile, group: str = "", pixels: bool = False) -> str:
    """The text of the kernel `tile` behind the head; `group` is an attribute of the kernel.

    With `pixels`, vectors lie along the pixels of a row, which `tile.pixel_vectors` must allow.
    """
    names = [accumulator(j, i, v)
             for j in range(tile.tile_h) for i in range(tile.tile_w) for v in range(tile.vectors_k)]
    rows, width = tile.tile_h, tile.tile_w
    if pixels:
        declared, taken = pixel_vectors.types(rows, width), pixel_vectors.sums(rows, width, load=True)
        kept, taps = pixel_vectors.sums(rows, width, load=False), pixel_vectors.taps(rows, width)
        stored = pixel_vectors.store(rows, width, tile.bias, tile.relu)
    else:
        declared = ["  floats " + ", ".join(f"{name} = 0.0f" for name in names) + ";"]
        taken = " ".join(f"{name} = sums[{at}];" for at, name in enumerate(names))
        kept = " ".join(f"sums[{at}] = {name};" for at, name in enumerate(names))
        taps = _inner(tile, range(width), "(padded ? workspace : x)")
        stored = store(rows, width, tile.vectors_k, tile.vector, tile.channels_last, tile.bias, tile.relu)
    lines = [
        f"\n__kernel WIDE {group}void tile({signature(ARGUMENTS)}) {{",
        "  const int i0 = get_global_id(0), i1 = get_global_id(1);",
        "  const int spot = channels_first ? i1 : i0, deep = channels_first ? i0 : i1;",
        "  if (spot >= spots || deep >= blocks * groups) return;",
        f"  const int group = deep / blocks, first = min(deep % blocks * {tile.block}, outputs - {tile.block});",
        "  const int end = min(images * tiles, (spot + 1) * chunk);",
        "  for (int begin = 0; begin < inner; begin += piece) for (int t = spot * chunk; t < end; t++) {",
        "  const int image = t / tiles, place = t % tiles;",
        f"  const int top = min(place / tiles_w * {tile.tile_h}, rows - {tile.tile_h});",
        f"  const int left = min(place % tiles_w * {tile.tile_w}, columns - {tile.tile_w});",
        "  const int corner = image * x_image + group * x_group + top * x_row + left * x_pixel"
        " + begin * x_inner - x_origin;",
        "  __global const floats *w = (__global const floats *)"
        f"(weights + (deep * inner + begin) * outer * middle * {tile.block});",
        "  __global floats *sums = (__global floats *)"
        f"(workspace + waiting + (deep * images * tiles + t) * {tile.block * tile.tile_h * tile.tile_w});",
        *declared,
        "  if (begin > 0) { " + taken + " }",
        *(_peeled(tile) if tile.peeled else _taps(taps)),
        "  if (begin + piece < inner) { " + kept + " continue; }",
        "  __global const float *bias_at = bias + group * outputs + first;",
        "  __global float *to = y + image * y_image + group * y_group + top * y_row"
        + (" + left * y_pixel + first;" if tile.channels_last else " + left + first * y_channel;"),
        *stored,
        "  } }\n",
    ]
    return "\n".join(lines)


def _taps(inner: list[str]) -> list[str]:
    return ["  for (int o = 0; o < outer; o++) for (int m = 0; m < middle; m++) {", *inner, "  }"]


def _peeled(tile: RegisterTile) -> list[str]:
    """The sum over filter rows inside the input; at the borders, without the first or the last pixel."""
    width = tile.tile_w
    return [
        "  const int row = top * stride_h - above, column = left * stride_w - before;",
        "  const int o0 = row < 0 ? (dilation_h - 1 - row) / dilation_h : 0;",
        "  const int o1 = min(outer, (height - row + dilation_h - 1) / dilation_h);",
        f"  w += o0 * middle * piece * {tile.vectors_k};",
        "  for (int o = o0; o < o1; o++) for (int m = 0; m < middle; m++) {",
        f"    const int from = column + m * dilation_w, last = from + {width - 1} * stride_w;",
        "    if (from >= 0 && last < width) {", *_inner(tile, range(width), "x"),
        "    } else if (from < 0 && last >= 0) {", *_inner(tile, range(1, width), "x"),
        "    } else if (from >= 0 && from < width) {", *_inner(tile, range(width - 1), "x"),
        f"    }} else w += piece * {tile.vectors_k};", "  }"]


def _inner(tile: RegisterTile, pixels: range, x: str) -> list[str]:
    """The sum over a piece of the inner axis for the given pixels of every row of the tile."""
    if not pixels:
        return [f"    w += piece * {tile.vectors_k};"]
    pixel_step = str(tile.pixel_step) if tile.pixel_step else "x_pixel"
    lines = [f"    __global const float *p0 = {x}",
             f"        + (corner + o * x_outer + m * x_middle + {pixels[0]} * {pixel_step});",
             *(f"    __global const float *p{j} = p0 + {j} * x_row;" for j in range(1, tile.tile_h)),
             f"    for (int i = 0; i < piece; i++, w += {tile.vectors_k}) {{",
             "      const floats " + ", ".join(f"w{v} = w[{v}]" for v in range(tile.vectors_k)) + ";"]
    for j in range(tile.tile_h):
        for i in pixels:
            lines.append(f"      {{ const float s = p{j}[{i - pixels[0]} * {pixel_step}]; "
                         + " ".join(f"{accumulator(j, i, v)} += s * w{v};" for v in range(tile.vectors_k)) + " }")
    step = "x_inner" if tile.pixel_step else "1"
    lines.append("      " + " ".join(f"p{j} += {step};" for j in range(tile.tile_h)) + " }")
    return lines
