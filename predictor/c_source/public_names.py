"""Public names: what the header of an exported predictor declares, and the prefix of these names.

Files with different prefixes can be linked into one program, and one source can include all of their headers. All other
names of a file are static and begin with INTERNAL.
"""

from __future__ import annotations

import re

from seqtune.errors import MisuseError, shown

PREFIX = "seqtune"  # of types and functions; constants have it in capitals
INTERNAL = "sq"  # the prefix of names that only the file itself uses
LONGEST = 40  # characters of a prefix; C99 tells internal names apart by their first 63
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")  # C++ reserves names with two underscores in a row
_DECLARED = re.compile(r"^\} (seqtune_\w+);|\b(seqtune_\w+)\(|\b(SEQTUNE_\w+)", re.MULTILINE)
# A comment, a string, a character, or a name that may be public.
_TOKEN = re.compile(r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])+'|\b(?:seqtune|SEQTUNE)_\w+""", re.DOTALL)
_NAME = re.compile(r"\b(?:seqtune|SEQTUNE)_\w+")


def check_prefix(prefix: object) -> None:
    """Raise MisuseError for what cannot be the prefix of a file's public names."""
    if not isinstance(prefix, str) or len(prefix) > LONGEST or not _PREFIX.fullmatch(prefix):
        raise MisuseError(f"prefix={shown(prefix)} cannot begin names of C; take at most {LONGEST} letters and digits "
                          "of ASCII, a letter first, with single underscores between them")
    if prefix.lower().partition("_")[0] == INTERNAL:
        raise MisuseError(f"prefix={shown(prefix)} begins the file's own names; take another one than {INTERNAL}")


def with_prefix(source: str, header: str, prefix: str) -> str:
    """C source in which the names that `header` declares begin with another prefix; strings stay as they are.

    Macros that a compiler's options set, such as SEQTUNE_PORTABLE, are not declared and keep their names.
    """
    if prefix == PREFIX:
        return source
    declared = {name for names in _DECLARED.findall(header) for name in names if name}

    def renamed(match: re.Match[str]) -> str:
        name = match.group()
        start = prefix if name.startswith(PREFIX) else prefix.upper()
        return start + name[len(PREFIX):] if name in declared else name

    def replaced(match: re.Match[str]) -> str:
        token = match.group()
        return token if token[0] in "\"'" else _NAME.sub(renamed, token)

    return _TOKEN.sub(replaced, source)
