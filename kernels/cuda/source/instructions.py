"""Device functions that wrap one instruction each: tensor-core products, matrix loads, copies, conversions.

The text of a tensor-core kernel consists of these functions and a body of plain C++ that reaches memory through them
alone. So the body also runs on a host, where a second definition of the same functions checks every access. Elements
are `unsigned short`; places in shared memory are byte offsets from its beginning. The header cuda_fp16.h is not used:
NVRTC comes without it. Source of the fragments' layouts: the PTX ISA, "Matrix multiply-accumulate using mma".
"""

from __future__ import annotations

PTX_TYPES = {"fp16": "f16", "bf16": "bf16"}  # element types in the names of instructions
BODY = "// The body: plain C++ over the functions above.\n"  # the host puts other functions before this line

MEMORY = r"""
typedef unsigned short element;
extern __shared__ __align__(1024) unsigned char shared_memory[];

__device__ __forceinline__ unsigned shared_address(unsigned offset) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared_memory)) + offset;
}
template <typename T> __device__ __forceinline__ T load_global(const T *from) { return *from; }
template <typename T> __device__ __forceinline__ void store_global(T *to, T value) { *to = value; }
template <typename T> __device__ __forceinline__ T load_shared(unsigned offset) {
  return *reinterpret_cast<const T *>(shared_memory + offset);
}
template <typename T> __device__ __forceinline__ void store_shared(unsigned offset, T value) {
  *reinterpret_cast<T *>(shared_memory + offset) = value;
}
"""

# The copy lands at some time until the wait for its group; bytes beyond `valid` become 0. 16-byte copies bypass the L1.
COPIES = r"""
template <int BYTES> __device__ __forceinline__ void cp_async(unsigned offset, const void *from, int valid) {
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(offset)), "l"(from), "r"(valid) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(shared_address(offset)), "l"(from), "n"(BYTES), "r"(valid) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}
"""

MATRICES = r"""
__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(offset)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(offset)) : "memory");
}
"""

# d += a b for 16 x 8 x 16 elements. Two products of depth 8 do the same on sm_75.
_PRODUCT_16 = r"""
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.%TYPE.%TYPE.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
"""
_PRODUCT_8 = r"""
__device__ __forceinline__ void mma_m16n8k8(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b0));
}
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mma_m16n8k8(d, a[0], a[1], b0);
  mma_m16n8k8(d, a[2], a[3], b1);
}
"""

_HALF = r"""
__device__ __forceinline__ float to_float(element value) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value));
  return wide;
}
__device__ __forceinline__ element to_element(float value) {
  element narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow) : "f"(value));
  return narrow;
}
"""
_BRAIN = r"""
__device__ __forceinline__ float to_float(element value) {
  return __uint_as_float(static_cast<unsigned>(value) << 16);
}
__device__ __forceinline__ element to_element(float value) {
  element narrow;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow) : "f"(value));
  return narrow;
}
"""
_PAIR = r"""
__device__ __forceinline__ unsigned to_pair(float first, float second) {
  unsigned both;
  asm("cvt.rn.%TYPEx2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
"""
_PAIR_OF_TWO = r"""
__device__ __forceinline__ unsigned to_pair(float first, float second) {
  return to_element(first) | static_cast<unsigned>(to_element(second)) << 16;
}
"""


def instructions(dtype: str, compute_capability: int) -> str:
    """The device functions for elements of fp16 or bf16 on an architecture.

    sm_75 has fp16 alone, and a body for it must not use the asynchronous copies.
    """
    name = PTX_TYPES[dtype]
    modern = compute_capability >= 80
    parts = (MEMORY, COPIES, MATRICES, _PRODUCT_16 if modern else _PRODUCT_8,
             _HALF if dtype == "fp16" else _BRAIN, _PAIR if modern else _PAIR_OF_TWO)
    return "".join(parts).replace("%TYPE", name) + BODY
