//= registers

template <int COUNT> __device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT));
}
template <int COUNT> __device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT));
}
//= barriers
//! A barrier is 8 bytes. A wait returns when the phase of the given parity is over; a fresh barrier is in phase 0, so
//! waiting for parity 1 returns at once. The labels are local to their braces.

__device__ __forceinline__ void barrier_init(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_publish() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void barrier_wait(unsigned barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@over bra done;\n"
      "bra again;\n"
      "done:\n"
      "}" :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}
//= cluster
//! Without `.aligned`: one lane of the warp that fetches comes from a loop of its own.

__device__ __forceinline__ int cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive_at(unsigned barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
      "}" :: "r"(shared_address(barrier)), "r"(rank) : "memory");
}
//= copies
//! A copy lands at some time until its bytes are counted by the barrier; what lies outside the tensor becomes 0.

struct __align__(64) CUtensorMap { unsigned long long words[16]; };

__device__ __forceinline__ void copy_prefetch(const CUtensorMap &map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}
__device__ __forceinline__ void copy_box(unsigned to, const CUtensorMap &map, unsigned barrier, int inner, int outer) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
      :: "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(inner), "r"(outer) : "memory");
}
__device__ __forceinline__ void copy_box_to_all(unsigned to, const CUtensorMap &map, unsigned barrier, int inner,
                                                int outer, int mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4}], [%2], %5;"
      :: "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), "r"(inner), "r"(outer),
         "h"(static_cast<unsigned short>(mask)) : "memory");
}
//= order

__device__ __forceinline__ descriptor shared_descriptor(descriptor layout, unsigned from) {
  return layout | (shared_address(from) & 0x3FFFF) >> 4;
}
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
