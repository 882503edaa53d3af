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
_CONDITION = re.compile(r"[ \t]*#[ \t]*(if|elif|ifdef|ifndef|elifdef|elifndef)\b([^\n]*)")
_TESTED = re.compile(r"\bdefined\b\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))")
_ASKED = re.compile(r"\b__has_\w+\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")  # what the compiler has; no names of macros
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
class Condition:
    """A line of the preprocessor that decides which text is compiled: `#if`, `#elif`, `#ifdef` and their like."""

    line: str
    expression: str  # what its value depends on; empty for `#ifdef`
    tested: tuple[str, ...]  # the names of which it asks whether they are defined

    @classmethod
    def of(cls, directive: str) -> Condition | None:
        """Read a line of the preprocessor; None if it is no condition."""
        match = _CONDITION.match(directive)
        if match is None:
            return None
        line = " ".join(match[0].split())
        if "def" in match[1]:
            return cls(line, "", tuple(_WORD.findall(match[2])[:1]))
        expression = _ASKED.sub(" ", match[2])
        return cls(line, _TESTED.sub(" ", expression), tested_names(expression))


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

    @property
    def conditions(self) -> list[Condition]:
        """The conditions of the preprocessor, in order."""
        return [condition for line in self.directives if (condition := Condition.of(line)) is not None]

    @property
    def has_includes(self) -> bool:
        """Whether it includes a file, which may define any name."""
        return any(re.match(r"\s*#\s*include\b", line) for line in self.directives)


def tested_names(text: str) -> tuple[str, ...]:
    """The names of which a text asks whether they are defined: `defined(NAME)`."""
    return tuple(first or second for first, second in _TESTED.findall(text))


def tokens(text: str) -> list[str]:
    """The names, numbers and signs of a text without comments."""
    return _TOKEN.findall(text)


def words(text: str) -> set[str]:
    """The names in a text."""
    return set(_WORD.findall(text))


def is_word(token: str) -> bool:
    """Whether a token is a name or keyword."""
    return token[0] == "_" or token[0].isalpha()
