"""Includes: the text of a source with the files of the library's folder that it includes in their places.

Compilers then read no file: not beside the source, and not elsewhere. Marks (`#line`) keep the names and lines of the
files for the compiler's messages.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from seqtune.errors import FormatError

MOST_INCLUDES = 100
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"[^\n]*$', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)


def with_includes(name: str, read: Callable[[str], str | None], most: int) -> str:
    """The text of a source file of at most `most` characters.

    `read` returns the text of a file by its path in the folder, or None if there is none: then the line stays for the
    compiler. Raises FormatError if a path leads out of the folder, or the text becomes too large.
    """
    return _Reader(read, most).text(name, ())


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
        return self._expanded(name, text, parents)

    def _expanded(self, name: str, text: str, parents: tuple[str, ...]) -> str:
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
        return None if text is None else self._expanded(path, text, parents)


def mark(line: int, name: str) -> str:
    """A line that tells the compiler that the next one is this line of the named file."""
    readable = "".join(letter if letter.isalnum() or letter in "._-/+" else "_" for letter in name)
    return f'#line {line} "{readable}"\n'
