//= rates

extern "C" __global__ void __launch_bounds__(256) peak(float *y, int loops) {
  const float s = y[0];
  float a[16];
#pragma unroll
  for (int i = 0; i < 16; i++) a[i] = s + i;
  for (int n = 0; n < loops; n++) {
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
      for (int i = 0; i < 16; i++) a[i] = a[i] * s + s;
  }
  float total = 0;
#pragma unroll
  for (int i = 0; i < 16; i++) total += a[i];
  y[blockIdx.x * blockDim.x + threadIdx.x] = total * s;  // s is 0, which the compiler does not know
}
extern "C" __global__ void __launch_bounds__(256) tensor(float *y, int loops) {
  const float s = y[0];
  const unsigned a = __float_as_uint(s);
  float c[4][4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) c[i][j] = s;
  for (int n = 0; n < loops; n++) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#if __CUDA_ARCH__ >= 800
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, "
                   "{%0,%1,%2,%3};" : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]) : "r"(a));
#else
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4}, {%4}, {%0,%1,%2,%3};"
                   : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]) : "r"(a));
#endif
  }
  float total = 0;
#pragma unroll
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) total += c[i][j];
  y[blockIdx.x * blockDim.x + threadIdx.x] = total * s;
}
extern "C" __global__ void __launch_bounds__(256) sweep(float *y, const float4 *x, int steps) {
  float total = 0;
  x += blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < steps; i++, x += gridDim.x * blockDim.x) {
    const float4 v = __ldcs(x);
    total += v.x + v.y + v.z + v.w;
  }
  if (total != 0) y[1] = total;  // x holds zeros
}
