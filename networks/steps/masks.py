"""Masks: the first lanes of a vector, and loads and stores of elements apart, which touch no memory of other lanes."""

from __future__ import annotations

from collections.abc import Iterable

from seqtune.kernels.llvm.text.elements import FP32, Element
from seqtune.kernels.llvm.text.vectors import Vectors


def declare_masked(lanes: int, elements: Iterable[Element] = ()) -> str:
    """Declarations of the intrinsics that masked steps use, for fp32 and these elements."""
    lines = []
    for element in {each.dtype: each for each in (FP32, *elements)}.values():
        kind, mask, pointers = f"<{lanes} x {element.kind}>", f"<{lanes} x i1>", f"<{lanes} x ptr>"
        # The alignment is an argument until LLVM 21; newer versions read this form, too.
        lines += [element.declare(lanes),
                  f"declare {kind} @llvm.masked.gather.{_suffix(lanes, element)}({pointers}, i32, {mask}, {kind})",
                  f"declare void @llvm.masked.scatter.{_suffix(lanes, element)}({kind}, {pointers}, i32, {mask})"]
    return "\n".join(lines)


def _suffix(lanes: int, element: Element) -> str:
    """The end of the name of an intrinsic that reads or writes at a vector of pointers."""
    return f"{element.suffix(lanes)}.v{lanes}p0"


def first_lanes(v: Vectors, count: str) -> str:
    """A mask of the first `count` lanes; `count` is an i64 of any size, also 0 or negative."""
    write = v.write
    floor = write.let(f"icmp slt i64 {count}, 0")
    count = write.let(f"select i1 {floor}, i64 0, i64 {count}")
    more = write.let(f"icmp ugt i64 {count}, {v.lanes}")
    count = write.let(f"select i1 {more}, i64 {v.lanes}, i64 {count}")
    narrow = write.let(f"trunc i64 {count} to i32")
    first = write.let(f"insertelement {v.integers} poison, i32 {narrow}, i32 0")
    limit = write.let(f"shufflevector {v.integers} {first}, {v.integers} poison, {v.integers} zeroinitializer")
    return write.let(f"icmp ult {v.integers} {_numbers('i32', v.lanes)}, {limit}")


def gather(v: Vectors, element: Element, pointer: str, stride: str, mask: str) -> str:
    """Numbers `stride` elements apart; lanes outside the mask hold 0."""
    kind = f"<{v.lanes} x {element.kind}>"
    return element.widened(v.write, v.lanes, v.write.let(
        f"call {kind} @llvm.masked.gather.{_suffix(v.lanes, element)}("
        f"<{v.lanes} x ptr> {_pointers(v, element, pointer, stride)}, i32 {element.bytes}, <{v.lanes} x i1> {mask}, "
        f"{kind} zeroinitializer)"))


def scatter(v: Vectors, element: Element, value: str, pointer: str, stride: str, mask: str) -> None:
    """Write the lanes of the mask `stride` elements apart."""
    v.write.do(f"call void @llvm.masked.scatter.{_suffix(v.lanes, element)}(<{v.lanes} x {element.kind}> "
               f"{element.narrowed(v.write, v.lanes, value)}, <{v.lanes} x ptr> "
               f"{_pointers(v, element, pointer, stride)}, i32 {element.bytes}, <{v.lanes} x i1> {mask})")


def load_apart(v: Vectors, element: Element, pointer: str, stride: str) -> str:
    """All lanes, `stride` elements apart, one number at a time: faster than a gather on most CPUs."""
    kind, value = f"<{v.lanes} x {element.kind}>", "poison"
    for lane in range(v.lanes):
        number = v.write.let(f"load {element.kind}, ptr {pointer}, align {element.bytes}")
        value = v.write.let(f"insertelement {kind} {value}, {element.kind} {number}, i32 {lane}")
        pointer = element.at(v.write, pointer, stride) if lane + 1 < v.lanes else pointer
    return element.widened(v.write, v.lanes, value)


def store_apart(v: Vectors, element: Element, value: str, pointer: str, stride: str) -> None:
    """All lanes, `stride` elements apart, one number at a time."""
    kind, stored = f"<{v.lanes} x {element.kind}>", element.narrowed(v.write, v.lanes, value)
    for lane in range(v.lanes):
        number = v.write.let(f"extractelement {kind} {stored}, i32 {lane}")
        v.write.do(f"store {element.kind} {number}, ptr {pointer}, align {element.bytes}")
        pointer = element.at(v.write, pointer, stride) if lane + 1 < v.lanes else pointer


def _numbers(kind: str, lanes: int) -> str:
    return f"<{', '.join(f'{kind} {lane}' for lane in range(lanes))}>"


def _pointers(v: Vectors, element: Element, pointer: str, stride: str) -> str:
    kind = f"<{v.lanes} x i64>"
    first = v.write.let(f"insertelement {kind} poison, i64 {stride}, i32 0")
    strides = v.write.let(f"shufflevector {kind} {first}, {kind} poison, <{v.lanes} x i32> zeroinitializer")
    offsets = v.write.let(f"mul {kind} {strides}, {_numbers('i64', v.lanes)}")
    return v.write.let(f"getelementptr {element.kind}, ptr {pointer}, {kind} {offsets}")
