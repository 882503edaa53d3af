"""llvm.direct: fp32 convolution in register blocks. The input is copied with padding, or taps on padding are skipped.

A 1x1 convolution without padding and strides is a matrix product: all pixels of an image are one long row (`row_w`),
the rows of A, and the tile is the one of llvm.gemm. Its code also runs llvm.direct_bf16.
"""

from __future__ import annotations

from ..cache_lines import PADDED, conv2d_lines
from ..devices.device import Device
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import Array, KernelSource
from ..problem import Problem
from .fusion import NONE, Fusion, Pitches
from .ir.task_loops import arguments
from .ir.tile import BODIES, Tile
from .ir.tiling import Borders, Tiling, in_word, pack, pack_pairs
from .launch import Launch, Phase
from .text.quads import reads_quads

# The multiply-adds in the innermost loop's body, times the number of such loops in the text.
_UNROLLED = "accumulators * (s if body == 'row' else r * s if body == 'filter' else channels_unrolled) * loops"

# The number of innermost loops in the text: further ones for both ends of a row, one for every different set of taps.
_LOOPS = ("1 if border_pixels == 0 else (1 if tile_w == row_w else 3) if body == 'row' "
          "else 2 * border_pixels + (1 if tile_w == row_w else 3)")

# The share of the taps that are multiplied: with usual padding, all taps except those on padding.
_TAPS = ("max(1 - pad_h * (pad_h + 1) / (stride_h * out_h * r), 0) "
         "* max(1 - pad_w * (pad_w + 1) / (stride_w * out_w * s), 0) if borders == 'peel' else 1")

# SSE multiplies in place, so no register is reserved for inputs. Some configurations spill: a model can learn which.
_INPUT_REGISTER = "(0 if instruction_set == 'sse' else 1)"

KERNEL = Kernel.of(
    name="llvm.direct",
    operation="conv2d",
    meaning="direct convolution in registers: tile_w x tile_h pixels by vectors_k vectors of output channels; where "
            "filters are 1x1, unpadded and unstrided, it is the matrix product of llvm.gemm, with the pixels as rows",
    parameters=(
        Parameter("vector", (1, 4, 8, 16), "output channels in a vector"),
        Parameter("vectors_k", (1, 2, 3, 4), "vectors of output channels in a tile"),
        Parameter("tile_w", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 28), "output pixels of a row in a tile"),
        Parameter("tile_h", (1, 2, 4), "output rows in a tile"),
        Parameter("body", BODIES, "the innermost loop's body: a filter row, a filter, or 1-8 channels of one tap"),
        Parameter("borders", ("copy", "peel"), "zero padding: a padded copy of the input, or taps on it left out"),
        Parameter("chunk", (0, 1, 2, 4, 8, 16, 32), "tiles that all output channels visit before the next; 0: all"),
    ),
    derived=(
        ("lanes_k", "vector * vectors_k"),
        ("tile_pixels", "tile_w * tile_h"),
        ("accumulators", "tile_pixels * vectors_k"),
        ("channels_unrolled", "2 if body == 'c2' else 4 if body == 'c4' else 8 if body == 'c8' else 1"),
        ("border_pixels", "ceil_div(pad_w, stride_w) if borders == 'peel' else 0"),
        ("loops", _LOOPS),
        ("unrolled", _UNROLLED),
        ("taps", _TAPS),
        ("loads_per_fma", "(tile_pixels + vectors_k) / (tile_pixels * vectors_k)"),
        ("k_blocks", "ceil_div(k_per_group, lanes_k)"),
        ("tiles", "ceil_div(row_w, tile_w) * ceil_div(rows, tile_h)"),
        ("w_waste", "ceil_div(row_w, tile_w) * tile_w / row_w"),
        ("h_waste", "ceil_div(rows, tile_h) * tile_h / rows"),
        ("k_waste", "k_blocks * lanes_k / k_per_group"),
        ("tasks", "n * groups * (ceil_div(tiles, chunk) if chunk > 0 else k_blocks * min(threads, tiles))"),
        ("tasks_per_thread", "tasks / threads"),
        ("idle", "ceil_div(tasks, threads) * threads / tasks"),
        ("panel_bytes", "c_per_group * r * s * lanes_k * 4"),
        ("chunk_tiles", "min(chunk, tiles) if chunk > 0 else ceil_div(tiles, threads)"),
        ("input_bytes", "chunk_tiles * tile_w * tile_h * stride_h * stride_w * c_per_group * 4"),
        *conv2d_lines("lanes_k", f"(h * w if borders == 'peel' else {PADDED})"),
    ),
    solves=(
        ("dtype == 'fp32'", "it computes in fp32 only"),
        ("direction == 'forward'", "it computes the forward direction only"),
    ),
    constraints=(
        ("vector <= vector_floats", "a vector must fit the widest register"),
        ("vector == min(vector_floats, 16) or k_per_group % min(vector_floats, 16) > 0 "
         "and k_per_group < 4 * vector_floats",
         "vectors below the register's width pay only where they divide few output channels better"),
        ("vector * 2 >= min(vector_floats, 16) or vector * 4 > k_per_group",
         "vectors below half the register's width pay only where there are few output channels"),
        ("vector > 1 or k_per_group < 4", "single channels pay only below 4 output channels"),
        ("vector * vectors_k <= k_per_group", "a tile must not have more channels than a group"),
        ("tile_w <= row_w", "a tile must not be wider than the output"),
        ("tile_h <= rows", "a tile must not be higher than the output"),
        (f"accumulators + vectors_k + {_INPUT_REGISTER} <= vector_registers",
         "accumulators, weights and one input must fit the registers"),
        ("accumulators >= 8 or accumulators >= 4 and vectors_k * row_w < 8 "
         "or accumulators * 2 >= vectors_k * row_w * rows or vector < 4",
         "fewer than 8 accumulators only wait for each other"),
        ("borders == 'copy' or pad_h + pad_w > 0", "there is no padding to leave out"),
        ("borders == 'copy' or tile_h == 1", "the taps on padding differ between a tile's rows"),
        ("borders == 'copy' or body != 'filter'", "a whole filter is never left out in part"),
        ("border_pixels == 0 or tile_w == row_w "
         "or tile_w + border_pixels <= row_w and 2 * border_pixels <= tile_w + 1",
         "tiles between the ends of a row must not reach the padding"),
        ("unrolled <= 400", "the innermost loop's body would be too long to compile quickly"),
        ("body != 'row' or r > 1", "a filter of one row has no loop over rows"),
        ("body != 'filter' or s * r > 1", "for a filter of one tap it is the body c1"),
        ("c_per_group % channels_unrolled == 0", "unrolled channels must divide the input channels"),
        ("chunk == 0 or k_blocks > 1", "one block of output channels visits all tiles in any case"),
        ("chunk == 0 or chunk == 1 or chunk * threads <= tiles * n * groups",
         "chunks this large leave threads idle"),
    ),
    default={"vector": 16, "vectors_k": 2, "tile_w": 7, "tile_h": 1, "body": "c2", "borders": "peel", "chunk": 0},
    version=2,
    implementation="seqtune.kernels.llvm.direct:IMPLEMENTATION",
)


