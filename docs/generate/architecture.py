"""The picture of the architecture: six floors, their rooms and the imports between them, as one SVG.

Each floor is drawn in columns (K. Sugiyama, S. Tagawa, M. Toda, 1981): a folder stands to the right of every folder
that imports it. An arrow that others imply is left out. An arrow that passes a column has a place of its own there, so
that no arrow runs behind a name. Modules that stand directly in the floor are listed below its folders.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from statistics import fmean
from textwrap import wrap

from .import_arrows import FLOORS, ROOT, Module, between_rooms, modules, room

WIDTH, MARGIN, GAP = 980, 10, 26  # pixels: the picture, its border, the space between two floors
HEAD, FOOT, LINE = 46, 32, 16  # pixels of a floor: above its folders, below its text, a line of that text
LETTERS = 132  # of a line of text at 12 pixels
ROOM_HEIGHT, PASS_HEIGHT, SPACE = 38, 8, 10  # pixels: a room, an arrow that passes a column, between two of them
LETTER = 8.2  # pixels of a letter of a name at 14 pixels, in the widest of the fonts
NARROWEST = 88  # pixels of a room: "10,000 lines" at 12 pixels
SWEEPS = 8  # over the columns, in which each one is sorted by its neighbours; the order changes no more after 4
MEANINGS = {
    "kernels": "what can be tuned", "data": "what was measured", "tuner": "how to measure and to search",
    "predictor": "from a problem to its parameters", "networks": "whole networks on CPUs",
    "seqtune": "functions, command line, hooks",
}
STYLE = """
text { font-family: "DejaVu Sans", Verdana, system-ui, sans-serif; fill: #1f2933; }
.band { fill: #f3f6fa; stroke: #c9d3df; } .room { fill: #ffffff; stroke: #5b7a99; }
.floor { font-size: 18px; font-weight: 600; } .small { font-size: 12px; fill: #52606d; } .name { font-size: 14px; }
.inside { fill: none; stroke: #7d95ad; stroke-width: 1.3; } .between { fill: none; stroke: #d9822b; stroke-width: 3; }
.count { font-size: 13px; fill: #a85d12; }
"""


@dataclass(frozen=True)
class Pass:
    """The place of an arrow in a column that lies between its two rooms."""

    source: Module
    target: Module
    column: int


Cell = Module | Pass


def draw() -> str:
    """SVG text. Each floor names the floors below with the number of imports from them."""
    arrows = between_rooms()
    lines: Counter[Module] = Counter()
    loose: dict[str, list[str]] = defaultdict(list)  # modules that stand directly in a floor
    for module, path in modules().items():
        if len(module) > 2:
            lines[room(module)] += len((ROOT / path).read_text().splitlines())
        elif module[-1] != "__init__":
            loose[module[0]].append(path.name)
    parts, top = list[str](), MARGIN
    for floor in reversed(FLOORS):  # the top floor is drawn at the top
        drawn, height = _floor(floor, top, arrows, {key: lines[key] for key in lines if key[0] == floor},
                               wrap(f"modules: {', '.join(loose[floor])}", LETTERS))
        parts += drawn
        top += height + GAP
        if floor != FLOORS[0]:
            parts.append(f'<path class="between" d="M{WIDTH // 2} {top - GAP + 2} V{top - 3}" '
                         'marker-end="url(#orange)"/>')
    height = top - GAP + MARGIN
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Floors and rooms of seqtune with the imports between them">',
        f"<style>{STYLE}</style>", _heads(), f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *parts,
        "</svg>", ""])


def _heads() -> str:
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="{size}" markerHeight="{size}" '
        f'orient="auto" markerUnits="userSpaceOnUse"><path d="M0 1 L10 5 L0 9 z" fill="{colour}"/></marker>'
        for name, colour, size in (("grey", "#7d95ad", 8), ("orange", "#d9822b", 13)))
    return f"<defs>{heads}</defs>"


def _floor(floor: str, top: int, arrows: Counter[tuple[Module, Module]],
           lines: Mapping[Module, int], text: list[str]) -> tuple[list[str], int]:
    """The elements of a floor, and its height."""
    below = Counter[str]()
    for (source, target), number in arrows.items():
        if source[0] == floor != target[0]:
            below[target[0]] += number
    imports = {key: {target for (source, target), number in arrows.items() if source == key and target in lines}
               for key in lines}
    edges = reduced(imports)
    columns = arranged(imports, edges)
    widths = [max(NARROWEST, *(round(LETTER * len(cell[-1])) + 16 for cell in column if not isinstance(cell, Pass)))
              for column in columns]
    spare = (WIDTH - 2 * MARGIN - 24 - sum(widths)) / max(1, len(columns) - 1)
    lefts = [MARGIN + 12 + sum(widths[:number]) + spare * number for number in range(len(columns))]
    inner = max(_height(column) for column in columns)
    middles: dict[Cell, float] = {}
    for column in columns:
        y = top + HEAD + (inner - _height(column)) / 2
        for cell in column:
            middles[cell] = y + _size(cell) / 2
            y += _size(cell) + SPACE
    bottom = top + HEAD + round(inner) + 14
    height = bottom - top + LINE * len(text) + FOOT
    parts = [f'<rect class="band" x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" height="{height}" rx="8"/>',
             f'<text class="floor" x="{MARGIN + 12}" y="{top + 27}">{floor} '
             f'<tspan class="small" dx="6">{escape(MEANINGS[floor])}</tspan></text>']
    parts += [f'<text class="small" x="{MARGIN + 12}" y="{bottom + LINE * (number + 1)}">{escape(line)}</text>'
              for number, line in enumerate(text)]
    counts = ", ".join(f"{name} {below[name]}" for name in reversed(FLOORS) if below[name])
    parts.append(f'<text class="count" x="{MARGIN + 12}" y="{top + height - 12}">'
                 f'{f"imports of the floors below: {counts}" if counts else "imports of other floors: none"}</text>')
    for cells in _paths(edges, columns):
        points = [(column, middles[cell]) for column, cell in cells]
        parts.append(_arrow(points, lefts, widths))
    for number, column in enumerate(columns):
        for cell in column:
            if not isinstance(cell, Pass):
                parts += _room(cell, lefts[number], middles[cell], widths[number], lines[cell])
    return parts, height


def reduced(imports: Mapping[Module, set[Module]]) -> list[tuple[Module, Module]]:
    """The arrows that no other arrows imply (the transitive reduction); rooms form no circle."""
    reached: dict[Module, set[Module]] = {}

    def all_below(key: Module) -> set[Module]:
        if key not in reached:
            reached[key] = imports[key].union(*(all_below(target) for target in imports[key]))
        return reached[key]

    return [(source, target) for source, targets in imports.items() for target in sorted(targets)
            if not any(target in all_below(other) for other in targets)]


def arranged(imports: Mapping[Module, set[Module]], edges: Iterable[tuple[Module, Module]]) -> list[list[Cell]]:
    """The columns from left to right, each from top to bottom: rooms, and the places of arrows that pass the column."""
    level: dict[Module, int] = {}

    def column_of(key: Module) -> int:
        if key not in level:
            importers = [source for source, targets in imports.items() if key in targets]
            level[key] = 1 + max(map(column_of, importers), default=-1)
        return level[key]

    columns: dict[int, list[Cell]] = defaultdict(list)
    for key in sorted(imports):
        columns[column_of(key)].append(key)
    neighbours: dict[Cell, list[Cell]] = defaultdict(list)
    for source, target in edges:
        between = [Pass(source, target, column) for column in range(level[source] + 1, level[target])]
        for cell in between:
            columns[cell.column].append(cell)
        cells: list[Cell] = [source, *between, target]
        for left, right in pairwise(cells):
            neighbours[left].append(right)
            neighbours[right].append(left)
    ordered = [columns[number] for number in range(len(columns))]
    for _ in range(SWEEPS):
        position = {cell: row / max(1, len(column) - 1) for column in ordered for row, cell in enumerate(column)}
        for column in ordered:
            column.sort(key=lambda cell: fmean([position[other] for other in neighbours[cell]] or [0.5]))
            position.update((cell, row / max(1, len(column) - 1)) for row, cell in enumerate(column))
    return ordered


def _paths(edges: Iterable[tuple[Module, Module]],
           columns: list[list[Cell]]) -> list[list[tuple[int, Cell]]]:
    """The cells through which each arrow goes, with their columns."""
    level = {cell: number for number, column in enumerate(columns) for cell in column}
    return [[(level[source], source),
             *((column, Pass(source, target, column)) for column in range(level[source] + 1, level[target])),
             (level[target], target)] for source, target in edges]


def _arrow(points: list[tuple[int, float]], lefts: list[float], widths: list[int]) -> str:
    """A curve from the right side of the first room to the left side of the last one, straight in between."""
    column, y = points[0]
    path = f"M{lefts[column] + widths[column]:.0f} {y:.0f}"
    for (before, above), (column, y) in pairwise(points):
        begin, end = lefts[before] + widths[before], lefts[column]
        half = (begin + end) / 2
        path += f" C{half:.0f} {above:.0f} {half:.0f} {y:.0f} {end:.0f} {y:.0f}"
        if column != points[-1][0]:
            path += f" H{end + widths[column]:.0f}"
    return f'<path class="inside" d="{path}" marker-end="url(#grey)"/>'


def _room(key: Module, left: float, middle: float, width: int, lines: int) -> list[str]:
    centre = left + width / 2
    return [f'<rect class="room" x="{left:.0f}" y="{middle - ROOM_HEIGHT / 2:.0f}" width="{width}" '
            f'height="{ROOM_HEIGHT}" rx="5"/>',
            f'<text class="name" x="{centre:.0f}" y="{middle - 2:.0f}" text-anchor="middle">{escape(key[-1])}</text>',
            f'<text class="small" x="{centre:.0f}" y="{middle + 13:.0f}" text-anchor="middle">{lines:,} lines</text>']


def _size(cell: Cell) -> int:
    return PASS_HEIGHT if isinstance(cell, Pass) else ROOM_HEIGHT


def _height(column: Iterable[Cell]) -> float:
    sizes = [_size(cell) for cell in column]
    return sum(sizes) + SPACE * (len(sizes) - 1)
