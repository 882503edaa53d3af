"""Public names: what the header of an exported predictor declares, and the prefix of these names.

Files whose prefixes differ in more than capitals can be linked into one program, and one source can include all of
their headers: constants and the include guard have the prefix in capitals. All other names of a file are static and
begin with INTERNAL.
"""

from __future__ import annotations

import re

from seqtune.errors import MisuseError, shown

PREFIX = "seqtune"  # with which the header is written: of types and functions; constants have it in capitals
INTERNAL = "sq"  # the prefix of names that only the file itself uses
# Characters of a prefix. The longest names then have 74, which compilers and linkers in use tell apart; C99 promises 63
# of constants and types, and 31 of functions.
LONGEST = 40
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")  # C++ reserves names with two underscores in a row
# A type, a function, or a constant of the header.
_DECLARED = re.compile(r"^\} (seqtune_\w+);|\b(seqtune_\w+)\(|\b(SEQTUNE_\w+)", re.MULTILINE)
# A comment, a string, a character, or a name that may be public.
_TOKEN = re.compile(r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])+'|\b(?:seqtune|SEQTUNE)_\w+""", re.DOTALL)
_NAME = re.compile(r"\b(?:seqtune|SEQTUNE)_\w+")


def check_prefix(prefix: object) -> None:
    """Check that a file's public names can begin with the prefix. Raises MisuseError."""
    if not isinstance(prefix, str) or len(prefix) > LONGEST or not _PREFIX.fullmatch(prefix):
        raise MisuseError(f"prefix={shown(prefix)} cannot begin names of C; take at most {LONGEST} letters and digits "
                          "of ASCII, a letter first, with single underscores between them")
    if prefix.lower().partition("_")[0] == INTERNAL:
        raise MisuseError(f"prefix={shown(prefix)} begins the file's own names ({INTERNAL}_...); take another one")


def with_prefix(source: str, header: str, prefix: str) -> str:
    """C source in which the names that `header` declares begin with `prefix` instead of PREFIX, in comments, too.

    Strings stay as they are. Macros that a compiler's options set, such as SEQTUNE_PORTABLE, are not declared and keep
    their names. The source has no `//` comments, in which an apostrophe would begin a character.
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
