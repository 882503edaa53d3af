//= locate
//! tiles_m counts rows of tiles, or of pairs of tiles in a cluster. group_m of them run together, so that they share B.
__device__ __forceinline__ void locate(int index, int tiles_m, int tiles_n, int group_m, int &row, int &column) {
  const int area = group_m * tiles_n, top = index / area * group_m, rest = index % area;
  const int height = min(group_m, tiles_m - top);
  row = top + rest % height;
  column = rest / height;
}
//= sum_slices
//! In the words of `string.Template`.

extern "C" __global__ void __launch_bounds__(${SUM_THREADS}) sum_slices(
    const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
    const element *x, const element *weights, const element *bias, element *y, float *workspace,
    ${ARGUMENTS}) {
  const long long size = static_cast<long long>(m) * n;
  for (long long at = static_cast<long long>(blockIdx.x) * ${SUM_THREADS} + threadIdx.x; at < size;
       at += static_cast<long long>(gridDim.x) * ${SUM_THREADS}) {
    float sum = 0.0f;
    for (int slice = 0; slice < slices; slice++) sum += load_global(workspace + slice * size + at);${bias}${relu}
    store_global(y + at, to_element(sum));
  }
}
