"""Instructions of Hopper (sm_90a) as device functions: barriers, bulk tensor copies, and products of a warpgroup.

Source: PTX ISA 8.x, sections "mbarrier", "cp.async.bulk.tensor", "Asynchronous Warpgroup Level Matrix Instructions"
(wgmma.mma_async, wgmma.fence, wgmma.commit_group, wgmma.wait_group), "barrier.cluster" and "setmaxnreg". Like the other
instructions they take byte offsets in shared memory, and a host puts functions of the same names in their place.
"""

from __future__ import annotations

from dataclasses import dataclass

from .instructions import BODY, PTX_TYPES
from .instructions import instructions as common


@dataclass(frozen=True, slots=True)
class WarpgroupProduct:
    """One wgmma instruction: 64 rows by `columns` columns by 16, from two descriptors, into fp32."""

    dtype: str  # fp16 | bf16
    columns: int  # a multiple of 8 up to 256
    rows_adjacent: bool  # A lies in shared memory with neighbouring rows side by side: "MN-major"
    columns_adjacent: bool  # B lies in shared memory with neighbouring columns side by side

    @property
    def registers(self) -> int:
        """The sums that a thread holds."""
        return self.columns // 2

    @property
    def call(self) -> str:
        """The name of the function with its template arguments."""
        return f"product<{self.columns}, {int(self.rows_adjacent)}, {int(self.columns_adjacent)}>"


def hopper_instructions(product: WarpgroupProduct) -> str:
    """The text of all functions, for one shape of product, up to the line where a body begins."""
    return common(product.dtype, 90).removesuffix(BODY) + _REGISTERS + _BARRIERS + _CLUSTER + _COPIES + _product(
        product) + _ORDER + BODY


_REGISTERS = r"""
template <int COUNT> __device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT));
}
template <int COUNT> __device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT));
}
"""

# A barrier is 8 bytes. A wait returns when the phase of the given parity is over; a fresh barrier is in phase 0, so
# waiting for parity 1 returns at once. The labels are local to their braces.
_BARRIERS = r"""
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
"""

# Without `.aligned`: one lane of the warp that fetches comes from a loop of its own.
_CLUSTER = r"""
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
"""

# A copy lands at some time until its bytes are counted by the barrier; what lies outside the tensor becomes 0.
_COPIES = r"""
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
"""

_ORDER = r"""
__device__ __forceinline__ descriptor shared_descriptor(descriptor layout, unsigned from) {
  return layout | (shared_address(from) & 0x3FFFF) >> 4;
}
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
"""


def _product(product: WarpgroupProduct) -> str:
    """The function `product`: sums += A B."""
    count, kind = product.registers, PTX_TYPES[product.dtype]
    slots = ", ".join(f"%{index}" for index in range(count))
    operands = ", ".join(f'"+f"(sums[{index}])' for index in range(count))
    return f"""
typedef unsigned long long descriptor;

template <int COLUMNS, int ROWS_ADJACENT, int COLUMNS_ADJACENT>
__device__ __forceinline__ void product(float (&sums)[COLUMNS / 2], descriptor a, descriptor b) {{
  static_assert(COLUMNS == {product.columns}, "another instruction");
  asm volatile(
      "{{\\n"
      ".reg .pred add;\\n"
      "setp.eq.b32 add, 0, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{product.columns}k16.f32.{kind}.{kind} "
      "{{{slots}}}, %{count}, %{count + 1}, add, 1, 1, %{count + 2}, %{count + 3};\\n"
      "}}" : {operands}
      : "l"(a), "l"(b), "n"(ROWS_ADJACENT), "n"(COLUMNS_ADJACENT));
}}
"""
