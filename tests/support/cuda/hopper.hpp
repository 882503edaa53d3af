// The device functions of kernels/cuda/source/hopper.cu on a host; hopper.cpp models what they start.
#pragma once

#define __cluster_dims__(...)

typedef unsigned long long descriptor;

struct CUtensorMap {  // a description that the driver would encode; a matrix of 2-byte elements
  const unsigned char *base;
  uint64_t sizes[2], step;  // elements
  uint32_t box[2], swizzle;  // elements; bytes
};

namespace shim {
void barrier_init(unsigned barrier, int arrivals);
void barrier_publish();
void barrier_expect(unsigned barrier, int bytes);
void barrier_arrive(unsigned barrier, unsigned rank);
void barrier_wait(unsigned barrier, int parity);
void cluster_sync();
void copy_box(unsigned to, const CUtensorMap &map, unsigned barrier, int inner, int outer, unsigned mask);
void products_begin();
void products_commit();
void products_wait(int pending);
void product(float *sums, int columns, bool rows_adjacent, bool columns_adjacent, descriptor a, descriptor b);
}  // namespace shim

template <int COUNT> inline void take_registers() {}
template <int COUNT> inline void release_registers() {}

inline void barrier_init(unsigned barrier, int arrivals) { shim::barrier_init(barrier, arrivals); }
inline void barrier_publish() { shim::barrier_publish(); }
inline void barrier_expect(unsigned barrier, int bytes) { shim::barrier_expect(barrier, bytes); }
inline void barrier_arrive(unsigned barrier) { shim::barrier_arrive(barrier, shim::current->rank); }
inline void barrier_wait(unsigned barrier, int parity) { shim::barrier_wait(barrier, parity); }

inline int cluster_rank() { return static_cast<int>(shim::current->rank); }
inline void cluster_sync() { shim::cluster_sync(); }
inline void barrier_arrive_at(unsigned barrier, int rank) { shim::barrier_arrive(barrier, rank); }

inline void copy_prefetch(const CUtensorMap &) {}
inline void copy_box(unsigned to, const CUtensorMap &map, unsigned barrier, int inner, int outer) {
  shim::copy_box(to, map, barrier, inner, outer, 1u << shim::current->rank);
}
inline void copy_box_to_all(unsigned to, const CUtensorMap &map, unsigned barrier, int inner, int outer, int mask) {
  shim::copy_box(to, map, barrier, inner, outer, mask);
}

inline descriptor shared_descriptor(descriptor layout, unsigned from) { return layout | (from & 0x3FFFF) >> 4; }
inline void products_begin() { shim::products_begin(); }
inline void products_commit() { shim::products_commit(); }
template <int PENDING> inline void products_wait() { shim::products_wait(PENDING); }
template <int COLUMNS, int ROWS_ADJACENT, int COLUMNS_ADJACENT>
inline void product(float (&sums)[COLUMNS / 2], descriptor a, descriptor b) {
  static_assert(COLUMNS % 8 == 0 && COLUMNS >= 8 && COLUMNS <= 256, "columns of wgmma");
  shim::product(sums, COLUMNS, ROWS_ADJACENT, COLUMNS_ADJACENT, a, b);
}
