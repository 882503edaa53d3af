"""Sections of a text file: sources in another language, and tables, that stand in a file beside the module.

A line `//= name` begins a section; in files whose comments begin with `#` it is `#= name`. Lines that begin with `//!`
or `#!` explain a section to its reader and are no part of it.
"""

from __future__ import annotations

import re
from pathlib import Path

SUFFIXES = (".cu", ".cl", ".txt")  # of such files
_BEGIN = re.compile(r"^(?://|#)= (\w+)\n", re.MULTILINE)
_REMARK = re.compile(r"^(?://|#)!.*\n", re.MULTILINE)


def sections(module: str, name: str) -> dict[str, str]:
    """The sections of a file beside a module, which gives its `__file__`, by name."""
    text = Path(module).with_name(name).read_text(encoding="utf-8")
    _, *parts = _BEGIN.split(_REMARK.sub("", text))
    return dict(zip(parts[::2], parts[1::2], strict=True))
