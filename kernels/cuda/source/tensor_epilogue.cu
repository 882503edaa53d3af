//! C++ text behind the k-loop: bias, activation, stores, partial sums in the workspace, and the entries of a launch.
//!
//! The accumulators are stored from registers, two columns of a row at a time, or through shared memory in rows of up to
//! 16 bytes. Partial sums go to the workspace in the order of the registers, which is contiguous over the threads, and a
//! second launch adds them in a fixed order: no result depends on which block came first.
//= result

struct Output {
  element *y;  // of this product
  const element *bias;
  int rows, columns, pitch, pixels;

  __device__ __forceinline__ element *at(int row, int column) const {
    if constexpr (Y_BY_COLUMN)  // [image][column][pixel]; `pitch` columns an image
      return y + (static_cast<size_t>(row / pixels) * pitch + column) * pixels + row % pixels;
    return y + static_cast<size_t>(row) * pitch + column;
  }
};
//= stores

__device__ __forceinline__ float finished(float value, float bias) {
  if constexpr (BIAS) value += bias;
  if constexpr (RELU) value = value < 0.0f ? 0.0f : value;  // NaN stays NaN
  return value;
}

// Stores fragments whose first row is `first` straight from the registers.
template <int COUNT> __device__ __forceinline__ void store_fragments(
    const float (&sum)[COUNT][COLUMNS][4], const Output &output, int first, int first_column) {
  const int lane = threadIdx.x % 32;
  #pragma unroll
  for (int j = 0; j < COLUMNS; j++) {
    const int column = first_column + j * 8 + lane % 4 * 2;
    const bool one = column < output.columns, two = column + 1 < output.columns;
    float bias0 = 0.0f, bias1 = 0.0f;
    if constexpr (BIAS) {
      if (one) bias0 = to_float(load_global(output.bias + column));
      if (two) bias1 = to_float(load_global(output.bias + column + 1));
    }
    #pragma unroll
    for (int i = 0; i < COUNT * 2; i++) {
      const int row = first + i * 8 + lane / 4;
      if (row >= output.rows) continue;
      const float v0 = finished(sum[i / 2][j][i % 2 * 2], bias0), v1 = finished(sum[i / 2][j][i % 2 * 2 + 1], bias1);
      if constexpr (!Y_BY_COLUMN && STORED > 1) {
        if (one) store_global(reinterpret_cast<unsigned *>(output.at(row, column)), to_pair(v0, v1));
      } else {
        if (one) store_global(output.at(row, column), to_element(v0));
        if (two) store_global(output.at(row, column + 1), to_element(v1));
      }
    }
  }
}

// Stores the block's tile through shared memory, STORED elements at a time.
__device__ __forceinline__ void store_tile(
    const float (&sum)[ROWS][COLUMNS][4], const Output &output, int first, int first_column) {
  constexpr int WIDTH = Y_BY_COLUMN ? BLOCK_M : BLOCK_N, HEIGHT = Y_BY_COLUMN ? BLOCK_N : BLOCK_M;
  constexpr int PITCH = WIDTH + 8;  // elements; 16 bytes apart, eight rows lie in different banks
  typedef typename Words<STORED>::type word;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / WARPS_N * WARP_M + lane / 4, column = warp % WARPS_N * WARP_N + lane % 4 * 2;
  __syncthreads();
  #pragma unroll
  for (int j = 0; j < COLUMNS; j++) {
    float bias0 = 0.0f, bias1 = 0.0f;
    if constexpr (BIAS) {
      const int at = first_column + column + j * 8;
      if (at < output.columns) bias0 = to_float(load_global(output.bias + at));
      if (at + 1 < output.columns) bias1 = to_float(load_global(output.bias + at + 1));
    }
    #pragma unroll
    for (int i = 0; i < ROWS * 2; i++) {
      const float v0 = finished(sum[i / 2][j][i % 2 * 2], bias0), v1 = finished(sum[i / 2][j][i % 2 * 2 + 1], bias1);
      if constexpr (Y_BY_COLUMN) {
        store_shared(((column + j * 8) * PITCH + row + i * 8) * 2, to_element(v0));
        store_shared(((column + j * 8 + 1) * PITCH + row + i * 8) * 2, to_element(v1));
      } else {
        store_shared(((row + i * 8) * PITCH + column + j * 8) * 2, to_pair(v0, v1));
      }
    }
  }
  __syncthreads();
  #pragma unroll 4
  for (int unit = threadIdx.x; unit < WIDTH / STORED * HEIGHT; unit += THREADS) {
    const int across = unit % (WIDTH / STORED) * STORED, along = unit / (WIDTH / STORED);
    const int to_row = first + (Y_BY_COLUMN ? across : along);
    const int to_column = first_column + (Y_BY_COLUMN ? along : across);
    if (to_row < output.rows && to_column < output.columns)
      store_global(reinterpret_cast<word *>(output.at(to_row, to_column)),
                   load_shared<word>((along * PITCH + across) * 2));
  }
}

// The four floats of one fragment in the workspace: [slot][row of fragments][column of fragments][thread].
__device__ __forceinline__ float4 *partial(float *workspace, int slot, int i, int j) {
  return reinterpret_cast<float4 *>(workspace)
      + ((static_cast<size_t>(slot) * ROWS + i) * COLUMNS + j) * THREADS + threadIdx.x;
}
__device__ __forceinline__ void keep(const float (&sum)[ROWS][COLUMNS][4], float *workspace, int slot) {
  #pragma unroll
  for (int i = 0; i < ROWS; i++)
    #pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
      float4 four;
      four.x = sum[i][j][0]; four.y = sum[i][j][1]; four.z = sum[i][j][2]; four.w = sum[i][j][3];
      store_global(partial(workspace, slot, i, j), four);
    }
}
//= entries
//! Bands of `band` tile rows, column by column: blocks that run together share rows of A and columns of B in the L2.

