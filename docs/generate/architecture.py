"""The picture of the architecture: six floors, their rooms and the imports between them, as one SVG."""

from __future__ import annotations

from collections import Counter
from html import escape
from pathlib import Path

from .import_arrows import FLOORS, ROOT, Module, between_rooms, modules, room

WIDTH, MARGIN, BAND, GAP = 1180, 16, 140, 22  # pixels: the picture, its border, a floor, the space between floors
LABEL, LANES = 118, 190  # pixels kept for the floor's name (left) and for the arrows between floors (right)
ROOM_HEIGHT, ROOM_TOP, ROOM_SPACE = 60, 62, 10  # pixels inside a band
MEANINGS = {
    "kernels": "what can be tuned", "data": "what was measured", "tuner": "how to measure and search",
    "predictor": "from a problem to its parameters", "networks": "whole networks on CPUs",
    "seqtune": "functions, command line, hooks",
}
STYLE = """
text { font-family: system-ui, "DejaVu Sans", sans-serif; fill: #1f2933; }
.band { fill: #f3f6fa; stroke: #c9d3df; } .room { fill: #ffffff; stroke: #5b7a99; }
.floor { font-size: 17px; font-weight: 600; } .small { font-size: 11px; fill: #52606d; } .name { font-size: 13px; }
.inside { fill: none; stroke: #9fb3c8; } .between { fill: none; stroke: #d9822b; }
.count { font-size: 11px; fill: #a85d12; }
"""


def draw() -> str:
    """SVG text. Arrows inside a floor run between its rooms, arrows between floors on the right with their counts."""
    arrows, files = between_rooms(), modules()
    stories = FLOORS[::-1]  # the top floor is drawn at the top
    tops = {floor: MARGIN + place * (BAND + GAP) for place, floor in enumerate(stories)}
    height = MARGIN * 2 + len(stories) * BAND + (len(stories) - 1) * GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Floors and rooms of seqtune with the imports between them">',
        f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', _heads()]
    for floor in stories:
        parts += _floor(floor, tops[floor], arrows, files)
    return "\n".join([*parts, *_between(arrows, tops), "</svg>", ""])


def _heads() -> str:
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto" '
        f'markerUnits="userSpaceOnUse"><path d="M0 1 L10 5 L0 9 z" fill="{colour}"/></marker>'
        for name, colour in (("grey", "#9fb3c8"), ("orange", "#d9822b")))
    return f"<defs>{heads}</defs>"


def _floor(floor: str, top: int, arrows: Counter[tuple[Module, Module]], files: dict[Module, Path]) -> list[str]:
    count = Counter(room(module) for module in files if module[0] == floor and module[-1] != "__init__")
    rooms = _ordered([key for key in count if count[key]], arrows)
    width = WIDTH - 2 * MARGIN - LANES
    each = (width - LABEL - ROOM_SPACE * (len(rooms) + 1)) / len(rooms)
    left = {key: MARGIN + LABEL + ROOM_SPACE + place * (each + ROOM_SPACE) for place, key in enumerate(rooms)}
    parts = [f'<rect class="band" x="{MARGIN}" y="{top}" width="{width}" height="{BAND}" rx="8"/>',
             f'<text class="floor" x="{MARGIN + 12}" y="{top + 68}">{floor}</text>']
    parts += [f'<text class="small" x="{MARGIN + 12}" y="{top + 84 + 13 * place}">{escape(line)}</text>'
              for place, line in enumerate(_lines(MEANINGS[floor]))]
    for (source, target), number in sorted(arrows.items()):
        if source in left and target in left:
            parts.append(_arc(left[source] + each / 2, left[target] + each / 2, top + ROOM_TOP, number))
    for key in rooms:
        middle = left[key] + each / 2
        lines = sum(len((ROOT / path).read_text().splitlines()) for module, path in files.items()
                    if room(module) == key)
        parts += [f'<rect class="room" x="{left[key]:.0f}" y="{top + ROOM_TOP}" width="{each:.0f}" '
                  f'height="{ROOM_HEIGHT}" rx="5"/>',
                  f'<text class="name" x="{middle:.0f}" y="{top + ROOM_TOP + 19}" text-anchor="middle">'
                  f'{escape(key[-1] if len(key) > 1 else f"{floor}/*.py")}</text>',
                  f'<text class="small" x="{middle:.0f}" y="{top + ROOM_TOP + 36}" text-anchor="middle">'
                  f'{count[key]} module{"s" * (count[key] > 1)}</text>',
                  f'<text class="small" x="{middle:.0f}" y="{top + ROOM_TOP + 50}" text-anchor="middle">'
                  f'{lines:,} lines</text>']
    return parts


def _lines(text: str, most: int = 17) -> list[str]:
    """The text in lines of at most `most` characters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _ordered(rooms: list[Module], arrows: Counter[tuple[Module, Module]]) -> list[Module]:
    """Rooms from left to right: the one that imports most and is imported least comes first."""
    def weight(key: Module) -> tuple[int, Module]:
        return (sum(arrows[other, key] - arrows[key, other] for other in rooms), key)

    return sorted(rooms, key=weight)


def _arc(begin: float, end: float, base: float, number: int) -> str:
    """An arc above the rooms; higher where the rooms lie further apart."""
    begin, end = (begin + 7, end - 7) if begin < end else (begin - 7, end + 7)
    rise = min(16 + abs(end - begin) * 0.06, 54)
    return (f'<path class="inside" d="M{begin:.0f} {base} C{begin:.0f} {base - rise:.0f} {end:.0f} {base - rise:.0f} '
            f'{end:.0f} {base - 1}" stroke-width="{min(1 + number / 6, 4):.1f}" marker-end="url(#grey)">'
            f"<title>{number} imports</title></path>")


def _between(arrows: Counter[tuple[Module, Module]], tops: dict[str, int]) -> list[str]:
    """Arrows on the right from each floor to each floor below it, one lane each, with the number of imports."""
    totals: Counter[tuple[str, str]] = Counter()
    for (source, target), number in arrows.items():
        if source[0] != target[0]:
            totals[source[0], target[0]] += number
    edge = WIDTH - MARGIN - LANES
    parts: list[str] = []
    leaving, arriving = Counter[str](), Counter[str]()
    pairs = sorted(totals, key=lambda pair: abs(FLOORS.index(pair[0]) - FLOORS.index(pair[1])))
    for lane, (upper, lower) in enumerate(pairs):
        begin = tops[upper] + BAND - 16 - 22 * leaving[upper]
        end = tops[lower] + 16 + 22 * arriving[lower]
        leaving[upper] += 1
        arriving[lower] += 1
        out = edge + 18 + lane * 15
        number = totals[upper, lower]
        parts.append(
            f'<path class="between" d="M{edge} {begin} H{out - 6} Q{out} {begin} {out} {begin + 6} V{end - 6} '
            f'Q{out} {end} {out - 6} {end} H{edge + 1}" stroke-width="{min(1 + number / 25, 4):.1f}" '
            f'marker-end="url(#orange)"><title>{upper} imports {lower}: {number}</title></path>'
            f'<text class="count" x="{out + 3}" y="{(begin + end) / 2 + 4:.0f}">{number}</text>')
    return parts
