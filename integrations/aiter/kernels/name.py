"""Names of aiter's kernels as parts, and back: what a name spells is what its author chose.

    a8w8_blockscale_1x128x128_256x16x64x256_16x16_16x16_1x1_16x16x1_16x16x1_1x16x1x16_4_1x1_intrawave_v1
    head                      tile          waves           layout                          pipeline

The tile of Composable Kernel and of opus begins with the threads of a block; assembly has no depth, and its names are
C++ symbols of the namespace `aiter`. A name that spells no tile is a head alone (`native`: PyTorch's own product).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from seqtune.errors import FormatError
from seqtune.kernels.kernel import Setting

PARTS: Mapping[str, str] = {  # in decoding order -> meaning
    "head": "the name up to the tile: the library, and what its kernel computes",
    "tile_m": "rows of the result of one block; 0: the name does not tell",
    "tile_n": "columns of the result of one block",
    "tile_k": "depth of one stage",
    "threads": "threads of a block",
    "waves": "vectors, matrix instruction, and how waves divide the tile",
    "layout": "how threads copy operands and result",
    "pipeline": "how loads and arithmetic overlap",
}
NUMBERS = ("tile_m", "tile_n", "tile_k", "threads")
NOTHING = "-"  # a word that the name lacks
LONGEST = 300  # characters of a name
_SPACE = "aiter::"  # namespace of the symbols
_SYMBOL = re.compile(r"_ZN5aiter([0-9]{1,3})([A-Za-z]\w*)E", re.ASCII)
_TILE = "(?P<tile_m>[0-9]{1,5})x(?P<tile_n>[0-9]{1,5})"
_LAYOUTS = tuple(re.compile(pattern, re.ASCII) for pattern in (
    # Composable Kernel, opus
    rf"(?P<head>.+?_)(?P<threads>[0-9]{{1,5}})x{_TILE}x(?P<tile_k>[0-9]{{1,5}})"
    r"_(?P<waves>[0-9]+x[0-9]+(?:_[0-9]+x[0-9]+)*)_(?P<layout>.+?)(?:_(?P<pipeline>(?:intra|inter)wave_v[0-9]+))?",
    # Composable Kernel's tile library, for shuffled weights with its options before the tile
    rf"(?P<head>.+_cktile_)(?:(?P<layout>[0-9]+(?:x[0-9]+){{9}})_)?{_TILE}x(?P<tile_k>[0-9]{{1,5}})"
    r"_(?P<waves>[0-9]+x[0-9]+x[0-9]+_[0-9]+x[0-9]+x[0-9]+)_(?P<pipeline>[a-z].+)",
    # flydsl
    rf"(?P<head>flydsl_.+?_t?){_TILE}x(?P<tile_k>[0-9]{{1,5}})_(?P<layout>.+)",
    # assembly
    rf"(?P<head>{_SPACE}.+?_){_TILE}(?:_(?P<layout>.+))?",
))


def parts_of(name: str) -> dict[str, Setting]:
    """The parts of a kernel's name, in the order of PARTS. Raises FormatError if it is no word, or too long."""
    if not re.fullmatch(rf"\w{{1,{LONGEST}}}", name, re.ASCII):
        raise FormatError(f"{name[:60]!r} is not the name of a kernel of aiter")
    symbol = _SYMBOL.fullmatch(name)
    readable = _SPACE + symbol[2] if symbol is not None and int(symbol[1]) == len(symbol[2]) else name
    match = next((match for layout in _LAYOUTS if (match := layout.fullmatch(readable)) is not None), None)
    words = {"head": readable} if match is None else match.groupdict()
    parts: dict[str, Setting] = {}
    for part in PARTS:
        text = words.get(part)
        parts[part] = int(text or 0) if part in NUMBERS else text or NOTHING
    if name_of(parts) != name:  # for example a number with a leading zero
        parts = dict[str, Setting]({part: 0 if part in NUMBERS else NOTHING for part in PARTS}) | {"head": name}
    return parts


def name_of(parts: Mapping[str, Setting]) -> str:
    """The inverse of `parts_of`."""
    sizes = "x".join(str(parts[size]) for size in ("threads", "tile_m", "tile_n", "tile_k") if parts[size])
    waves, layout, pipeline = (str(parts[word]).replace(NOTHING, "") for word in ("waves", "layout", "pipeline"))
    head = str(parts["head"])
    words = [layout, sizes, waves, pipeline] if head.endswith("_cktile_") else [sizes, waves, layout, pipeline]
    name = head + "_".join(filter(None, words))
    if not name.startswith(_SPACE):
        return name
    body = name.removeprefix(_SPACE)
    return f"_ZN5aiter{len(body)}{body}E"
