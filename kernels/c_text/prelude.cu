//= words
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
//= cuda_copies
//! `inside` says whether there is anything to copy; zeros otherwise, and then `from` may lie anywhere: the copy gets the
//! address of x, because the hardware wants an aligned one even for no bytes. A barrier must follow AWAIT.
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
//= opencl_copies
#define FLOAT2(a, b) ((float2)(a, b))
#define COPY1(to, from, inside) { if (inside) *(to) = *(from); else *(to) = 0.0f; }
#define COPY2(to, from, inside) { if (inside) *(__local float2 *)(to) = *(__global const float2 *)(from); \
                                  else *(__local float2 *)(to) = 0.0f; }
#define COPY4(to, from, inside) { if (inside) *(__local float4 *)(to) = *(__global const float4 *)(from); \
                                  else *(__local float4 *)(to) = 0.0f; }
#define COPY(lanes, to, from, inside) COPY##lanes(to, from, inside)
#define COMMIT
#define AWAIT(groups)
#define POOL(name, floats) __local float name[floats] __attribute__((aligned(128)))
#define UNROLL(count)
