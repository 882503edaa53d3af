"""Macros: removes `#define`s of tuned parameters from a source, so that the values of a configuration take effect.

Compilers take the last definition of a macro, and the source comes after the declared values: a definition that stays
would make every configuration the same program.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(?![\w(])(?:[^\n]*\\\r?\n)*[^\n]*$", re.MULTILINE)
_REMOVAL = re.compile(r"^[ \t]*#[ \t]*undef[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


def without_definitions(text: str, names: Collection[str]) -> str:
    """A source in C without its own definitions of the named macros; lines keep their numbers.

    A name that the source also undefines keeps all its definitions, because the source changes a declared value on
    purpose. Macros with arguments stay.
    """
    replaced = set(names) - set(_REMOVAL.findall(text))
    return _DEFINITION.sub(lambda match: "\n" * match[0].count("\n") if match[1] in replaced else match[0], text)
