"""Page: the HTML file around a payload, with its style and its program inside. It loads nothing from anywhere.

The content security policy lets only this program and this style run, by their hashes. Names from foreign files are in
the payload alone, which the program writes as text.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from html import escape
from importlib.resources import files
from string import Template

PROGRAM = ("decode", "elements", "axes", "overview", "choice", "convergence", "configurations", "landscape",
           "importance", "failures", "forecasts", "pruning", "start")


def page(title: str, payload: str) -> str:
    """The page's text; `payload` is base64."""
    style, program = _asset("style.css"), _program()
    return Template(_asset("page.html")).substitute(
        title=escape(title), style=style, style_hash=_hash(style), program=program, program_hash=_hash(program),
        payload=payload)


def _program() -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in PROGRAM)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


@lru_cache
def _asset(name: str) -> str:
    return files("seqtune.reporting").joinpath("web", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
