"""The source of a register tile in OpenCL C: the padding copy, and for Intel's compiler vectors along the pixels."""

from __future__ import annotations

from functools import lru_cache

from ..c_text.text import OPTIONS, head, signature
from ..c_text.tile import ARGUMENTS, RegisterTile, text
from ..launches.implementation import KernelSource

PAD_ITEMS = 32  # most work-items of the padding copy for each compute unit; each copies adjacent rows

PAD = f"""
__kernel void pad({signature(ARGUMENTS)}) {{
  const int total = planes * padded_height, length = row_floats + 2 * margin;
  const int items = get_global_size(0), item = get_global_id(0);
  const int share = (total + items - 1) / items;
  for (int row = item * share; row < min(total, (item + 1) * share); row++) {{
    const int line = row % padded_height - above;
    __global float *to = workspace + row * length;
    if (line < 0 || line >= height) {{
      for (int i = 0; i < length; i++) to[i] = 0.0f;
    }} else {{
      __global const float *from = x + (row / padded_height * height + line) * row_floats;
      for (int i = 0; i < margin; i++) to[i] = 0.0f;
      for (int i = 0; i < row_floats; i++) to[margin + i] = from[i];
      for (int i = margin + row_floats; i < length; i++) to[i] = 0.0f;
    }}
  }}
}}
"""


@lru_cache(maxsize=512)  # configurations that differ in launch arguments alone are often consecutive
def tile_source(tile: RegisterTile) -> KernelSource:
    """The source of the kernels `pad` and `tile`."""
    lines = text(tile)
    if tile.pixel_vectors:
        lines = f"#ifdef cl_intel_vec_len_hint{text(tile, pixels=True)}#else{lines}#endif\n"
    return KernelSource(head(tile.vector) + ("" if tile.peeled else PAD) + lines, OPTIONS)
