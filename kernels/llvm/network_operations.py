"""Network operations between tuned kernels, as LLVM IR: sums with ReLU, max-pooling, and a change of layout.

They only move memory, so there is nothing to tune. Images are NHWC, except the input of `channels_last`. Sizes and
steps are in pixels and channels. Threads share the tasks of a phase as in tuned kernels.
"""

from __future__ import annotations

from functools import lru_cache

from ..implementation import KernelSource, Launch, Phase
from .ir.writer import ENTRY

BLOCK = 1024  # floats in a task of `sums`, pixels in a task of `channels_last`


def sums(count: int, lanes: int, relu: bool) -> tuple[KernelSource, Launch]:
    """Compute y = x + w, with ReLU if `relu`; each has `count` floats, and y may be x or w."""
    return _sums(lanes, relu), Launch((count,), (Phase("sums", -(-count // BLOCK)),))


def max_pool(n: int, c: int, h: int, w: int, out_h: int, out_w: int, filter: tuple[int, int], stride: tuple[int, int],
             pad: tuple[int, int], lanes: int) -> tuple[KernelSource, Launch]:
    """Compute the largest value of every window, (n, h, w, c) to (n, out_h, out_w, c); NaN where it holds one.

    `lanes`, the floats of a vector, must divide c. Every window must contain an input pixel.
    """
    vectors = next(count for count in (4, 2, 1) if c % (count * lanes) == 0)
    arguments = (c, h, w, out_h, out_w, filter[0], filter[1], stride[0], stride[1], pad[0], pad[1])
    return _max_pool(lanes, vectors), Launch(arguments, (Phase("max_pool", n * out_h),))


def channels_last(n: int, c: int, pixels: int) -> tuple[KernelSource, Launch]:
    """Transpose (n, c, pixels) to (n, pixels, c), one float at a time: fast enough for the few channels of images."""
    return _channels_last(), Launch((c, pixels, -(-pixels // BLOCK)),
                                    (Phase("channels_last", n * -(-pixels // BLOCK)),))


def _load(*names: str) -> str:
    return "".join(f"  %{name}_p = getelementptr i64, ptr %a, i64 {index}\n  %{name} = load i64, ptr %{name}_p\n"
                   for index, name in enumerate(names))


@lru_cache(maxsize=16)
def _sums(lanes: int, relu: bool) -> KernelSource:
    def step(kind: str, name: str, index: str) -> str:
        text = ""
        for operand in "xwy":
            text += f"  %{operand}{name} = getelementptr float, ptr %{operand}, i64 {index}\n"
        text += f"  %a{name} = load {kind}, ptr %x{name}, align 4\n  %b{name} = load {kind}, ptr %w{name}, align 4\n"
        text += f"  %s{name} = fadd {kind} %a{name}, %b{name}\n"
        if relu:
            truth = f"<{lanes} x i1>" if kind != "float" else "i1"
            zero = "zeroinitializer" if kind != "float" else "0.0"
            text += f"  %m{name} = fcmp olt {kind} %s{name}, {zero}\n"  # NaN stays NaN
            text += f"  %r{name} = select {truth} %m{name}, {kind} {zero}, {kind} %s{name}\n"
        return text + f"  store {kind} %{'r' if relu else 's'}{name}, ptr %y{name}, align 4\n"

    kind = f"<{lanes} x float>"
    unrolled = "".join(f"  %j{copy} = add i64 %i, {copy * lanes}\n" + step(kind, f"{copy}", f"%j{copy}")
                       for copy in range(4))
    return KernelSource(f"""
define void @sums({ENTRY}) nounwind {{
entry:
{_load('count')}
  %first = mul i64 %begin, {BLOCK}
  %past = mul i64 %end, {BLOCK}
  %short = icmp ult i64 %count, %past
  %last = select i1 %short, i64 %count, i64 %past
  %length = sub i64 %last, %first
  %whole = and i64 %length, {-4 * lanes}
  %vectors = add i64 %first, %whole
  %some = icmp ne i64 %whole, 0
  br i1 %some, label %vector, label %rest
vector:
  %i = phi i64 [ %first, %entry ], [ %i1, %vector ]
{unrolled}
  %i1 = add i64 %i, {4 * lanes}
  %more = icmp ult i64 %i1, %vectors
  br i1 %more, label %vector, label %rest
rest:
  %any = icmp ult i64 %vectors, %last
  br i1 %any, label %scalar, label %out
scalar:
  %k = phi i64 [ %vectors, %rest ], [ %k1, %scalar ]
{step('float', 't', '%k')}
  %k1 = add i64 %k, 1
  %left = icmp ult i64 %k1, %last
  br i1 %left, label %scalar, label %out
out:
  ret void
}}""")


@lru_cache(maxsize=16)
def _max_pool(lanes: int, vectors: int) -> KernelSource:
    kind = f"<{lanes} x float>"
    lowest = f"<{', '.join(['float 0xFFF0000000000000'] * lanes)}>"
    takes = "".join(f"""  %at{index} = getelementptr float, ptr %in, i64 {index * lanes}
  %new{index} = load {kind}, ptr %at{index}, align 4
  %more{index} = fcmp ogt {kind} %new{index}, %v{index}
  %nan{index} = fcmp uno {kind} %new{index}, %new{index}
  %over{index} = or <{lanes} x i1> %more{index}, %nan{index}
  %m{index} = select <{lanes} x i1> %over{index}, {kind} %new{index}, {kind} %v{index}
""" for index in range(vectors))
    outer = "".join(f"  %u{index} = phi {kind} [ {lowest}, %block ], [ %m{index}, %below ]\n"
                    for index in range(vectors))
    inner = "".join(f"  %v{index} = phi {kind} [ %u{index}, %line ], [ %m{index}, %tap ]\n" for index in range(vectors))
    stores = "".join(f"  %to{index} = getelementptr float, ptr %out_p, i64 {index * lanes}\n"
                     f"  store {kind} %m{index}, ptr %to{index}, align 4\n" for index in range(vectors))

    def window(axis: str, size: str, filter: str, stride: str, pad: str) -> str:
        return f"""  %{axis}s = mul i64 %{axis}, %{stride}
  %{axis}0 = sub i64 %{axis}s, %{pad}
  %{axis}n = icmp slt i64 %{axis}0, 0
  %{axis}_first = select i1 %{axis}n, i64 0, i64 %{axis}0
  %{axis}f = add i64 %{axis}0, %{filter}
  %{axis}o = icmp slt i64 %{axis}f, %{size}
  %{axis}_past = select i1 %{axis}o, i64 %{axis}f, i64 %{size}
"""
    return KernelSource(f"""
define void @max_pool({ENTRY}) nounwind {{
entry:
{_load('c', 'h', 'w_in', 'out_h', 'out_w', 'r', 's', 'stride_h', 'stride_w', 'pad_h', 'pad_w')}
  %none = icmp uge i64 %begin, %end
  br i1 %none, label %out, label %row
row:
  %task = phi i64 [ %begin, %entry ], [ %task1, %row_done ]
  %image = udiv i64 %task, %out_h
  %oh = urem i64 %task, %out_h
  %image_row = mul i64 %image, %h
{window('oh', 'h', 'r', 'stride_h', 'pad_h')}
  %out_row = mul i64 %task, %out_w
  br label %pixel
pixel:
  %ow = phi i64 [ 0, %row ], [ %ow1, %pixel_done ]
{window('ow', 'w_in', 's', 'stride_w', 'pad_w')}
  %out_pixel = add i64 %out_row, %ow
  %out_at = mul i64 %out_pixel, %c
  br label %block
block:
  %k = phi i64 [ 0, %pixel ], [ %k1, %block_done ]
  br label %line
line:
  %ih = phi i64 [ %oh_first, %block ], [ %ih1, %below ]
{outer}
  %from_row = add i64 %image_row, %ih
  %from = mul i64 %from_row, %w_in
  br label %tap
tap:
  %iw = phi i64 [ %ow_first, %line ], [ %iw1, %tap ]
{inner}
  %from_pixel = add i64 %from, %iw
  %from_at = mul i64 %from_pixel, %c
  %from_k = add i64 %from_at, %k
  %in = getelementptr float, ptr %x, i64 %from_k
{takes}
  %iw1 = add i64 %iw, 1
  %right = icmp slt i64 %iw1, %ow_past
  br i1 %right, label %tap, label %below
below:
  %ih1 = add i64 %ih, 1
  %down = icmp slt i64 %ih1, %oh_past
  br i1 %down, label %line, label %block_done
block_done:
  %out_k = add i64 %out_at, %k
  %out_p = getelementptr float, ptr %y, i64 %out_k
{stores}
  %k1 = add i64 %k, {lanes * vectors}
  %blocks = icmp ult i64 %k1, %c
  br i1 %blocks, label %block, label %pixel_done
pixel_done:
  %ow1 = add i64 %ow, 1
  %pixels = icmp ult i64 %ow1, %out_w
  br i1 %pixels, label %pixel, label %row_done
row_done:
  %task1 = add i64 %task, 1
  %tasks = icmp ult i64 %task1, %end
  br i1 %tasks, label %row, label %out
out:
  ret void
}}""")


@lru_cache(maxsize=1)
def _channels_last() -> KernelSource:
    return KernelSource(f"""
define void @channels_last({ENTRY}) nounwind {{
entry:
{_load('c', 'pixels', 'blocks')}
  %none = icmp uge i64 %begin, %end
  br i1 %none, label %out, label %block
block:
  %task = phi i64 [ %begin, %entry ], [ %task1, %block_done ]
  %image = udiv i64 %task, %blocks
  %place = urem i64 %task, %blocks
  %first = mul i64 %place, {BLOCK}
  %full = add i64 %first, {BLOCK}
  %short = icmp ult i64 %pixels, %full
  %last = select i1 %short, i64 %pixels, i64 %full
  %image_c = mul i64 %image, %c
  %image_at = mul i64 %image_c, %pixels
  br label %channel
channel:
  %k = phi i64 [ 0, %block ], [ %k1, %channel_done ]
  %plane = mul i64 %k, %pixels
  %from = add i64 %image_at, %plane
  %to = add i64 %image_at, %k
  br label %pixel
pixel:
  %p = phi i64 [ %first, %channel ], [ %p1, %pixel ]
  %in_at = add i64 %from, %p
  %in = getelementptr float, ptr %x, i64 %in_at
  %value = load float, ptr %in, align 4
  %step = mul i64 %p, %c
  %out_at = add i64 %to, %step
  %out_p = getelementptr float, ptr %y, i64 %out_at
  store float %value, ptr %out_p, align 4
  %p1 = add i64 %p, 1
  %pixels_left = icmp ult i64 %p1, %last
  br i1 %pixels_left, label %pixel, label %channel_done
channel_done:
  %k1 = add i64 %k, 1
  %channels = icmp ult i64 %k1, %c
  br i1 %channels, label %channel, label %block_done
block_done:
  %task1 = add i64 %task, 1
  %tasks = icmp ult i64 %task1, %end
  br i1 %tasks, label %block, label %out
out:
  ret void
}}""")
