"""Instructions of Hopper (sm_90a) as device functions: barriers, bulk tensor copies, and products of a warpgroup.

Source: PTX ISA 8.x, sections "mbarrier", "cp.async.bulk.tensor", "Asynchronous Warpgroup Level Matrix Instructions"
(wgmma.mma_async, wgmma.fence, wgmma.commit_group, wgmma.wait_group), "barrier.cluster" and "setmaxnreg". Like the other
instructions they take byte offsets in shared memory, and a host puts functions of the same names in their place.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...sections import sections
from .instructions import BODY, PTX_TYPES
from .instructions import instructions as common

_PARTS = sections(__file__, "hopper.cu")


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
    parts = (_PARTS["registers"], _PARTS["barriers"], _PARTS["cluster"], _PARTS["copies"], _product(product),
             _PARTS["order"], BODY)
    return common(product.dtype, 90).removesuffix(BODY) + "".join(parts)


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
