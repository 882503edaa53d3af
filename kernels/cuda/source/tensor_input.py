"""C++ text that copies tiles of A, which is not packed: the rows of a matrix, its columns, or gathered pixels.

Every `Input` has `seek` (the first tile of k), `fetch` (one copy of one thread, VECTOR elements), `store` (of what it
holds in registers) and `advance` (to the next tile). Rows beyond the end repeat the last ones and are never stored;
beyond the end of k there are zeros.
"""

from __future__ import annotations

# Units of VECTOR elements: `line` is the row of the tile in shared memory, `unit_at` the element in it.
COMMON = r"""
typedef Units<A_WIDTH, VECTOR> InputUnits;
__device__ __forceinline__ int line(int copy) { return InputUnits::line(copy); }
__device__ __forceinline__ int unit_at(int copy) { return InputUnits::at(copy); }
__device__ __forceinline__ unsigned input_place(int copy) { return InputUnits::to(copy); }
__device__ __forceinline__ bool input_inside(int copy) {
  return A_UNITS % THREADS == 0 || threadIdx.x + copy * THREADS < A_UNITS;
}
typedef typename Words<VECTOR>::type input_word;
struct Held {
  input_word held[A_HELD ? A_COPIES : 1];

  __device__ __forceinline__ input_word &of(int copy) { return held[A_HELD ? copy : 0]; }
  __device__ __forceinline__ void store(unsigned stage) {
    if constexpr (A_HELD) {
      #pragma unroll
      for (int copy = 0; copy < A_COPIES; copy++)
        if (input_inside(copy)) store_shared(stage + input_place(copy), held[copy]);
    }
  }
};
"""

MATRIX = r"""
struct Shape {
  int m, n, k, m_tiles, n_tiles, k_tiles, band, slices, streamed, tiles, blocks;

  __device__ __forceinline__ Output output(element *y, const element *bias, int) const {
    return Output{y, bias, m, n, n, 1};
  }
};
struct Input : Held {
  const element *from;
  unsigned offset[A_COPIES];
  int k, m;

  __device__ __forceinline__ Input(const element *x, const Shape &shape, int, int first)
      : from(x), k(shape.k), m(shape.m) {
    #pragma unroll
    for (int copy = 0; copy < A_COPIES; copy++) {
      if constexpr (A_BY_K)
        offset[copy] = static_cast<unsigned>(line(copy)) * m + min(first + unit_at(copy), m - VECTOR);
      else offset[copy] = static_cast<unsigned>(min(first + line(copy), m - 1)) * k + unit_at(copy);
    }
  }
  __device__ __forceinline__ void seek(int) {}
  __device__ __forceinline__ void advance() {}
  __device__ __forceinline__ void fetch(int tile, unsigned stage, int copy) {
    if (!input_inside(copy)) return;
    const int at = tile * BLOCK_K + (A_BY_K ? line(copy) : unit_at(copy));
    const size_t skipped = static_cast<size_t>(tile) * BLOCK_K * (A_BY_K ? m : 1);
    move<VECTOR, A_HELD>(stage + input_place(copy), from + skipped + offset[copy], at < k, of(copy));
  }
};
"""