struct Tile { int product, row, column; };

__device__ __forceinline__ Tile tile_of(int index, int m_tiles, int n_tiles, int band) {
  const int product = index / (m_tiles * n_tiles), rest = index - product * (m_tiles * n_tiles);
  const int above = rest / (band * n_tiles) * band, inside = rest % (band * n_tiles);
  const int height = min(band, m_tiles - above);
  return Tile{product, above + inside % height, inside / height};
}

__device__ __forceinline__ void run(
    const Shape &shape, const element *x, const element *weights, const element *bias, element *y, float *workspace,
    int index, int begin, int end, int slot) {
  const Tile tile = tile_of(index, shape.m_tiles, shape.n_tiles, shape.band);
  float sum[ROWS][COLUMNS][4] = {};
  Input input(x, shape, tile.product, tile.row * BLOCK_M);
  Panel panel(weights, tile.product * shape.n_tiles + tile.column, shape.k_tiles);
  multiply(sum, input, panel, begin, end);
  if constexpr (PARTIAL) {
    if (slot >= 0) { keep(sum, workspace, slot); return; }
  }
  const Output output = shape.output(y, bias, tile.product);
  if constexpr (THROUGH_SHARED) store_tile(sum, output, tile.row * BLOCK_M, tile.column * BLOCK_N);
  else {
    const int warp = threadIdx.x / 32;
    store_fragments<ROWS>(sum, output, tile.row * BLOCK_M + warp / WARPS_N * WARP_M,
                          tile.column * BLOCK_N + warp % WARPS_N * WARP_N);
  }
}

// Adds the partial sums of a slot for one row of fragments of every warp.
__device__ __forceinline__ void add_slots(float (&sum)[1][COLUMNS][4], float *workspace, int slot, int i) {
  #pragma unroll
  for (int j = 0; j < COLUMNS; j++) {
    const float4 four = load_global(const_cast<const float4 *>(partial(workspace, slot, i, j)));
    sum[0][j][0] += four.x; sum[0][j][1] += four.y; sum[0][j][2] += four.z; sum[0][j][3] += four.w;
  }
}
__device__ __forceinline__ void finish(
    const float (&sum)[1][COLUMNS][4], const Shape &shape, const element *bias, element *y, int index, int i) {
  const Tile tile = tile_of(index, shape.m_tiles, shape.n_tiles, shape.band);
  const int warp = threadIdx.x / 32;
  store_fragments<1>(sum, shape.output(y, bias, tile.product),
                     tile.row * BLOCK_M + warp / WARPS_N * WARP_M + i * 16,
                     tile.column * BLOCK_N + warp % WARPS_N * WARP_N);
}
//= tiles

ENTRY tensor_tiles(SIGNATURE) {
  SHAPE
  const int slice = blockIdx.y;
  run(shape, x, weights, bias, y, workspace, blockIdx.x, shape.k_tiles * slice / slices,
      shape.k_tiles * (slice + 1) / slices, slices > 1 ? static_cast<int>(blockIdx.x * slices + slice) : -1);
}
//= add_slices

ENTRY tensor_add(SIGNATURE) {
  SHAPE
  const int index = blockIdx.x / ROWS, i = blockIdx.x % ROWS;
  float sum[1][COLUMNS][4] = {};
  for (int slice = 0; slice < shape.slices; slice++) add_slots(sum, workspace, index * shape.slices + slice, i);
  finish(sum, shape, bias, y, index, i);
}
//= stream
//! Block b takes iterations [total * b / blocks, total * (b + 1) / blocks) of the streamed tiles, then whole tiles. It
//! keeps at most two partial sums: of the tile in which its share begins and of the one in which it ends.

__device__ __forceinline__ int share(int total, int block, int blocks) {
  return static_cast<int>(static_cast<long long>(total) * block / blocks);
}
ENTRY tensor_tiles(SIGNATURE) {
  SHAPE
  const int block = blockIdx.x, total = shape.streamed * shape.k_tiles;
  const int begin = share(total, block, blocks), end = share(total, block + 1, blocks);
  int at = begin, whole = shape.streamed + block;
  while (true) {
    int index, first = 0, last = shape.k_tiles, slot = -1;
    if (at < end) {
      index = at / shape.k_tiles;
      first = at - index * shape.k_tiles;
      last = min(last, first + end - at);
      if (last - first < shape.k_tiles) slot = 2 * block + (at > begin);
      at += last - first;
    } else if (whole < shape.tiles) {
      index = whole;
      whole += blocks;
    } else break;
    run(shape, x, weights, bias, y, workspace, index, first, last, slot);
  }
}
ENTRY tensor_add(SIGNATURE) {
  SHAPE
  const int index = blockIdx.x / ROWS, i = blockIdx.x % ROWS, total = shape.streamed * shape.k_tiles;
  const long long wide = blocks, begin = index * shape.k_tiles, end = begin + shape.k_tiles;
  const int first = static_cast<int>(((begin + 1) * wide - 1) / total);
  const int last = static_cast<int>((end * wide - 1) / total);
  if (first == last) return;  // one block had all of the tile
  float sum[1][COLUMNS][4] = {};
  for (int block = first; block <= last; block++)
    add_slots(sum, workspace, 2 * block + (share(total, block, blocks) < begin), i);
  finish(sum, shape, bias, y, index, i);
}
