"""Reading: makes a Library from a TOML file, from a folder that has one, or from a T1 file.

Mistakes are named by line and column. Python's tomllib reports positions of syntax errors only, so `Positions` scans a
text that tomllib has accepted: it checks nothing and only notes where keys and values begin.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError, one_line

from .declared_library import declared_library, parse_document
from .fault import KEY, DocumentFault, KeyPath, dotted
from .files import read_regular
from .library import Library
from .t1.file import t1_content, t1_document

LARGEST_DOCUMENT = 250_000  # bytes
MOST_DOTS = 100  # dots in a line: tomllib's time grows with the square of the parts of a dotted key
_DIGITS = re.compile(r"[0-9_]{4000}")
FILE_NAME = "library.toml"  # the file that is read if a folder is named


def read_library(path: str | Path, allowed: bool = False) -> Library:
    """Read a library from a TOML file, the `library.toml` of a folder, or a T1 file (.json). Raises FormatError.

    Its code and its commands run only if they are `allowed`.
    """
    file = Path(path)
    file = file / FILE_NAME if file.is_dir() else file
    text = _text(file)
    if file.suffix.lower() == ".json":
        return _read_t1(file, text, allowed)
    table = _table(file, text)
    positions = Positions(text, table)

    def locate(path: KeyPath) -> str:
        line, column = positions.at(path)
        return f"{file}:{line}:{column}"

    try:
        return declared_library(parse_document(table), file.resolve().parent, origin=str(file), own_modules=True,
                                allowed=allowed, locate=locate)
    except DocumentFault as fault:
        raise FormatError(f"{locate(fault.path)}: {fault}") from None


def _read_t1(file: Path, text: str, allowed: bool) -> Library:
    """The library of a T1 file. Raises FormatError with the keys that lead to a mistake."""
    try:
        document = parse_document(t1_document(t1_content(text), file.stem))
        return declared_library(document, file.resolve().parent, origin=str(file), allowed=allowed,
                                locate=lambda path: f"{file}: {dotted(path)}")
    except FormatError as error:
        raise FormatError(f"{file}: {error}") from None


def _text(file: Path) -> str:
    """The text of a file, with \\n at the end of every line. Raises FormatError."""
    content = read_regular(file, LARGEST_DOCUMENT)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{file}:{line}:1: not UTF-8 text (byte {error.start})") from None


def _table(file: Path, text: str) -> dict[str, Any]:
    """The content of a TOML text. Raises FormatError with line and column."""
    for number, words in enumerate(text.split("\n"), 1):
        if words.count(".") > MOST_DOTS:
            raise FormatError(f"{file}:{number}:1: the line has more than {MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
        line, column = (match[1], match[2]) if match is not None and match[1] else (text.count("\n") + 1, 1)
        raise FormatError(f"{file}:{line}:{column}: not TOML: {one_line(message[:match.start() if match else 200])}"
                          ) from None
    except RecursionError:
        raise FormatError(f"{file}:1:1: not TOML: nested too deeply") from None
    except ValueError:  # Python reads at most 4300 digits
        line = next((at for at, words in enumerate(text.split("\n"), 1) if _DIGITS.search(words)), 1)
        raise FormatError(f"{file}:{line}:1: not TOML: a number has too many digits") from None


_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_QUOTED = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|"(?:[^"\\\n]|\\.)*"|\'\'\'.*?\'{3,5}|\'[^\'\n]*\'', re.DOTALL)
_SCALAR = re.compile(r"[^,\]}#\n]*")
DEEPEST = 12  # parts of a path that are distinguished; a document has fewer


class Positions:
    """The offsets of keys and values in a TOML text, by path; `table` is what tomllib read from the text."""

    def __init__(self, text: str, table: Mapping[str, Any]) -> None:
        self.text, self.table = text, table
        self.keys: dict[KeyPath, int] = {}
        self.values: dict[KeyPath, int] = {}
        self._tables: dict[KeyPath, int] = {}  # number of tables in each array of tables
        with suppress(RecursionError):  # so deep nesting is a mistake itself, and the message names a key near the top
            self._document()

    def at(self, path: KeyPath) -> tuple[int, int]:
        """The line and column, both from 1, of a value, or of the key if the path ends in KEY.

        Parts of the path that are not in the text are skipped. An element of an array may be given by its text.
        """
        known: KeyPath = ()
        node: Any = self.table
        for part in path:
            if isinstance(node, list) and isinstance(part, str) and part in node:
                part = node.index(part)
            if (*known, part) not in self.keys and (*known, part) not in self.values:
                continue
            known = (*known, part)
            with suppress(LookupError, TypeError):
                node = node[part]
        first, second = (self.keys, self.values) if path[-1:] == (KEY,) else (self.values, self.keys)
        offset = first.get(known, second.get(known, 0))
        return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)

    def _document(self) -> None:
        table_path: KeyPath = ()
        offset = self._skip(_BLANK, 0)
        while offset < len(self.text):
            if self.text.startswith("[", offset):
                table_path, offset = self._header(offset)
            else:
                offset = self._pair(table_path, offset)
            offset = self._skip(_BLANK, offset)

    def _header(self, offset: int) -> tuple[KeyPath, int]:
        """Read `[a.b]` or `[[a.b]]`; return the path of the table and the offset after it."""
        begin, array = offset, self.text.startswith("[[", offset)
        path, offset = self._key((), self._skip(_SPACE, offset + 1 + array), begin)
        if array:
            path = path[:-1] if isinstance(path[-1], int) else path  # another table, not the one before
            number = self._tables[path] = self._tables.get(path, -1) + 1
            self.keys.setdefault(path, begin)
            path = (*path, number)
        self.keys.setdefault(path, begin)
        self.values.setdefault(path, begin)
        return path, offset + 1 + array

    def _key(self, table_path: KeyPath, offset: int, begin: int | None = None) -> tuple[KeyPath, int]:
        """Read a dotted key within the table at `table_path`; return its path and the offset after it."""
        path = table_path
        while True:
            match = _QUOTED.match(self.text, offset) or _BARE_KEY.match(self.text, offset)
            assert match is not None
            name = match[0] if match[0][0] not in "\"'" else next(iter(tomllib.loads(f"{match[0]} = 0")))
            if len(path) < DEEPEST:
                path = (*path, name)
            self.keys.setdefault(path, offset if begin is None else begin)
            if path in self._tables:
                path = (*path, self._tables[path])
            offset = self._skip(_SPACE, match.end())
            if not self.text.startswith(".", offset):
                return path, offset
            offset = self._skip(_SPACE, offset + 1)

    def _pair(self, table_path: KeyPath, offset: int) -> int:
        path, offset = self._key(table_path, offset)
        return self._value(path, self._skip(_SPACE, offset + 1))

    def _value(self, path: KeyPath, offset: int) -> int:
        """Read a value; return the offset after it."""
        self.values.setdefault(path, offset)
        if self.text.startswith(("[", "{"), offset):
            return self._items(path, offset)
        return self._skip(_QUOTED if self.text[offset] in "\"'" else _SCALAR, offset)

    def _items(self, path: KeyPath, offset: int) -> int:
        """Read the elements of an array, or the pairs of an inline table."""
        array, number = self.text[offset] == "[", 0
        offset = self._skip(_BLANK, offset + 1)
        while self.text[offset] not in "]}":
            item = (*path, number) if len(path) < DEEPEST else path
            offset = self._value(item, offset) if array else self._pair(path, offset)
            number += 1
            offset = self._skip(_BLANK, offset)
            if self.text.startswith(",", offset):
                offset = self._skip(_BLANK, offset + 1)
        return offset + 1

    def _skip(self, pattern: re.Pattern[str], offset: int) -> int:
        match = pattern.match(self.text, offset)
        assert match is not None
        return match.end()
