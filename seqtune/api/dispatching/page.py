"""The page of a dispatch: one HTML file, without a program and without anything from the network."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from html import escape

from seqtune.kernels.problem import Problem
from seqtune.predictor.dispatch.bound import FEWEST, Bound

from .results import CurvePoint, Dispatched

MOST_SHAPES = 500  # of a list on the page
WIDTH, HEIGHT, LEFT, BOTTOM = 560, 240, 48, 34  # of the curve and its margins, in pixels
_WAYS = {"rule": "the rule's first kernel", "raced": "the faster of its first two, timed once for each shape",
         "sure": "its first kernel, where it is sure"}
# Okabe and Ito's colours, which colour-blind readers can tell apart
_LINES = (("always the fastest kernel", "#777777"), ("the faster of the rule's first two", "#009E73"),
          ("the rule's first kernel", "#0072B2"))
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; } th, td { padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid #999; } td.number, th.number { text-align: right; } tr.ships { font-weight: bold; }
pre { background: #f4f4f4; padding: .8em; overflow-x: auto; } text { font-size: 12px; }
details { margin: .2em 0; } code { font-size: .93em; }
"""


def reached(goal: str, loss: float) -> str:
    """A loss of a goal as what it leaves: a share of the best speed, or the share of shapes that are fast enough."""
    return f"{1 - loss if goal == 'within' else math.exp(-loss):.3f}"


def given(result: Dispatched) -> str:
    """What the rule, the best single kernel and the default reach on the given shapes."""
    return ", ".join(f"{name} {reached(result.goal, loss)}" for name, loss in result.losses.items())


def ways(result: Dispatched) -> list[tuple[str, Bound]]:
    """The bounds that are known, each with the way of using the kernels that it is for, in words."""
    bounds = [(words, getattr(result.bounds, name, None)) for name, words in _WAYS.items()]
    return [(words, bound) for words, bound in bounds if bound is not None]


def page(result: Dispatched) -> str:
    """The HTML file."""
    style = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    title = f"{result.kernels} kernel{'s' * (result.kernels != 1)} for {result.operation} on {result.device}"
    what = "share of shapes that are fast enough" if result.goal == "within" else "share of the best speed"
    where = " in the slowest tenth" if result.goal == "worst" else ""
    measured = result.measuring
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>Measured: {measured.known} of {measured.shapes} &times; {measured.candidates} pairs of shape and candidate"
        f"{'' if measured.complete else ', before the time ended'}.</p>", *_paragraphs(result.notes),
        "<h2>How many kernels?</h2>",
        f"<p>The {what}{where}, on shapes that the rule did not learn from; the kernels were chosen "
        "with them.</p>", _curve(result),
        _table(("kernels", *(name for name, _ in _LINES)),
               [(str(point.kernels), *(reached(result.goal, loss) for loss in _losses(point)))
                for point in result.curve], ships=[point.kernels == result.kernels for point in result.curve]),
        f"<p>On the given shapes: {escape(given(result))}.</p>",
        "<h2>The kernels, and the shapes that each serves</h2>",
        *(f"<details><summary>{number}: <code>{escape(served.member.kernel)} {escape(served.member.brief())}</code>, "
          f"{len(served.problems)} shapes, {served.weight:.1%} of the time</summary>"
          f"{_listed(served.problems)}</details>" for number, served in enumerate(result.served)),
        "<h2>The rule</h2>", f"<pre>{escape(result.rule)}</pre>",
        "<h2>What it promises for other shapes</h2>",
        *(_paragraphs(f"{way}: {bound.text()}." for way, bound in ways(result))
          or [f"<p>Nothing: a bound needs at least {FEWEST} fresh shapes.</p>"]),
        "<h2>Shapes that deserve a kernel of their own</h2>",
        _table(("shape", "times as fast", "with"),
               [(own.problem.brief(), f"{own.gain:.2f}{'' if own.measured else ' (expected)'}",
                 f"{own.configuration.kernel} {own.configuration.brief()}") for own in result.deserving])
        if result.deserving else "<p>None.</p>",
        "<h2>Shapes of which the rule is not sure</h2>",
        f"<p>The first two kernels of the rule are near each other; race them there.</p>{_listed(result.unsure)}"
        if result.unsure else "<p>None.</p>",
        "<h2>Files</h2>", f"<ul>{''.join(f'<li><code>{escape(file.name)}</code></li>' for file in result.files)}</ul>"]
    policy = f"default-src 'none'; style-src 'sha256-{style}'"
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="generator" content="seqtune dispatch">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>{escape(title)}</title>\n'
            f"<style>{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n")


