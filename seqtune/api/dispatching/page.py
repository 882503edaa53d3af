"""The page of a dispatch: one HTML file, without a program and without anything from the network."""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape

from .report import Section, sections
from .results import Dispatched

MOST_SHAPES = 500  # of a list on the page
LONG = 200  # characters of a cell or line from which on it is folded
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; } th, td { padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid #999; } meter { width: 8em; } pre { background: #f4f4f4; padding: .8em; }
"""


def page(result: Dispatched) -> str:
    """The HTML file."""
    style = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    title = escape(f"{result.kernels} kernel{'s' * (result.kernels != 1)} for {result.operation} on {result.device}")
    parts = [_section(section) for section in sections(result, MOST_SHAPES)]
    parts.insert(2, f"<h2>The rule</h2><pre>{escape(result.rule)}</pre>")
    policy = f"default-src 'none'; style-src 'sha256-{style}'"
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="generator" content="seqtune dispatch">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>{title}</title>\n'
            f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n")


def _section(section: Section) -> str:
    """A section: its table, and its lines as paragraphs."""
    header = "".join(f"<th>{escape(name)}</th>" for name in section.header)
    rows = "".join(f"<tr>{''.join(f'<td>{_folded(cell)}</td>' for cell in row)}</tr>\n" for row in section.rows)
    table = f"<table><tr>{header}</tr>\n{rows}</table>" if rows else ""
    return f"<h2>{escape(section.title)}</h2>{table}" + "".join(f"<p>{_folded(line)}</p>" for line in section.lines)


def _folded(text: str) -> str:
    """A text; a share has a bar, and of a long text the reader sees the beginning until asking for all."""
    if re.fullmatch(r"[01]\.\d{3}", text):
        return f'<meter value="{text}"></meter> {text}'
    return escape(text) if len(text) <= LONG else \
        f"<details><summary>{escape(text[:LONG])}</summary>{escape(text[LONG:])}</details>"
