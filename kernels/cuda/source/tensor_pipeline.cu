//! C++ text of the k-loop on tensor cores: tiles in shared memory, copies ahead of the arithmetic, fragments, products.
//!
//! A thread block multiplies BLOCK_M rows of A by BLOCK_N columns of B. A stage holds BLOCK_K of k of both. STAGES - 1
//! copies are under way while one stage is multiplied. Every warp loads its fragments with ldmatrix; with FRAGMENTS = 2 it
//! loads those of the next 16 of k before it multiplies, across the border of two stages as well.
//!
//! Eight rows of 16 bytes that ldmatrix reads at once must lie in different banks: either chunks of 16 bytes are permuted
//! by an exclusive or with the row, or every row is longer by PADDING = 8 elements. Source of the pipeline: NVIDIA CUTLASS,
//! "Efficient GEMM in CUDA" (its documentation); of the permutation: the same.
//= numbers
//! Numbers that follow from those of the tile; `place` is a byte offset within a tile of WIDTH elements a row.

constexpr int WARPS_N = BLOCK_N / WARP_N, THREADS = 32 * (BLOCK_M / WARP_M) * WARPS_N;
constexpr int ROWS = WARP_M / 16, COLUMNS = WARP_N / 8, STEPS = BLOCK_K / 16;  // fragments of a warp; of a stage
constexpr int A_WIDTH = A_BY_K ? BLOCK_M : BLOCK_K, A_HEIGHT = A_BY_K ? BLOCK_K : BLOCK_M;
constexpr int A_BYTES = A_HEIGHT * (A_WIDTH + PADDING) * 2, B_BYTES = BLOCK_N * (BLOCK_K + PADDING) * 2;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int A_UNITS = BLOCK_M * BLOCK_K / VECTOR, A_COPIES = (A_UNITS + THREADS - 1) / THREADS;
constexpr int B_UNITS = BLOCK_N * BLOCK_K / 8, B_COPIES = (B_UNITS + THREADS - 1) / THREADS;
constexpr bool A_HELD = !ASYNCHRONOUS || VECTOR == 1, B_HELD = !ASYNCHRONOUS;  // copied through registers

template <int COUNT> struct Words;
template <> struct Words<8> { typedef uint4 type; };
template <> struct Words<4> { typedef uint2 type; };
template <> struct Words<2> { typedef unsigned type; };
template <> struct Words<1> { typedef element type; };

template <int WIDTH> __device__ __forceinline__ unsigned place(int row, int chunk) {
  if constexpr (PADDING > 0) return row * (WIDTH + PADDING) * 2 + chunk * 16;
  constexpr int CHUNKS = WIDTH / 8, SHARING = CHUNKS < 8 ? 8 / CHUNKS : 1, MASK = (CHUNKS < 8 ? CHUNKS : 8) - 1;
  return row * WIDTH * 2 + (chunk ^ (row / SHARING & MASK)) * 16;
}

// The units of COUNT elements that a thread copies into a tile, THREADS apart: the row and the element in it.
template <int WIDTH, int COUNT> struct Units {
  static constexpr int ACROSS = WIDTH / COUNT, LINES = THREADS / ACROSS, PITCH = (WIDTH + PADDING) * 2;
  static constexpr bool REGULAR = THREADS % ACROSS == 0;  // all units of a thread are at one element of their rows

  static __device__ __forceinline__ int line(int copy) {
    if constexpr (REGULAR) return threadIdx.x / ACROSS + copy * LINES;
    return (threadIdx.x + copy * THREADS) / ACROSS;
  }
  static __device__ __forceinline__ int at(int copy) {
    if constexpr (REGULAR) return threadIdx.x % ACROSS * COUNT;
    return (threadIdx.x + copy * THREADS) % ACROSS * COUNT;
  }
  static __device__ __forceinline__ unsigned to(int copy) {
    if constexpr (REGULAR && (LINES % 8 == 0 || PADDING > 0))  // chunks are permuted alike every 8 rows
      return place<WIDTH>(line(0), at(0) / 8) + at(0) % 8 * 2 + copy * LINES * PITCH;
    return place<WIDTH>(line(copy), at(copy) / 8) + at(copy) % 8 * 2;
  }
};

