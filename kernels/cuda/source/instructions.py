"""Device functions that wrap one instruction each: tensor-core products, matrix loads, copies, conversions.

The text of a tensor-core kernel consists of these functions and a body of plain C++ that reaches memory through them
alone. So the body also runs on a host, where a second definition of the same functions checks every access. Elements
are `unsigned short`; places in shared memory are byte offsets from its beginning. The header cuda_fp16.h is not used:
NVRTC comes without it. Source of the fragments' layouts: the PTX ISA, "Matrix multiply-accumulate using mma".

Hopper (sm_90a) also has barriers, bulk tensor copies and products of a warpgroup. Source: PTX ISA 8.x, sections
"mbarrier", "cp.async.bulk.tensor", "Asynchronous Warpgroup Level Matrix Instructions" (wgmma.mma_async, wgmma.fence,
wgmma.commit_group, wgmma.wait_group), "barrier.cluster" and "setmaxnreg".
"""

from __future__ import annotations

from dataclasses import dataclass

from ...files import sections

PTX_TYPES = {"fp16": "f16", "bf16": "bf16"}  # element types in the names of instructions
BODY = "// The body: plain C++ over the functions above.\n"  # the host puts other functions before this line

_PARTS, _HOPPER = sections(__file__, "instructions.cu"), sections(__file__, "hopper.cu")


def instructions(dtype: str, compute_capability: int) -> str:
    """The device functions for elements of fp16 or bf16 on an architecture.

    sm_75 has fp16 alone, and a body for it must not use the asynchronous copies.
    """
    name = PTX_TYPES[dtype]
    modern = compute_capability >= 80
    parts = ("memory", "copies", "matrices", "product_16" if modern else "product_8", dtype,
             "pair" if modern else "pair_of_two")
    return "".join(_PARTS[part] for part in parts).replace("%TYPE", name) + BODY

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
    parts = (*(_HOPPER[part] for part in ("registers", "barriers", "cluster", "copies")), _product(product),
             _HOPPER["order"], BODY)
    return instructions(product.dtype, 90).removesuffix(BODY) + "".join(parts)


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
