// CUDA C++ on a host: the words of the language, and the device functions of kernels/cuda/source/instructions.cu with
// every access checked. A lane of a block is a fibre; shim.cpp runs them. Included before the body of a kernel.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#define __device__
#define __global__
#define __host__
#define __shared__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes)

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
typedef unsigned short element;

namespace shim {
struct Size { unsigned x, y, z; };
struct Copy { unsigned offset; const void *from; int bytes, valid; unsigned group; };
struct Meeting;

struct Lane {  // one thread of the block
  Size thread, block;
  unsigned index, rank;  // in the cluster; of the block in it
  unsigned char *memory;  // shared memory of the block
  void *stack_pointer;
  int state;  // 0: ready, 1: waits, 2: done
  const char *waits_for;
  Meeting *meeting;
  bool (*ready)(const void *);  // of a lane that polls
  const void *subject;
  unsigned committed;
};

// Lanes that must all arrive before any goes on: a warp, a group of warps, the block.
struct Meeting {
  const char *name;
  unsigned first, expected, arrived;
  void *arguments[1024];
};

extern Lane *current;
extern Size grid_size, block_size;
extern unsigned shared_size;
extern bool brain;  // elements are bf16, not fp16

[[noreturn]] void fail(const char *format, ...);
Meeting &warp_of(const Lane &lane);
Meeting &whole_block();
// Waits for all lanes of a meeting. The last one calls `act` with the arguments of all.
void meet(Meeting &meeting, const char *name, void *argument, void (*act)(void **arguments, unsigned count));
// Waits until `ready(subject)` holds, which the scheduler asks again and again.
void wait_until(const char *name, bool (*ready)(const void *), const void *subject);
void barrier();  // of the block; it ends an epoch of the race detector

void check_global(const void *from, int bytes, int alignment, bool write);
void check_shared(unsigned offset, int bytes, bool write);  // bounds, alignment, races
void copy_later(const Copy &copy);
void land(unsigned pending);
void ldmatrix(unsigned *r, unsigned offset, bool transposed);
void mma(float *d, const unsigned *a, unsigned b0, unsigned b1);
float widened(element value);
element narrowed(float value);

template <typename... Types, size_t... Numbers>
inline void unpack(void (*entry)(Types...), void **values, std::index_sequence<Numbers...>) {
  entry(*static_cast<std::remove_cv_t<Types> *>(values[Numbers])...);
}
template <typename... Types> inline void invoke(void (*entry)(Types...), void **values) {
  unpack(entry, values, std::index_sequence_for<Types...>());
}
}  // namespace shim

#define shared_memory (shim::current->memory)
#define threadIdx (shim::current->thread)
#define blockIdx (shim::current->block)
#define gridDim (shim::grid_size)
#define blockDim (shim::block_size)

inline void __syncthreads() { shim::barrier(); }
inline void __syncwarp() { shim::meet(shim::warp_of(*shim::current), "__syncwarp", nullptr, nullptr); }
template <typename T> inline T min(T a, T b) { return b < a ? b : a; }
template <typename T> inline T max(T a, T b) { return a < b ? b : a; }

template <typename T> inline T load_global(const T *from) {
  shim::check_global(from, sizeof(T), sizeof(T), false);
  return *from;
}
template <typename T> inline void store_global(T *to, T value) {
  shim::check_global(to, sizeof(T), sizeof(T), true);
  *to = value;
}
template <typename T> inline T load_shared(unsigned offset) {
  shim::check_shared(offset, sizeof(T), false);
  T value;
  memcpy(&value, shared_memory + offset, sizeof(T));
  return value;
}
template <typename T> inline void store_shared(unsigned offset, T value) {
  shim::check_shared(offset, sizeof(T), true);
  memcpy(shared_memory + offset, &value, sizeof(T));
}

template <int BYTES> inline void cp_async(unsigned offset, const void *from, int valid) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
  shim::copy_later({offset, from, BYTES, valid, 0});
}
inline void cp_async_commit() { shim::current->committed++; }
template <int PENDING> inline void cp_async_wait() { shim::land(PENDING); }

inline void ldmatrix_x4(unsigned (&r)[4], unsigned offset) { shim::ldmatrix(r, offset, false); }
inline void ldmatrix_x4_trans(unsigned (&r)[4], unsigned offset) { shim::ldmatrix(r, offset, true); }
inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { shim::mma(d, a, b0, b1); }

inline float to_float(element value) { return shim::widened(value); }
inline element to_element(float value) { return shim::narrowed(value); }
inline unsigned to_pair(float first, float second) {
  return to_element(first) | static_cast<unsigned>(to_element(second)) << 16;
}

#include "hopper.hpp"
