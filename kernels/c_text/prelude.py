"""Prelude: the head under which one kernel text is OpenCL C on an OpenCL device and CUDA C++ on an NVIDIA GPU.

Texts are written in the part of OpenCL C that `seqtune.kernels.c_text.text` describes, plus the copies below; this head
defines the words of OpenCL C for CUDA. Vectors become classes with the same element names: `.s0` to `.sf`. A GPU loads
and stores vectors at multiples of their size alone, so the type `loose` moves one float at a time there. Asynchronous
copies from global to shared memory (PTX `cp.async`, compute capability 8.0) are ordinary copies in OpenCL.
"""

from __future__ import annotations

from functools import lru_cache

from ..devices.device import Device
from ..launches.implementation import KernelSource
from . import text

NVRTC_OPTIONS = ("--std=c++17",)  # NVRTC contracts a * b + c to one instruction by default
_WORDS = """\
#define __kernel extern "C" __global__
#define __global
#define SHARED __shared__
#define LOCAL
#define restrict __restrict__
#define WIDE
#define ALIGNED(bytes) __align__(bytes)
#define GROUP(across, down) __launch_bounds__((across) * (down), 1)
#define CLK_LOCAL_MEM_FENCE
#define barrier(fence) __syncthreads()
#define as_int(value) __float_as_int(value)
#define as_float(value) __int_as_float(value)
#define DEVICE __device__ __forceinline__
DEVICE int get_local_id(int axis) { return axis ? threadIdx.y : threadIdx.x; }
DEVICE int get_group_id(int axis) { return axis ? blockIdx.y : blockIdx.x; }
DEVICE int get_global_id(int axis) { return axis ? blockIdx.y * blockDim.y + threadIdx.y
                                                 : blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE int get_global_size(int axis) { return axis ? gridDim.y * blockDim.y : gridDim.x * blockDim.x; }
DEVICE float relu(float value) { return value > 0.0f ? value : 0.0f; }
#define RELU(value) relu(value)
#define FLOAT2(a, b) float2(a, b)
#define FLOAT4(a, b, c, d) float4(a, b, c, d)
#define POOL(name, floats) extern __shared__ __align__(128) float name[]
#define UNROLL(count) _Pragma(#count)
"""
# `inside` says whether there is anything to copy; zeros otherwise, and then `from` may lie anywhere: the copy gets the
# address of x, because the hardware wants an aligned one even for no bytes. A barrier must follow AWAIT.
_CUDA_COPIES = """\
template <int BYTES> DEVICE void copy_async(float *to, const float *source, const float *aligned, bool inside) {
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const float *from = inside ? source : aligned;
  const int bytes = inside ? BYTES : 0;
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(at), "l"(from), "r"(bytes), "n"(BYTES)
                 : "memory");
  }
}
#define COPY(lanes, to, from, inside) copy_async<4 * lanes>(to, from, x, inside)
#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")
#define AWAIT(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")
"""
_OPENCL_COPIES = """\
#define FLOAT2(a, b) ((float2)(a, b))
#define COPY1(to, from, inside) { if (inside) *(to) = *(from); else *(to) = 0.0f; }
#define COPY2(to, from, inside) { if (inside) *(__local float2 *)(to) = *(__global const float2 *)(from); \\
                                  else *(__local float2 *)(to) = 0.0f; }
#define COPY4(to, from, inside) { if (inside) *(__local float4 *)(to) = *(__global const float4 *)(from); \\
                                  else *(__local float4 *)(to) = 0.0f; }
#define COPY(lanes, to, from, inside) COPY##lanes(to, from, inside)
#define COMMIT
#define AWAIT(groups)
#define POOL(name, floats) __local float name[floats] __attribute__((aligned(128)))
#define UNROLL(count)
"""


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def program(device: Device, vector: int, body: str, copies: bool = False) -> KernelSource:
    """The source of a text on a CUDA or OpenCL device; `floats` has `vector` floats.

    With `copies` the text may also use COPY, COMMIT, AWAIT, POOL (the block's shared memory, whose size CUDA learns at
    the launch) and UNROLL.
    """
    if device.backend == "opencl":
        return KernelSource(text.head(vector) + (_OPENCL_COPIES if copies else "") + body, text.OPTIONS)
    return KernelSource(head(vector) + (_CUDA_COPIES if copies else "") + body, NVRTC_OPTIONS)


@lru_cache(maxsize=8)
def head(vector: int) -> str:
    """The head for CUDA: words of OpenCL C, vector types, `floats`, `loose` and `loose4`."""
    sizes = sorted({2, 4, vector} - {1})
    floats, loose = ("float", "float") if vector == 1 else (f"float{vector}", f"loose{vector}")
    names = "".join(f"#define float{size} vector{size}\n" for size in sizes)  # CUDA's own have no arithmetic
    return "".join([_WORDS, names, *map(_vector, sizes), f"typedef {floats} floats;\ntypedef {loose} loose;\n"])


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
