"""Prelude: the head under which one kernel text is OpenCL C on an OpenCL device and CUDA C++ on an NVIDIA GPU.

Texts are written in the part of OpenCL C that `seqtune.kernels.c_text.text` describes, plus the copies below; this head
defines the words of OpenCL C for CUDA. Vectors become classes with the same element names: `.s0` to `.sf`. A GPU loads
and stores vectors at multiples of their size alone, so the type `loose` moves one float at a time there. Asynchronous
copies from global to shared memory (PTX `cp.async`, compute capability 8.0) are ordinary copies in OpenCL.
"""

from __future__ import annotations

from functools import lru_cache

from ..devices.device import Device
from ..files import sections
from ..launches.implementation import KernelSource
from . import text

NVRTC_OPTIONS = ("--std=c++17",)  # NVRTC contracts a * b + c to one instruction by default
_PARTS = sections(__file__, "prelude.cu")


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def program(device: Device, vector: int, body: str, copies: bool = False) -> KernelSource:
    """The source of a text on a CUDA or OpenCL device; `floats` has `vector` floats.

    With `copies` the text may also use COPY, COMMIT, AWAIT, POOL (the block's shared memory, whose size CUDA learns at
    the launch) and UNROLL.
    """
    if device.backend == "opencl":
        return KernelSource(text.head(vector) + (_PARTS["opencl_copies"] if copies else "") + body, text.OPTIONS)
    return KernelSource(head(vector) + (_PARTS["cuda_copies"] if copies else "") + body, NVRTC_OPTIONS)


@lru_cache(maxsize=8)
def head(vector: int) -> str:
    """The head for CUDA: words of OpenCL C, vector types, `floats`, `loose` and `loose4`."""
    sizes = sorted({2, 4, vector} - {1})
    floats, loose = ("float", "float") if vector == 1 else (f"float{vector}", f"loose{vector}")
    names = "".join(f"#define float{size} vector{size}\n" for size in sizes)  # CUDA's own have no arithmetic
    types = f"typedef {floats} floats;\ntypedef {loose} loose;\n"
    return "".join([_PARTS["words"], names, *map(_vector, sizes), types])


def _vector(size: int) -> str:
    """The classes vectorN, aligned for the widest loads, and looseN, which memory need not align."""
    elements = [f"s{lane:x}" for lane in range(size)]
    own, loose = f"vector{size}", f"loose{size}"
    declared = "float " + ", ".join(elements) + ";"
    values = ", ".join(f"float v{lane}" for lane in range(size))
    each = ", ".join(f"{element}(v{lane})" for lane, element in enumerate(elements))

    def joined(pattern: str, glue: str = ", ") -> str:
        return glue.join(pattern.format(e=element) for element in elements)

    lines = [
        f"struct __align__({4 * min(size, 4)}) {own} {{",
        f"  {declared}",
        f"  {own}() = default;",
        f"  DEVICE {own}(float value) : {joined('{e}(value)')} {{}}",
        f"  DEVICE {own}({values}) : {each} {{}}",
        "};",
        *(f"DEVICE {own} operator{sign}({own} a, {own} b) {{ return {own}({joined('a.{e} ' + sign + ' b.{e}')}); }}"
          for sign in "+-*"),
        f"DEVICE {own} operator*(float a, {own} b) {{ return {own}({joined('a * b.{e}')}); }}",
        *(f"DEVICE {own} &operator{sign}=({own} &a, {own} b) {{ "
          f"{joined('a.{e} ' + sign + '= b.{e};', ' ')} return a; }}" for sign in "+-*"),
        f"DEVICE {own} relu({own} a) {{ return {own}({joined('relu(a.{e})')}); }}",
        f"struct {loose} {{",
        f"  {declared}",
        f"  DEVICE operator {own}() const {{ return {own}({joined('{e}')}); }}",
        f"  DEVICE {loose} &operator=({own} a) {{ {joined('{e} = a.{e};', ' ')} return *this; }}",
        "};"]
    return "\n".join(lines) + "\n"
