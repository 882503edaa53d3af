"""C text: a source in OpenCL C or CUDA C without comments, split into code, preprocessor lines and tokens.

Lint reads sources itself, without a compiler, so that it answers the same on every machine. It expands no macros: code
that a macro could change is not checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LARGEST_READ = 300_000  # characters of a source; a larger one is not checked
_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_SILENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
_DEFINE = re.compile(r"#[ \t]*define[ \t]+([A-Za-z_]\w*)(\(([^)\n]*)\))?[ \t]*([^\n]*)")
# Macros of the standard headers, of OpenCL C and of CUDA, which a parameter of the same name would redefine.
MACROS = re.compile(r"__\w+|NULL|NAN|INFINITY|EOF|BUFSIZ|errno|assert|offsetof|(M|FLT|DBL|HALF|INT|UINT|CHAR|SCHAR|"
                    r"UCHAR|SHRT|USHRT|LONG|ULONG|CLK|CL|CUDA|FP)_\w+|MAXFLOAT|HUGE_VALF?|(min|max)")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|__launch_bounds__\s*\([^()]*\)")
_TOKEN = re.compile(r"[A-Za-z_]\w*|(?:\d|\.\d)[\w.]*|->|::|[^\s\w]")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Macro:
    """A `#define` of a source."""

    name: str
    arguments: tuple[str, ...] | None  # None: a macro without parentheses
    body: str


@dataclass(frozen=True, slots=True)
class CText:
    """A source without comments; texts in quotes are empty."""

    whole: str
    code: str  # without preprocessor lines
    directives: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> CText:
        """Split a source."""
        whole = _SILENT.sub(lambda match: '""' if match[0][0] in "\"'" else " ", _SPLICE.sub(" ", text))
        return cls(whole, _DIRECTIVE.sub("", whole), tuple(_DIRECTIVE.findall(whole)))

    @property
    def macros(self) -> list[Macro]:
        """The macros that the source defines, in order; one may have several definitions."""
        matches = (_DEFINE.search(line) for line in self.directives)
        return [Macro(match[1], None if match[2] is None else tuple(_WORD.findall(match[3])), match[4])
                for match in matches if match is not None]


def tokens(text: str) -> list[str]:
    """The names, numbers and signs of a text without comments."""
    return _TOKEN.findall(text)


def words(text: str) -> set[str]:
    """The names in a text."""
    return set(_WORD.findall(text))


def is_word(token: str) -> bool:
    """Whether a token is a name or keyword."""
    return token[0] == "_" or token[0].isalpha()
