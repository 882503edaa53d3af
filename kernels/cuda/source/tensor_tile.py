"""Source text of a tensor-core kernel: instructions, the numbers of its tile, copies, k-loop, epilogue and entries.

The parts that no number changes stand in `tensor_input.cu`, `tensor_pipeline.cu` and `tensor_epilogue.cu`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...c_text.prelude import NVRTC_OPTIONS
from ...files import sections
from ...launches.implementation import KernelSource
from .instructions import instructions

INPUTS = sections(__file__, "tensor_input.cu")
_PIPELINE = sections(__file__, "tensor_pipeline.cu")
_EPILOGUE = sections(__file__, "tensor_epilogue.cu")


@dataclass(frozen=True, slots=True)
class TensorTile:
    """The numbers that determine the source text."""

    dtype: str  # fp16 | bf16
    asynchronous: bool  # from sm_80: cp.async, and products of depth 16
    block_m: int
    block_n: int
    block_k: int
    warp_m: int
    warp_n: int
    stages: int
    fragments: int  # sets of fragments in registers
    padding: int  # elements after every row of shared memory; 0: chunks are permuted
    vector: int  # elements of one copy of A
    a_by_k: bool  # neighbours in A's memory differ in m, so a row of its tile is one k
    stored: int  # elements of one store
    through_shared: bool  # the epilogue collects the tile in shared memory
    y_by_column: bool  # neighbours in y's memory differ in m
    bias: bool
    relu: bool
    schedule: str  # tiles | slices | stream_k


@lru_cache(maxsize=512)
def tensor_source(tile: TensorTile, entry: str, operand: str, arguments: tuple[str, ...]) -> KernelSource:
    """The source whose entries are `entry`_tiles and, for partial sums, `entry`_add.

    `operand` is the text that defines `Shape`, whose members are the `arguments`, and `Input`.
    """
    integers = {
        "BLOCK_M": tile.block_m, "BLOCK_N": tile.block_n, "BLOCK_K": tile.block_k, "WARP_M": tile.warp_m,
        "WARP_N": tile.warp_n, "STAGES": tile.stages, "FRAGMENTS": tile.fragments, "PADDING": tile.padding,
        "VECTOR": tile.vector, "STORED": tile.stored}
    switches = {
        "ASYNCHRONOUS": tile.asynchronous, "A_BY_K": tile.a_by_k, "THROUGH_SHARED": tile.through_shared,
        "Y_BY_COLUMN": tile.y_by_column, "BIAS": tile.bias, "RELU": tile.relu,
        "PERSISTENT": tile.schedule == "stream_k", "PARTIAL": tile.schedule != "tiles"}
    signature = ", ".join(("const element *__restrict__ x", "const element *__restrict__ weights",
                           "const element *__restrict__ bias", "element *__restrict__ y", "float *workspace",
                           *(f"int {name}" for name in arguments)))
    parts = {"tiles": ("tiles",), "slices": ("tiles", "add_slices"), "stream_k": ("stream",)}[tile.schedule]
    entries = "".join(_EPILOGUE[part] for part in parts)
    for word, meaning in (("SIGNATURE", signature), ("tensor_", f"{entry}_"),
                          ("SHAPE", f"const Shape shape = {{{', '.join(arguments)}}};"),
                          ("ENTRY", 'extern "C" __global__ void __launch_bounds__(THREADS, 1)')):
        entries = entries.replace(word, meaning)
    head = "".join(f"constexpr int {name} = {value};\n" for name, value in integers.items()) + "".join(
        f"constexpr bool {name} = {'true' if value else 'false'};\n" for name, value in switches.items())
    text = "".join((instructions(tile.dtype, 80 if tile.asynchronous else 75), "\n", head,
                    _PIPELINE["numbers"], INPUTS["units"], _EPILOGUE["result"], operand, _PIPELINE["panel"],
                    _PIPELINE["loop"], _EPILOGUE["stores"], _EPILOGUE["entries"], entries))
    return KernelSource(text, NVRTC_OPTIONS)