class LLVMDirect:
    """Runs llvm.direct."""

    includes = "padding, where the input is copied for it; bias and activation; weights are packed before"
    fusions = "epilogues of the sum; with layout=NHWC of a second operand, too, and pitches"

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               fusion: Fusion = NONE) -> KernelSource:
        """The text; it depends on tile, filter size, layout, pixel step, row ends on padding, elements, epilogue."""
        names = problem.names()
        size = {name: value for name, value in names.items() if isinstance(value, int)}
        last, peeled = problem["layout"] == "NHWC", configuration["borders"] == "peel"
        tile_w = configuration.number("tile_w")
        copied = not peeled and size["pad_h"] + size["pad_w"] > 0
        pitches, elements = _pitches(problem, size, fusion), fusion.elements(problem, device)
        x_pitch = size["c"] if copied else pitches.x
        return Tile(
            vector=configuration.number("vector"), vectors=configuration.number("vectors_k"),
            tile_h=configuration.number("tile_h"), tile_w=tile_w,
            body=str(configuration["body"]), r=size["r"], s=size["s"],
            pixel_step=size["stride_w"] * (x_pitch if last else 1), channels_last=last,
            bias=problem["bias"] == "yes", formula=fusion.formula(problem),
            borders=_borders(size, tile_w) if peeled else None,
            pitched=copied and fusion.x_pitch is not None, x=elements.x, y=elements.y, other=elements.other,
            prefetches=fusion.chained and _tiling(problem, size, device, configuration).visits > 1,
            quads=last and reads_quads(
                device, configuration.number("vector"), size["c_per_group"], elements.x)).source()

    def launch(self, problem: Problem, device: Device, configuration: Configuration, fusion: Fusion = NONE) -> Launch:
        """The launch with the sizes of this problem; if the tile reads a padded copy, the first phase makes it."""
        names = problem.names()
        size = {name: value for name, value in names.items() if isinstance(value, int)}
        last, peeled = problem["layout"] == "NHWC", configuration["borders"] == "peel"
        n, groups, c, k, out = size["n"], size["groups"], size["c"], size["k"], size["out_h"] * size["out_w"]
        pair = in_word(problem)
        tiling = _tiling(problem, size, device, configuration)
        pad_h, pad_w = (0, 0) if peeled else (size["pad_h"], size["pad_w"])
        padded = pad_h > 0 or pad_w > 0
        high, wide = size["h"] + 2 * pad_h, size["w"] + 2 * pad_w
        pitches = _pitches(problem, size, fusion)
        pitch, channel = (c if padded else pitches.x, 1) if last else (1, high * wide)
        line = wide * pitch
        per_plane = c if last else 1
        values = tiling.arguments(size["r"] * size["s"])
        values |= {
            "groups": groups, "x_image": (pitch if last else c) * high * wide,
            "x_group": size["c_per_group"] * channel, "x_row": size["stride_h"] * line,
            "x_tap_row": size["dilation_h"] * line, "x_tap_column": size["dilation_w"] * pitch,
            "x_channel": pair * channel, "x_column": size["stride_w"] * pitch,
            "y_image": (pitches.y if last else k) * out, "y_group": size["k_per_group"] * (1 if last else out),
            "y_row": size["out_w"] * (pitches.y if last else 1), "y_pixel": pitches.y if last else 1,
            "y_channel": 1 if last else out, "filter_rows": size["r"]}
        if peeled:
            right = -(-_borders(size, tiling.tile_w).right // size["stride_w"])  # pixels that reach the right padding
            values |= {
                "x_first": -size["pad_h"] * line - size["pad_w"] * pitch, "above": size["pad_h"],
                "inside_rows": size["h"], "row_step": size["stride_h"], "tap_row_step": size["dilation_h"],
                "last_inner": max(0, size["row_w"] - right - tiling.tile_w)}
        else:
            values |= {"inside_rows": size["r"], "tap_row_step": 1}
        fused = not fusion.is_plain
        if fused:
            values |= {"source_pixels": size["w"], "source_pixel": pitches.x, "pixel": c,
                       "other_image": out * pitches.other, "other_row": size["out_w"] * pitches.other,
                       "other_pixel": pitches.other}
        main = Phase("padded" if padded else "direct", tiling.tasks, runs=tiling.runs(n) if fusion.chained else 1)
        if not padded:
            return Launch(arguments(fused, **values), (main,))
        values |= {"pad_rows": high, "pad_top": pad_h, "pad_left": pad_w * per_plane, "pad_right": pad_w * per_plane,
                   "source_rows": size["h"], "source_row": size["w"] * (pitches.x if last else 1),
                   "padded_row": line}
        pad = Phase("pad", (n if last else n * c) * high)
        return Launch(arguments(fused, **values), (pad, main), -(-n * c * high * wide // pair))

    def packing(self, problem: Problem, configuration: Configuration) -> tuple[int, int, bool, int]:
        """The values (groups, channels of a panel, whether taps are the outer loop, input channels in a word)."""
        return (problem.size("groups"), _lanes(configuration), str(configuration["body"]).startswith("c"),
                in_word(problem))

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Copy the filter into panels in the order in which tiles read it.

        In bf16, each float of the result holds a pair of input channels.
        """
        groups, lanes, taps_outside, pair = self.packing(problem, configuration)
        return (pack if pair == 1 else pack_pairs)(weights, groups, lanes, taps_outside)


def _lanes(configuration: Configuration) -> int:
    return configuration.number("vector") * configuration.number("vectors_k")


def _tiling(problem: Problem, size: dict[str, int], device: Device, configuration: Configuration) -> Tiling:
    return Tiling(
        row_w=size["row_w"], rows=size["rows"], k=size["k_per_group"], c=size["c_per_group"] // in_word(problem),
        tile_w=configuration.number("tile_w"), tile_h=configuration.number("tile_h"), lanes=_lanes(configuration),
        chunk=configuration.number("chunk"), threads=device.threads, images=size["n"] * size["groups"])


def _pitches(problem: Problem, size: dict[str, int], fusion: Fusion) -> Pitches:
    if problem["layout"] == "NCHW":
        fusion.check_channels_first(problem)
    return fusion.pitches(size["c"], size["k"])


def _borders(size: dict[str, int], tile_w: int) -> Borders:
    last_tap = (size["out_w"] - 1) * size["stride_w"] - size["pad_w"] + (size["s"] - 1) * size["dilation_w"]
    return Borders(size["pad_w"], max(0, last_tap - (size["w"] - 1)), size["stride_w"], size["dilation_w"],
                   size["row_w"] == tile_w)


IMPLEMENTATION = LLVMDirect()
