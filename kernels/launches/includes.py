"""Includes: the text of a source with the files of the library's folder that it includes in their places.

Compilers then read only their own headers, by relative names: other forms of including a file are refused. Marks
(`#line`) keep the names and lines of the files for the compiler's messages.

`#define`s of tuned parameters are removed from a source, too: compilers take the last definition of a macro, and the
source comes after the declared values, so that a definition that stays would make every configuration the same program.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection

from seqtune.errors import FormatError

MOST_INCLUDES = 100
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"[^\n]*$', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
# A directive that reads a file, in any spelling: with the digraph or trigraph of #, after a comment, or before one that
# hides its name.
_DIRECTIVE = re.compile(r"(?:^|\r|\*/)[ \t\v\f]*(?:#|%:|\?\?=)[ \t\v\f]*(?:/\*|include|import|embed)", re.MULTILINE)
_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t]*(?:\r\n?|\n)")  # a line that goes on in the next one
_PLAIN = re.compile(r'[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')


def with_includes(name: str, read: Callable[[str], str | None], most: int, text: str | None = None) -> str:
    """The text of a source file of at most `most` characters, or such a `text` that is in no file of its own.

    `read` returns the text of a file by its path in the folder, or None if there is none: then the line stays for the
    compiler. Raises FormatError if a path leads out of the folder, or the text becomes too large.
    """
    reader = _Reader(read, most)
    return reader.text(name, ()) if text is None else reader.expanded(name, text, ())


class _Reader:
    """Reads one source with its includes."""

    def __init__(self, read: Callable[[str], str | None], most: int) -> None:
        self._read, self._most = read, most
        self._count, self._size = 0, 0
        self._once: set[str] = set()

    def text(self, name: str, parents: tuple[str, ...]) -> str:
        text = self._read(name)
        if text is None:
            raise FormatError(f"there is no {name!r:.80} in the library's folder")
        return self.expanded(name, text, parents)

    def expanded(self, name: str, text: str, parents: tuple[str, ...]) -> str:
        _check_directives(name, text)
        if name in self._once:
            return ""
        if _ONCE.search(text):
            self._once.add(name)
            text = _ONCE.sub("//", text)
        self._size += len(text)
        if self._size > self._most:
            raise FormatError(f"{(*parents, name)[0]!r:.80} and its includes have more than {self._most} characters")
        pieces, end = [], 0
        for match in _INCLUDE.finditer(text):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[1]))
            included = self._included(path, (*parents, name))
            if included is not None:
                line = text.count("\n", 0, match.end()) + 2
                pieces += [text[end:match.start()], f'{mark(1, path)}{included}\n{mark(line, name).rstrip()}']
                end = match.end()
        return "".join([*pieces, text[end:]])

    def _included(self, path: str, parents: tuple[str, ...]) -> str | None:
        self._count += 1
        if self._count > MOST_INCLUDES or path in parents:
            raise FormatError(f"{parents[0]!r:.80} includes {path!r:.80} within itself, or more than {MOST_INCLUDES} "
                              "files")
        text = self._read(path)
        return None if text is None else self.expanded(path, text, parents)


def _check_directives(name: str, text: str) -> None:
    """Check that a source includes files in the plain form alone. Raises FormatError."""
    spliced, replaced = _SPLICE.sub("", text), set(_INCLUDE.findall(text))
    for directive in _DIRECTIVE.finditer(spliced):
        plain = _PLAIN.match(spliced, directive.start())
        file, header = (None, "") if plain is None else plain.groups(default="")
        if plain is None or (file and file not in replaced) or header.startswith("/") or ".." in header:
            line = spliced[directive.start():].strip().partition("\n")[0]
            raise FormatError(f"{name!r:.80} includes a file by {line!r:.60}; write #include \"file\" or #include "
                              "<file> on a line of its own")


def mark(line: int, name: str) -> str:
    """A line that tells the compiler that the next one is this line of the named file."""
    readable = "".join(letter if letter.isalnum() or letter in "._-/+" else "_" for letter in name)
    return f'#line {line} "{readable}"\n'


_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(?![\w(])(?:[^\n]*\\\r?\n)*[^\n]*$", re.MULTILINE)
_REMOVAL = re.compile(r"^[ \t]*#[ \t]*undef[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


def without_definitions(text: str, names: Collection[str]) -> str:
    """A source in C without its own definitions of the named macros; lines keep their numbers.

    A name that the source also undefines keeps all its definitions, because the source changes a declared value on
    purpose. Macros with arguments stay.
    """
    replaced = set(names) - set(_REMOVAL.findall(text))
    return _DEFINITION.sub(lambda match: "\n" * match[0].count("\n") if match[1] in replaced else match[0], text)
