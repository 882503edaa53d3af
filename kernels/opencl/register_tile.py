"""The source of a register tile in OpenCL C: the padding copy, and for Intel's compiler vectors along the pixels."""

from __future__ import annotations

from functools import lru_cache

from ..c_text.text import OPTIONS, head
from ..c_text.tile import PADS, RegisterTile, text
from ..launches.implementation import KernelSource

PAD_ITEMS = 32  # most work-items of the padding copy for each compute unit; each copies adjacent rows


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def tile_source(tile: RegisterTile) -> KernelSource:
    """The source of the kernels `pad` and `tile`."""
    lines = text(tile)
    if tile.pixel_vectors:
        lines = f"#ifdef cl_intel_vec_len_hint{text(tile, pixels=True)}#else{lines}#endif\n"
    return KernelSource(head(tile.vector) + ("" if tile.peeled else PADS["any"]) + lines, OPTIONS)