template <int COUNT, bool HELD> __device__ __forceinline__ void move(
    unsigned to, const element *from, bool valid, typename Words<COUNT>::type &held) {
  typedef typename Words<COUNT>::type word;
  if constexpr (!HELD) cp_async<COUNT * 2>(to, from, valid ? COUNT * 2 : 0);
  else held = valid ? load_global(reinterpret_cast<const word *>(from)) : word();
}
//= panel
//! The packed operand: [product][tile of columns][tile of k][column][k], with zeros beyond its end.

struct Panel {
  const element *from;
  uint4 held[B_HELD ? B_COPIES : 1];

  __device__ __forceinline__ Panel(const element *packed, int tile, int k_tiles)
      : from(packed + static_cast<size_t>(tile) * k_tiles * (BLOCK_N * BLOCK_K) + threadIdx.x * 8) {}
  static __device__ __forceinline__ unsigned to(int copy) { return A_BYTES + Units<BLOCK_K, 8>::to(copy); }
  static __device__ __forceinline__ bool inside(int copy) {
    return B_UNITS % THREADS == 0 || threadIdx.x + copy * THREADS < B_UNITS;
  }
  __device__ __forceinline__ void fetch(int tile, unsigned stage, int copy) {
    if (inside(copy))
      move<8, B_HELD>(stage + to(copy), from + static_cast<size_t>(tile) * (BLOCK_N * BLOCK_K) + copy * THREADS * 8,
                      true, held[B_HELD ? copy : 0]);
  }
  __device__ __forceinline__ void store(unsigned stage) {
    if constexpr (B_HELD) {
      #pragma unroll
      for (int copy = 0; copy < B_COPIES; copy++)
        if (inside(copy)) store_shared(stage + to(copy), held[copy]);
    }
  }
};
//= loop

// Where a lane's rows of matrices lie in a stage. The place `steps` pairs of chunks further on in the same row is an
// exclusive or away, because the place with `steps` = 0 has an even chunk there but for bits that are permuted anyway.
struct Places {
  unsigned a, b;

  __device__ __forceinline__ Places() {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / WARPS_N * WARP_M, column = warp % WARPS_N * WARP_N;
    if constexpr (A_BY_K) a = place<A_WIDTH>(lane % 8 + lane / 16 * 8, row / 8 + lane / 8 % 2);
    else a = place<A_WIDTH>(row + lane % 16, lane / 16);
    b = place<BLOCK_K>(column + lane % 8 + lane / 16 * 8, lane / 8 % 2);
  }
  static __device__ __forceinline__ unsigned further(unsigned from, int steps) {
    if constexpr (PADDING > 0) return from + steps * 32;
    return from ^ steps * 32;
  }
};

struct Fragments {
  unsigned a[ROWS][4], b[COLUMNS / 2][4];