def _losses(point: CurvePoint) -> tuple[float, float, float]:
    """The losses in the order of _LINES."""
    return point.oracle, point.second, point.rule


def _curve(result: Dispatched) -> str:
    """The curve of what each number of kernels reaches, with a mark at the number that ships, as SVG."""
    heights = [[float(reached(result.goal, loss)) for loss in _losses(point)] for point in result.curve]
    lowest = math.floor(20 * min(map(min, heights)) - 1e-9) / 20
    most = max(2, result.curve[-1].kernels)

    def across(kernels: int) -> float:
        return LEFT + (WIDTH - LEFT - 8) * (kernels - 1) / (most - 1)

    def down(share: float) -> float:
        return 8 + (HEIGHT - BOTTOM - 8) * (1 - share) / max(1 - lowest, 0.05)

    knee = across(result.kernels)
    parts = [f'<svg width="{WIDTH}" height="{HEIGHT + 20 * len(_LINES)}" role="img" aria-label="curve of kernels">',
             f'<line x1="{knee:.1f}" x2="{knee:.1f}" y1="8" y2="{HEIGHT - BOTTOM}" stroke="#D55E00" '
             'stroke-dasharray="4 3"/>']
    for tick in (lowest, (1 + lowest) / 2, 1.0):
        parts += [f'<line x1="{LEFT}" x2="{WIDTH - 8}" y1="{down(tick):.1f}" y2="{down(tick):.1f}" stroke="#ddd"/>',
                  f'<text x="{LEFT - 6}" y="{down(tick) + 4:.1f}" text-anchor="end">{tick:.3g}</text>']
    parts += [f'<text x="{across(point.kernels):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{point.kernels}'
              f"{' ships' * (point.kernels == result.kernels)}</text>" for point in result.curve]
    for number, (name, colour) in enumerate(_LINES):
        corners = " ".join(f"{across(point.kernels):.1f},{down(each[number]):.1f}"
                           for point, each in zip(result.curve, heights, strict=True))
        dots = "".join(f'<circle cx="{corner.partition(",")[0]}" cy="{corner.partition(",")[2]}" r="2.5" '
                       f'fill="{colour}"/>' for corner in corners.split())
        parts.append(f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="1.8"/>{dots}'
                     f'<text x="{LEFT}" y="{HEIGHT + 20 * number + 6}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], ships: Sequence[bool] = ()) -> str:
    marks = [' class="ships"' if ship else "" for ship in ships] or [""] * len(rows)
    lines = [f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
             for mark, row in zip(marks, rows, strict=True)]
    return f"<table><tr>{''.join(f'<th>{escape(name)}</th>' for name in header)}</tr>\n" + "\n".join(lines) + "</table>"


def _listed(problems: Sequence[Problem]) -> str:
    lines = [f"<li><code>{escape(problem.key)}</code></li>" for problem in problems[:MOST_SHAPES]]
    more = len(problems) - MOST_SHAPES
    return f"<ul>{''.join(lines)}</ul>" + (f"<p>and {more} more</p>" if more > 0 else "")


def _paragraphs(texts: Iterable[str]) -> list[str]:
    return [f"<p>{escape(text)}</p>" for text in texts]
