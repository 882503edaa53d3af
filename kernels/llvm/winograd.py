"""llvm.winograd: fp32 3x3 convolution by Winograd's F(2x2, 3x3) and F(4x4, 3x3), fused per block of tile rows.

A tile of m x m outputs takes (m + 2)^2 multiplications per channel instead of 9 m^2: 2.25 times fewer for m = 2, 4
times for m = 4 [S. Winograd, "Arithmetic Complexity of Computations", 1980; A. Lavin, S. Gray, "Fast Algorithms for
Convolutional Neural Networks", CVPR 2016]. Rounding errors, max|difference| / max|reference|, stay below 2e-6 and 1e-5
(64 to 2048 channels); a problem's tolerance must be five times as large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from string import Template

from ..cache_lines import conv2d_lines
from ..devices.device import Device
from ..files import sections
from ..kernel import Configuration, Kernel, Parameter
from ..launches.implementation import Array, KernelSource
from ..problem import Problem
from .aligned import aligned
from .fusion import NONE, Fusion
from .ir.tiling import pieces
from .ir.winograd_stages import FIELDS, FUSED_FIELDS, RUN, stages
from .ir.winograd_transforms import filter_transform
from .launch import Launch, Phase
from .text.elements import FP32, X86
from .text.quads import FLOATS, at_once, declare_quads, multiply_quads, reads_quads
from .text.writer import ENTRY, Writer, declarations, in_order

PREFETCH = 8192  # bytes ahead in the packed filter; up to twice as fast if few tiles read the filter only once
# Nothing in memory is read earlier than here. Without it, LLVM reads neighbouring channels of a tile together on ARM,
# where it then lacks registers: a body of 12 x 2 vectors and two channels loaded 57 on an Apple M1, instead of 28.
_IN_ORDER = 'call void asm sideeffect "", "~{memory}"()'

KERNEL = Kernel.of(
    name="llvm.winograd",
    operation="conv2d",
    meaning="Winograd convolution: input transformed per block of tile rows, a small matrix product per point",
    parameters=(
        Parameter("m", (2, 4), "output pixels of a tile, each way: F(m x m, 3 x 3)"),
        Parameter("vector", (4, 8, 16), "channels in a vector"),
        Parameter("vectors_k", (1, 2, 3, 4), "vectors of output channels in a register block"),
        Parameter("group", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28), "tiles in a register block"),
        Parameter("block_rows", (1, 2, 3, 4, 5, 7, 8, 14, 16, 28), "rows of tiles that are transformed at once"),
        Parameter("split", (0, 1, 2, 4, 8), "blocks of output channels in a task; 0: all"),
        Parameter("unroll", (1, 2), "input channels in the innermost loop's body"),
    ),
    derived=(
        ("points", "(m + 2) * (m + 2)"),
        ("tile_rows", "ceil_div(out_h, m)"),
        ("tile_columns", "ceil_div(out_w, m)"),
        ("lanes_k", "vector * vectors_k"),
        ("accumulators", "group * vectors_k"),
        ("unrolled", "accumulators * unroll"),
        ("loads_per_fma", "(group + vectors_k) / accumulators"),
        ("k_blocks", "ceil_div(k, lanes_k)"),
        ("k_waste", "k_blocks * lanes_k / k"),
        ("blocks", "ceil_div(tile_rows, block_rows)"),
        ("block_tiles", "block_rows * tile_columns"),
        ("group_waste", "ceil_div(block_tiles, group) * group / block_tiles"),
        ("tile_waste", "tile_rows * tile_columns * m * m / (out_h * out_w)"),
        ("splits", "ceil_div(k_blocks, split) if split > 0 else 1"),
        ("tasks", "n * blocks * splits"),
        ("tasks_per_thread", "tasks / threads"),
        ("idle", "ceil_div(tasks, threads) * threads / tasks"),
        ("v_bytes", "points * ceil_div(block_tiles, group) * group * round_up(c, vector) * 4"),
        ("sums_bytes",
         "points * ceil_div(block_tiles, group) * group * (split if split > 0 else k_blocks) * lanes_k * 4"),
        ("u_bytes", "points * c * k_blocks * lanes_k * 4"),
        ("panel_bytes", "c * lanes_k * 4"),
        ("work_bytes", "(block_rows * m + 2) * (w + 2 * pad_w) * c * 4 + v_bytes + sums_bytes"),
        ("multiplied", "points * n * blocks * ceil_div(block_tiles, group) * group * c * k_blocks * lanes_k"),
        *conv2d_lines("vector", "h * w", "m"),
    ),
    solves=(
        ("dtype == 'fp32'", "it computes in fp32 only"),
        ("direction == 'forward'", "it computes the forward direction only"),
        ("r == 3 and s == 3", "it is for 3x3 filters"),
        ("stride_h == 1 and stride_w == 1", "it is for stride 1"),
        ("dilation_h == 1 and dilation_w == 1", "it is for dilation 1"),
        ("groups == 1", "it is for ungrouped convolutions"),
        ("out_h >= 2 and out_w >= 2", "the output must hold a tile of 2x2 pixels"),
        ("k >= 4", "it needs at least 4 output channels"),
        # Measured on AVX2 with 3 channels, 64 outputs of 224x224: 688 us against 854 us of llvm.direct.
        ("c * 4 >= vector_floats",
         "on wide vectors the transforms of so few input channels cost more than they save"),
        ("tolerance >= 1e-5", "its rounding errors reach 2e-6 of the largest output where channels are "
                              "many: it needs a tolerance of 1e-5"),
    ),
    constraints=(
        ("m == 2 or tolerance >= 5e-5", "the rounding errors of F(4x4, 3x3) reach 1e-5 of the largest "
                                        "output where channels are many: a tolerance of 5e-5 allows it"),
        ("m <= out_h and m <= out_w", "a tile must not be larger than the output"),
        ("vector <= vector_floats", "a vector must fit the widest register"),
        ("vector == min(vector_floats, 16) or vector * 4 > min(c, k)",
         "vectors below the register's width pay only where there are few channels"),
        ("vector * vectors_k <= k", "a register block must not have more channels than the output"),
        ("accumulators + vectors_k + 1 <= vector_registers",
         "sums, filter and one input must fit the registers"),
        ("accumulators >= 8 or accumulators >= tile_rows * tile_columns",
         "fewer than 8 sums only wait for each other"),
        ("unrolled <= 64", "longer bodies gain nothing"),
        ("c % unroll == 0", "unrolled channels must divide the input channels"),
        ("block_rows <= tile_rows", "a block must not have more rows than there are"),
        ("group_waste <= 1.34 or group == 1", "too many tiles of the last group would be empty"),
        ("block_rows == 1 or v_bytes <= 4 * max(l2_bytes, 262144)",
         "V must not be far larger than the second-level cache"),
        ("split == 0 or split < k_blocks", "0 stands for all blocks"),
    ),
    default={"m": 4, "vector": 16, "vectors_k": 2, "group": 7, "block_rows": 2, "split": 1, "unroll": 1},
    implementation="seqtune.kernels.llvm.winograd:IMPLEMENTATION",
)


class Winograd:
    """Runs llvm.winograd."""

    includes = "transforms of input and output, bias and activation; weights are transformed and packed before"
    fusions = "epilogues of the sum; with layout=NHWC of a second operand, too, and pitches"

    def source(self, problem: Problem, device: Device, configuration: Configuration,
               fusion: Fusion = NONE) -> KernelSource:
        """The text; it depends on the register block, and its stages on tile size, vector, layout and epilogue."""
        names = ("vector", "vectors_k", "group", "unroll")
        last = problem["layout"] == "NHWC"
        if last:
            fusion.check_elements(problem)
        else:
            fusion.check_channels_first(problem)
        vector, vectors, group, unroll = (configuration.number(name) for name in names)
        block = RegisterBlock(vector, vectors, group, unroll)
        if device.instruction_set not in X86:
            block = block.on_arm(problem.size("c"), device)
        around = stages(configuration.number("m"), vector, last, problem["bias"] == "yes", fusion.formula(problem),
                        fusion.x_pitch is not None)
        return KernelSource(_source(block), (around,))

    def launch(self, problem: Problem, device: Device, configuration: Configuration, fusion: Fusion = NONE) -> Launch:
        """The launch with the sizes of this problem and the division of a thread's workspace."""
        names = ("n", "c", "h", "w", "k", "pad_h", "pad_w", "out_h", "out_w")
        n, c, h, w, k, pad_h, pad_w, out_h, out_w = (problem.size(name) for name in names)
        m, vector, group, block_rows, split = (
            configuration.number(name) for name in ("m", "vector", "group", "block_rows", "split"))
        lanes = vector * configuration.number("vectors_k")
        tile_rows, tile_columns, k_blocks, vectors = -(-out_h // m), -(-out_w // m), -(-k // lanes), -(-c // vector)
        blocks, split = -(-tile_rows // block_rows), split or k_blocks
        splits = -(-k_blocks // split)
        groups = -(-block_rows * tile_columns // group)
        padded_row = (w + 2 * pad_w) * c
        v_group = vectors * group * vector
        v_point, sums_point = _apart(groups * v_group), _apart(groups * group * lanes)
        v_offset = _lines((block_rows * m + 2) * padded_row + vector)  # the last pixel's vectors read past its end
        sums_offset = v_offset + (m + 2) ** 2 * v_point
        piece = sums_offset + _lines(split * (m + 2) ** 2 * sums_point)
        tasks = n * blocks * splits
        last = problem["layout"] == "NHWC"
        if not last:
            fusion.check_channels_first(problem)
        pitches = fusion.pitches(c, k)
        further = {} if fusion.is_plain else {
            "x_pixel": pitches.x, "other_image": pitches.other * out_h * out_w, "other_row": pitches.other * out_w,
            "other_pixel": pitches.other, "other": 0}
        arguments = in_order(
            FUSED_FIELDS if further else FIELDS, **further, threads=device.threads, tasks=tasks, piece=piece,
            v_offset=v_offset, sums_offset=sums_offset, splits=splits, blocks=blocks, block_rows=block_rows,
            tile_rows=tile_rows, tile_columns=tile_columns, last_row=out_h - m, last_column=out_w - m,
            x_image=pitches.x * h * w, x_row=w * (pitches.x if last else 1), x_channel=1 if last else h * w, height=h,
            width=w, pad_h=pad_h, pad_w=pad_w, channels=c, channel_vectors=vectors, padded_row=padded_row,
            turn=max(size for size in (1, 4, 8, 16) if size <= min(max(vector, 4), max(1, min(w, c)))),
            v_point=v_point, v_group=v_group, sums_point=sums_point, group=group, lanes=lanes, k_blocks=k_blocks,
            split_blocks=split, last_k=k - lanes, u_block=c * lanes, y_image=pitches.y * out_h * out_w,
            y_row=out_w * (pitches.y if last else 1), y_pixel=pitches.y if last else 1,
            y_channel=1 if last else out_h * out_w)
        return Launch(arguments, (Phase("winograd", tasks),), pieces(device.threads, tasks) * piece)

    def packing(self, problem: Problem, configuration: Configuration) -> tuple[int, int]:
        """The values (outputs of a tile along each axis, channels of a panel)."""
        return configuration.number("m"), configuration.number("vector") * configuration.number("vectors_k")

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        """Transform the filter and order it as [block of output channels][point][input channel][output channel].

        The last block overlaps the one before.
        """
        m, lanes = self.packing(problem, configuration)
        k, c = weights.shape[:2]
        taps = weights.reshape(k, c, 9).transpose(2, 1, 0)
        packed = aligned((-(-k // lanes), (m + 2) ** 2, c, lanes))
        for block in range(len(packed)):
            first = min(block * lanes, k - lanes)
            chosen = taps[:, :, first:first + lanes].reshape(9, c * lanes)
            packed[block] = (filter_transform(m) @ chosen).reshape(packed.shape[1:])
        return packed

    def pack_text(self, problem: Problem, device: Device, configuration: Configuration, name: str) -> str:
        """`pack` in C."""
        m, lanes = self.packing(problem, configuration)
        transform = filter_transform(m)
        rows = ",\n        ".join("{" + ", ".join(map(repr, row)) + "}" for row in transform.tolist())
        return Template(sections(__file__, "packing.c")["winograd"]).substitute(
            name=name, points=len(transform), rows=rows, lanes=lanes, k=problem.size("k"), c=problem.size("c"),
            blocks=-(-problem.size("k") // lanes))


def _lines(floats: int) -> int:
    """The number of floats rounded up to whole cache lines."""
    return -(-floats // 16) * 16


def _apart(floats: int) -> int:
    """The floats rounded up to an odd number of cache lines: a step that spreads rows over all sets of the cache."""
    return (-(-floats // 16) | 1) * 16


@dataclass(frozen=True, slots=True)
class RegisterBlock:
    """The numbers that determine the text of a register block.

    ARM multiplies with one lane of a register. Its blocks read V by vectors of four channels, or by quads of longer
    ones, if that leaves enough registers, and have four channels in the body, if these divide the channels, whatever
    `unroll` says.
    """

    vector: int
    vectors: int  # of output channels
    group: int  # tiles
    unroll: int  # input channels in the body
    by_vector: bool = False  # the body has the channels of one vector of V, and reads them at once
    in_order: bool = False  # no channel is read before the one before it was multiplied
    quads: bool = False  # the body reads four channels of V as a quad

    def on_arm(self, channels: int, device: Device) -> RegisterBlock:
        """The same block for ARM."""
        if reads_quads(device, self.vector, channels, FP32) and at_once(self.group, self.vectors):
            return replace(self, unroll=FLOATS, quads=True)
        if self.vector != 4 or channels % 4:
            return replace(self, in_order=True)
        needed = self.group * self.vectors + self.group + self.vectors
        return replace(self, unroll=4, by_vector=needed < device.vector_registers,
                       in_order=needed >= device.vector_registers)


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def _source(block: RegisterBlock) -> str:
    """The text of a register block: sums[tile][lane] += V[channel][tile] * filter[channel][lane] for every channel."""
    vector, vectors, group, unroll = block.vector, block.vectors, block.group, block.unroll
    kind, count = f"<{vector} x float>", group * vectors
    write = Writer(FIELDS)
    channels = write.argument("channels")
    write.do("br label %channel")
    write.label("channel")
    write.do("%i = phi i64 [ 0, %entry ], [ %i1, %channel ]")
    write.do("%v = phi ptr [ %from, %entry ], [ %v1, %channel ]")
    write.do("%u = phi ptr [ %filter, %entry ], [ %u1, %channel ]")
    carried = [f"%s{index}" for index in range(count)]
    place_of_phis = len(write.lines)
    sums = list(carried)
    whole = [write.load(kind, write.at("%v", tile * vector)) for tile in range(group)] if block.by_vector else []

    def filters(step: int) -> list[str]:
        """The vectors of a channel of the filter."""
        return [write.load(kind, write.at("%u", (step * vectors + column) * vector)) for column in range(vectors)]

    if block.quads:
        sums = multiply_quads(write, vector, [write.at("%v", tile * vector) for tile in range(group)], filters, sums)
    for step in range(0 if block.quads else unroll):
        if step and block.in_order:
            write.do(_IN_ORDER)
        loaded = filters(step)
        for tile in range(group):
            value = (write.shuffle(vector, whole[tile], "poison", [step] * vector) if whole
                     else write.splat(vector, write.load("float", write.at("%v", tile * vector + step))))
            for column in range(vectors):
                index = tile * vectors + column
                sums[index] = write.fma(vector, value, loaded[column], sums[index])
    for line in range(0, unroll * vectors * vector * 4, 64):
        ahead = write.let(f"getelementptr i8, ptr %u, i64 {PREFETCH + line}")
        write.do(f"call void @llvm.prefetch.p0(ptr {ahead}, i32 0, i32 3, i32 1)")
    write.lines[place_of_phis:place_of_phis] = [
        f"  {name} = phi {kind} [ zeroinitializer, %entry ], [ {value}, %channel ]"
        for name, value in zip(carried, sums, strict=True)]
    write.do(f"%u1 = getelementptr float, ptr %u, i64 {unroll * vectors * vector}")
    write.do(f"%i1 = add nuw i64 %i, {unroll}")
    step_v = str(group * vector)
    if unroll != vector:
        lane = write.i64("and", "%i1", vector - 1)
        wrap = write.let(f"icmp eq i64 {lane}, 0")
        step_v = write.let(f"select i1 {wrap}, i64 {unroll + (group - 1) * vector}, i64 {unroll}")
    write.do(f"%v1 = getelementptr float, ptr %v, i64 {step_v}")
    write.do(f"%more = icmp ult i64 %i1, {channels}")
    write.do("br i1 %more, label %channel, label %store")
    write.label("store")
    for index, value in enumerate(sums):
        write.store(kind, value, write.at("%to", index * vector))
    multiply = write.function("internal void @multiply(ptr %to, ptr %from, ptr %filter, ptr %a) noinline")
    return "\n".join([
        declarations(vector), "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)",
        *([declare_quads(vector)] if block.quads else []), multiply,
        f"declare void @seqtune_winograd({RUN})",
        f"define void @winograd({ENTRY}) nounwind {{",
        f"  call void @seqtune_winograd({RUN.replace('%multiply', '@multiply')})", "  ret void", "}"])


IMPLEMENTATION = Winograd()
