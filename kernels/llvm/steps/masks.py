"""Masks: loads and stores of the first lanes of a vector, which touch no memory of the other lanes."""

from __future__ import annotations

from .vectors import Vectors


def declare_masked(lanes: int) -> str:
    """Declarations of the intrinsics that this module uses."""
    kind, mask, pointers = f"<{lanes} x float>", f"<{lanes} x i1>", f"<{lanes} x ptr>"
    # The alignment is an argument until LLVM 21; newer versions read this form, too.
    return "\n".join([
        f"declare {kind} @llvm.masked.load.v{lanes}f32.p0(ptr, i32, {mask}, {kind})",
        f"declare void @llvm.masked.store.v{lanes}f32.p0({kind}, ptr, i32, {mask})",
        f"declare {kind} @llvm.masked.gather.v{lanes}f32.v{lanes}p0({pointers}, i32, {mask}, {kind})",
        f"declare void @llvm.masked.scatter.v{lanes}f32.v{lanes}p0({kind}, {pointers}, i32, {mask})"])


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


def load(v: Vectors, pointer: str, mask: str, other: str = "zeroinitializer") -> str:
    """The floats at a pointer; lanes outside the mask hold `other`."""
    return v.write.let(f"call {v.kind} @llvm.masked.load.v{v.lanes}f32.p0(ptr {pointer}, i32 4, "
                       f"<{v.lanes} x i1> {mask}, {v.kind} {other})")


def store(v: Vectors, value: str, pointer: str, mask: str) -> None:
    """Write the lanes of the mask."""
    v.write.do(f"call void @llvm.masked.store.v{v.lanes}f32.p0({v.kind} {value}, ptr {pointer}, i32 4, "
               f"<{v.lanes} x i1> {mask})")


def gather(v: Vectors, pointer: str, stride: str, mask: str) -> str:
    """Floats `stride` floats apart; lanes outside the mask hold 0."""
    return v.write.let(f"call {v.kind} @llvm.masked.gather.v{v.lanes}f32.v{v.lanes}p0("
                       f"<{v.lanes} x ptr> {_pointers(v, pointer, stride)}, i32 4, <{v.lanes} x i1> {mask}, "
                       f"{v.kind} zeroinitializer)")


def scatter(v: Vectors, value: str, pointer: str, stride: str, mask: str) -> None:
    """Write the lanes of the mask `stride` floats apart."""
    v.write.do(f"call void @llvm.masked.scatter.v{v.lanes}f32.v{v.lanes}p0({v.kind} {value}, "
               f"<{v.lanes} x ptr> {_pointers(v, pointer, stride)}, i32 4, <{v.lanes} x i1> {mask})")


def load_apart(v: Vectors, pointer: str, stride: str) -> str:
    """All lanes, `stride` floats apart, one float at a time: faster than a gather on most CPUs."""
    value = "poison"
    for lane in range(v.lanes):
        number = v.write.load("float", pointer)
        value = v.write.let(f"insertelement {v.kind} {value}, float {number}, i32 {lane}")
        pointer = v.write.at(pointer, stride) if lane + 1 < v.lanes else pointer
    return value


def store_apart(v: Vectors, value: str, pointer: str, stride: str) -> None:
    """All lanes, `stride` floats apart, one float at a time."""
    for lane in range(v.lanes):
        v.write.store("float", v.write.let(f"extractelement {v.kind} {value}, i32 {lane}"), pointer)
        pointer = v.write.at(pointer, stride) if lane + 1 < v.lanes else pointer


def _numbers(kind: str, lanes: int) -> str:
    return f"<{', '.join(f'{kind} {lane}' for lane in range(lanes))}>"


def _pointers(v: Vectors, pointer: str, stride: str) -> str:
    kind = f"<{v.lanes} x i64>"
    first = v.write.let(f"insertelement {kind} poison, i64 {stride}, i32 0")
    strides = v.write.let(f"shufflevector {kind} {first}, {kind} poison, <{v.lanes} x i32> zeroinitializer")
    offsets = v.write.let(f"mul {kind} {strides}, {_numbers('i64', v.lanes)}")
    return v.write.let(f"getelementptr float, ptr {pointer}, {kind} {offsets}")
