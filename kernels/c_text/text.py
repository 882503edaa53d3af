"""Text that the kernels in OpenCL C and CUDA C++ share: signature, vector types, epilogue and stores.

Accumulators are named variables, because PoCL keeps no array in registers. Shapes arrive as `int` arguments, so that
one build serves every problem. All text behind the head is CUDA C++ as well: `seqtune.kernels.c_text.prelude` makes its
head there, and both heads define the macros in which the two languages differ.
"""

from __future__ import annotations

from collections.abc import Sequence

OPTIONS = ("-cl-std=CL1.2", "-cl-fast-relaxed-math", "-cl-mad-enable")


def head(vector: int) -> str:
    """Types and macros: `floats` is a vector variable, `loose` one that memory need not align.

    WIDE and GROUP (the shape of a work-group) go before `void`; SHARED declares an array in local memory, LOCAL a
    pointer into it.
    """
    floats = "float" if vector == 1 else f"float{vector}"
    # min_vector_width: without it LLVM splits float16 in two on the CPUs where it prefers 256 bits.
    # intel_vec_len_hint(1): without it Intel's compiler for CPUs computes 4 to 16 work-items at once, each vector in as
    # many registers, although the work-group has one work-item: kernels are slower and take ten times as long to build.
    return f"""\
#ifdef cl_intel_vec_len_hint
#define WIDE __attribute__((intel_vec_len_hint(1)))
#elif defined(__AVX512F__)
#define WIDE __attribute__((min_vector_width(512)))
#else
#define WIDE
#endif
typedef {floats} floats;
typedef {floats} __attribute__((aligned(4))) loose;
typedef float4 __attribute__((aligned(4))) loose4;
#define FLOAT4(a, b, c, d) ((float4)(a, b, c, d))
#define RELU(value) ((value) > 0.0f ? (value) : (floats)(0.0f))
#define SHARED __local
#define LOCAL __local
#define ALIGNED(bytes) __attribute__((aligned(bytes)))
#define GROUP(across, down) __attribute__((reqd_work_group_size(across, down, 1)))
"""


def signature(arguments: Sequence[str]) -> str:
    """The parameters of a kernel, as `seqtune.kernels.launches.entry_arguments` makes them."""
    return ("__global const float *restrict x, __global const float *restrict weights,\n"
            "    __global const float *restrict bias, __global float *restrict y,\n"
            "    __global float *restrict workspace, " + ", ".join(f"int {name}" for name in arguments))


def accumulator(row: int, pixel: int, vector: int) -> str:
    """The name of an accumulator variable."""
    return f"a{row}_{pixel}_{vector}"


def store(rows: int, pixels: int, vectors: int, vector: int, channels_last: bool, bias: bool, relu: bool,
          gap: int = 1) -> list[str]:
    """Lines that apply the epilogue to the accumulators and store them at `to`.

    `gap` is the distance between the pixels of a work-item. The lines read `to`, `bias_at` (of the first output
    channel), `y_row`, `y_pixel` (channels last) and `y_channel`.
    """
    lines = []
    for v in range(vectors):
        if bias:
            lines.append(f"  const floats b{v} = *(__global const loose *)(bias_at + {v * vector});")
        for name in (accumulator(j, i, v) for j in range(rows) for i in range(pixels)):
            if bias:
                lines.append(f"  {name} += b{v};")
            if relu:
                lines.append(f"  {name} = RELU({name});")
        for j in range(rows):
            if channels_last:
                lines += [f"  *(__global loose *)(to + {j} * y_row + {i * gap} * y_pixel + {v * vector})"
                          f" = {accumulator(j, i, v)};" for i in range(pixels)]
                continue
            fours = pixels // 4 * 4 if gap == 1 else 0
            for lane in range(vector):
                address = f"to + {v * vector + lane} * y_channel + {j} * y_row"
                element = f".s{lane:x}" if vector > 1 else ""
                for i in range(0, fours, 4):  # LLVM turns these into a transposition in registers
                    four = ", ".join(accumulator(j, i + o, v) + element for o in range(4))
                    lines.append(f"  *(__global loose4 *)({address} + {i}) = FLOAT4({four});")
                lines += [f"  *({address} + {i * gap}) = {accumulator(j, i, v)}{element};"
                          for i in range(fours, pixels)]
    return lines
