//= memory

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
//= copies
//! The copy lands at some time until the wait for its group; bytes beyond `valid` become 0. 16-byte copies bypass the L1.

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
//= matrices

__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(offset)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(offset)) : "memory");
}
//= product_16
//! d += a b for 16 x 8 x 16 elements.

__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.%TYPE.%TYPE.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
//= product_8
//! The same by two products of depth 8, on sm_75.

__device__ __forceinline__ void mma_m16n8k8(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b0));
}
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mma_m16n8k8(d, a[0], a[1], b0);
  mma_m16n8k8(d, a[2], a[3], b1);
}
//= fp16

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
//= bf16

__device__ __forceinline__ float to_float(element value) {
  return __uint_as_float(static_cast<unsigned>(value) << 16);
}
__device__ __forceinline__ element to_element(float value) {
  element narrow;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow) : "f"(value));
  return narrow;
}
//= pair

__device__ __forceinline__ unsigned to_pair(float first, float second) {
  unsigned both;
  asm("cvt.rn.%TYPEx2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
//= pair_of_two

__device__ __forceinline__ unsigned to_pair(float first, float second) {
  return to_element(first) | static_cast<unsigned>(to_element(second)) << 16;
}