  __device__ __forceinline__ void load(const Places &places, unsigned stage, int step) {
    constexpr int A_PITCH = (A_WIDTH + PADDING) * 2, B_PITCH = (BLOCK_K + PADDING) * 2;
    #pragma unroll
    for (int i = 0; i < ROWS; i++) {
      if constexpr (A_BY_K) ldmatrix_x4_trans(a[i], stage + Places::further(places.a, i) + step * 16 * A_PITCH);
      else ldmatrix_x4(a[i], stage + Places::further(places.a, step) + i * 16 * A_PITCH);
    }
    #pragma unroll
    for (int j = 0; j < COLUMNS / 2; j++)
      ldmatrix_x4(b[j], stage + A_BYTES + Places::further(places.b, step) + j * 16 * B_PITCH);
  }
  __device__ __forceinline__ void multiply(float (&sum)[ROWS][COLUMNS][4]) const {
    #pragma unroll
    for (int i = 0; i < ROWS; i++)
      #pragma unroll
      for (int at = 0; at < COLUMNS; at++) {
        const int j = i % 2 ? COLUMNS - 1 - at : at;  // back and forth: the next product shares an operand
        mma_m16n8k16(sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
  }
};

// The part of the copies of a stage that belongs to one step of the arithmetic; steps == 1: all of them.
__device__ __forceinline__ void fetch(Input &input, Panel &panel, int tile, unsigned stage, int step, int steps) {
  #pragma unroll
  for (int copy = 0; copy < A_COPIES; copy++)
    if (copy * steps / A_COPIES == step) input.fetch(tile, stage, copy);
  #pragma unroll
  for (int copy = 0; copy < B_COPIES; copy++)
    if (copy * steps / B_COPIES == step) panel.fetch(tile, stage, copy);
}
__device__ __forceinline__ void commit() { if constexpr (ASYNCHRONOUS) cp_async_commit(); }
__device__ __forceinline__ void wait() { if constexpr (ASYNCHRONOUS) cp_async_wait<STAGES - 2>(); }
__device__ __forceinline__ unsigned following(unsigned stage) {
  return stage + STAGE_BYTES == STAGES * STAGE_BYTES ? 0 : stage + STAGE_BYTES;
}

// sum += the product over the tiles of k from `begin` to `end`.
__device__ __forceinline__ void multiply(
    float (&sum)[ROWS][COLUMNS][4], Input &input, Panel &panel, int begin, int end) {
  Fragments fragments[FRAGMENTS];
  const Places places;
  if constexpr (STAGES == 1) {
    for (int tile = begin; tile < end; tile++) {
      __syncthreads();
      input.seek(tile);
      fetch(input, panel, tile, 0, 0, 1);
      input.store(0);
      panel.store(0);
      __syncthreads();
      #pragma unroll
      for (int step = 0; step < STEPS; step++) {
        fragments[0].load(places, 0, step);
        fragments[0].multiply(sum);
      }
    }
    return;
  } else {
    unsigned read = 0, write = 0;
    if constexpr (PERSISTENT) __syncthreads();  // the tile before has been read
    input.seek(begin);
    #pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
      if (begin + ahead < end) {
        fetch(input, panel, begin + ahead, write, 0, 1);
        input.store(write);
        panel.store(write);
        input.advance();
      }
      commit();
      write += STAGE_BYTES;
    }
    if constexpr (FRAGMENTS == 2) {
      wait();
      __syncthreads();
      fragments[0].load(places, 0, 0);
    }
    #pragma unroll 1
    for (int tile = begin; tile < end; tile++) {
      const int ahead = tile + STAGES - 1;
      if constexpr (FRAGMENTS == 1) {
        wait();
        __syncthreads();
      }
      #pragma unroll
      for (int step = 0; step < STEPS; step++) {
        if (ahead < end) fetch(input, panel, ahead, write, step, STEPS);
        if (step == STEPS - 1) commit();
        if constexpr (FRAGMENTS == 2) {
          if (step == STEPS - 1) {
            if (ahead < end) { input.store(write); panel.store(write); }
            wait();
            __syncthreads();
            read = following(read);
          }
          fragments[(step + 1) % 2 * (FRAGMENTS - 1)].load(places, read, (step + 1) % STEPS);
          fragments[step % 2 * (FRAGMENTS - 1)].multiply(sum);
        } else {
          fragments[0].load(places, read, step);
          fragments[0].multiply(sum);
        }
      }
      if constexpr (FRAGMENTS == 1) {
        if (ahead < end) { input.store(write); panel.store(write); }
        read = following(read);
      }
      if (ahead < end) input.advance();
      write = following(write);
    }
    if constexpr (ASYNCHRONOUS) cp_async_wait<0>();
  }
}
