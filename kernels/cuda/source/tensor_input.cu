//! C++ text that copies tiles of A, which is not packed: the rows of a matrix, its columns, or gathered pixels.
//!
//! Every `Input` has `seek` (the first tile of k), `fetch` (one copy of one thread, VECTOR elements), `store` (of what it
//! holds in registers) and `advance` (to the next tile). Rows beyond the end repeat the last ones and are never stored;
//! beyond the end of k there are zeros.
//= units
//! Units of VECTOR elements: `line` is the row of the tile in shared memory, `unit_at` the element in it.

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
//= matrix

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
//= pixels
//! C++ text that gathers tiles of A for a convolution: row = pixel of the output, k = (tap of the filter, channel).
//!
//! Channels last (A_BY_K = false): a copy is VECTOR channels of one pixel; all copies of a thread are at one k, for several
//! pixels. Channels first (A_BY_K = true): a copy is VECTOR pixels of one channel, one pixel each unless the filter is 1x1;
//! all copies of a thread are for the same pixels, and neighbouring threads read neighbouring pixels.
//! Source: S. Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014 (implicit GEMM).

struct Shape {
  int rows, outputs, channels, filter_h, filter_w, height, width;
  int columns, pixels, above, before, stride_h, stride_w, dilation_h, dilation_w;
  int x_image, x_group, x_line, x_pixel, x_channel, y_pitch, y_group;
  int m_tiles, n_tiles, k_tiles, band, slices, streamed, tiles, blocks;

  __device__ __forceinline__ Output output(element *y, const element *bias, int group) const {
    return Output{y + static_cast<size_t>(group) * y_group, BIAS ? bias + group * outputs : bias, rows, outputs,
                  y_pitch, pixels};
  }
};

struct Corner { int offset, top, left; };  // where the filter's first tap lies for a pixel, which may be outside

__device__ __forceinline__ Corner corner_of(const Shape &shape, int row) {
  const int image = row / shape.pixels, pixel = row - image * shape.pixels, line = pixel / shape.columns;
  const int top = line * shape.stride_h - shape.above;
  const int left = (pixel - line * shape.columns) * shape.stride_w - shape.before;
  return Corner{image * shape.x_image + top * shape.x_line + left * shape.x_pixel, top, left};
}

struct Input : Held {
  static constexpr int PLACES = A_BY_K ? 1 : A_COPIES, LINES = THREADS / (A_WIDTH / VECTOR);
  const element *from;
  const Shape &shape;
  int offset[PLACES], corner[PADDED ? PLACES : 1];  // top and left in 16 bits each
  int channel, r, s, skipped;  // the next k, and its offset from a corner
  bool inside;  // channels first: whether it is there, for this thread's pixel

  __device__ __forceinline__ Input(const element *x, const Shape &shape, int group, int first)
      : from(x + static_cast<size_t>(group) * shape.x_group), shape(shape) {
    #pragma unroll
    for (int i = 0; i < PLACES; i++) {
      const int row = min(first + (A_BY_K ? unit_at(0) : line(i)), shape.rows - (A_BY_K ? VECTOR : 1));
      const Corner at = corner_of(shape, row);
      offset[i] = at.offset;
      if constexpr (PADDED) corner[i] = at.top * 65536 + (at.left & 0xFFFF);
    }
  }
  __device__ __forceinline__ bool covers(int i) const {
    if (r >= shape.filter_h) return false;  // beyond the end of k
    if constexpr (!PADDED) return true;
    const int top = (corner[i] >> 16) + r * shape.dilation_h;
    const int left = static_cast<short>(corner[i] & 0xFFFF) + s * shape.dilation_w;
    return static_cast<unsigned>(top) < static_cast<unsigned>(shape.height)
        && static_cast<unsigned>(left) < static_cast<unsigned>(shape.width);
  }
  __device__ __forceinline__ void settle() {
    skipped = r * shape.dilation_h * shape.x_line + s * shape.dilation_w * shape.x_pixel + channel * shape.x_channel;
    if constexpr (A_BY_K) {
      inside = covers(0);
      if (!inside) skipped = 0;  // even a copy of nothing needs an aligned address
    }
  }
  __device__ __forceinline__ void seek(int tile) {
    const int k = tile * BLOCK_K + (A_BY_K ? line(0) : unit_at(0)), tap = k / shape.channels;
    channel = k - tap * shape.channels;
    r = tap / shape.filter_w;
    s = tap - r * shape.filter_w;
    settle();
  }
  __device__ __forceinline__ void forward(int steps) {
    channel += steps;
    skipped += steps * shape.x_channel;
    if (channel < shape.channels) return;
    while (channel >= shape.channels) {
      channel -= shape.channels;
      if (++s == shape.filter_w) { s = 0; r++; }
    }
    settle();
  }
  __device__ __forceinline__ void advance() { if constexpr (!A_BY_K) forward(BLOCK_K); }
  __device__ __forceinline__ void fetch(int, unsigned stage, int copy) {
    if constexpr (A_BY_K) {
      move<VECTOR, A_HELD>(stage + input_place(copy), from + (offset[0] + skipped), inside, of(copy));
      forward(LINES);
    } else {
      if (!input_inside(copy)) return;
      move<VECTOR, A_HELD>(stage + input_place(copy), from + (offset[copy] + skipped), covers(copy), of(copy));
    }
  }
};
