"""Device functions that wrap one instruction each: tensor-core products, matrix loads, copies, conversions.

The text of a tensor-core kernel consists of these functions and a body of plain C++ that reaches memory through them
alone. So the body also runs on a host, where a second definition of the same functions checks every access. Elements
are `unsigned short`; places in shared memory are byte offsets from its beginning. The header cuda_fp16.h is not used:
NVRTC comes without it. Source of the fragments' layouts: the PTX ISA, "Matrix multiply-accumulate using mma".
"""

from __future__ import annotations

from ...sections import sections

PTX_TYPES = {"fp16": "f16", "bf16": "bf16"}  # element types in the names of instructions
BODY = "// The body: plain C++ over the functions above.\n"  # the host puts other functions before this line

_PARTS = sections(__file__, "instructions.cu")


def instructions(dtype: str, compute_capability: int) -> str:
    """The device functions for elements of fp16 or bf16 on an architecture.

    sm_75 has fp16 alone, and a body for it must not use the asynchronous copies.
    """
    name = PTX_TYPES[dtype]
    modern = compute_capability >= 80
    parts = ("memory", "copies", "matrices", "product_16" if modern else "product_8", dtype,
             "pair" if modern else "pair_of_two")
    return "".join(_PARTS[part] for part in parts).replace("%TYPE", name) + BODY
