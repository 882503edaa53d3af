"""Undefined names: names that an OpenCL C source reads and nothing defines, such as a parameter's former name.

Lint has no compiler, so the check is rough and stays silent when in doubt: a name counts as defined if anything in the
source might declare it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from ..libraries.declared_kernel import RESERVED_WORDS
from .c_text import ATTRIBUTE, MACROS, CText, Macro, is_word, tokens, words

_TYPE = re.compile(r"(?:u?(?:char|short|int|long)|float|double|half|bool)(?:2|3|4|8|16)?|void|size_t|\w+_t|atomic_\w+")
_KNOWN = re.compile(r"ATOMIC_\w+|(memory_order|memory_scope|cl|cles)_\w+|defined|printf")  # OpenCL C's, with MACROS
_KEYWORDS = RESERVED_WORDS | {"volatile", "read_only", "write_only", "read_write", "pipe", "unsigned", "signed", "asm"}
_NOT_TYPES = {"return", "goto", "case", "break", "continue", "sizeof", "if", "while", "switch", "for"}
_LEADING = ("else", "do")  # a statement may follow them
_LONGEST = 300  # tokens of a declaration or of a list of parameters
_ROUNDS = 10  # levels of macros that call each other


def undefined_names(source: CText, defined: Collection[str]) -> list[str]:
    """The names that a source reads and neither it nor `defined` may give a value, in their order."""
    if source.has_includes:
        return []  # the included file may define them
    code = tokens(ATTRIBUTE.sub(" ", source.code))
    used = set(code) | {token for macro in source.macros for token in tokens(macro.body)}
    bodies = [(macro, tokens(macro.body)) for macro in source.macros]
    declaring = {macro.name for macro, body in bodies if "#" in body or not set(macro.arguments or ()).isdisjoint(
        _declared([";", *body]))}  # macros that may make new names of their arguments
    declaring = calling(source.macros, declaring)
    for macro, body in bodies:
        if macro.name in used and "#" not in body:
            code += [";", *body, ";"]
    known = {*defined, *(name for macro in source.macros for name in (macro.name, *(macro.arguments or ())))}
    known |= set(arguments_of(code, declaring))
    for line in source.directives:
        if not re.match(r"\s*#\s*define\b", line):
            known |= words(line)
    known |= set(_declared(code))
    return list(dict.fromkeys(name for name in _read(code) if name not in known))


def calling(macros: Iterable[Macro], names: Collection[str]) -> set[str]:
    """The names of some macros, and of those that call them, directly or through others."""
    found, bodies = set(names), [(macro.name, set(tokens(macro.body))) for macro in macros]
    for _ in range(_ROUNDS):
        found |= {name for name, body in bodies if not found.isdisjoint(body)}
    return found


def is_known(name: str) -> bool:
    """Whether the language or its compilers may define a name."""
    return any(known.fullmatch(name) for known in (_TYPE, _KNOWN, MACROS))


def _read(code: list[str]) -> Iterator[str]:
    """The names whose value or meaning the code needs, without the names of functions that it calls."""
    for before, token, after in zip(["", *code], code, [*code[1:], ""], strict=False):
        if is_word(token) and after != "(" and before not in (".", "->", "goto", "struct", "union", "enum") and \
                token not in _KEYWORDS and not is_known(token):
            yield token


def arguments_of(code: list[str], macros: Collection[str]) -> Iterator[str]:
    """The names between the parentheses of calls of these macros."""
    depth = 0
    for before, token in pairwise(["", *code]):
        if token == "(" and (depth or before in macros):
            depth += 1
        elif token == ")" and depth:
            depth -= 1
        elif depth and is_word(token):
            yield token


def _declared(code: list[str]) -> Iterator[str]:
    """The names that the code may declare."""
    for index, token in enumerate(code):
        before = code[index - 1] if index else ";"
        after = code[index + 1] if index + 1 < len(code) else ";"
        if is_word(token) and (before in ("struct", "union", "enum", "goto") or (before == "}" and after in "=;,[")
                               or (after == ":" and before in ";{}")):
            yield token
        if before in (";", "{", "}", *_LEADING) or (before == "(" and code[max(0, index - 2)] == "for") or (
                before == ":" and (_TYPE.fullmatch(token) or token == "const")):
            yield from _declarators(code, index, True)
        elif before == "(" and index > 2 and is_word(code[index - 2]) and (
                is_word(code[index - 3]) or code[index - 3] == "*") and code[index - 3] not in _NOT_TYPES:
            yield from _parameters(code, index)
        if token == "enum":
            yield from _members(code, index)


def _declarators(code: list[str], index: int, several: bool) -> Iterator[str]:
    """The names of a declaration that may begin here: words and stars of a type, a name, and others after commas."""
    end = index
    while end < min(len(code), index + _LONGEST) and (is_word(code[end]) or code[end] == "*"):
        end += 1
    run = code[index:end]
    if len([token for token in run if is_word(token)]) < 2 or not is_word(run[-1]) or not _NOT_TYPES.isdisjoint(run):
        return
    yield run[-1]
    depth, last = 0, min(len(code), end + _LONGEST)
    while several and end < last:
        token = code[end]
        depth += (token in "([{") - (token in ")]}")
        if depth < 0 or (not depth and token == ";") or (token == "{" and code[end - 1] not in "=,{"):
            return
        end += 1
        if not depth and token == ",":
            while end < last and code[end] in ("*", "const", "restrict", "volatile"):
                end += 1
            if end < last and is_word(code[end]):
                yield code[end]


def _parameters(code: list[str], index: int) -> Iterator[str]:
    """The parameters of a function whose list begins here."""
    depth, start, last = 0, True, min(len(code), index + _LONGEST)
    while index < last and depth >= 0:
        if start:
            yield from _declarators(code, index, False)
        depth += (code[index] in "([{") - (code[index] in ")]}")
        start = not depth and code[index] == ","
        index += 1


def _members(code: list[str], index: int) -> Iterator[str]:
    """The constants of an enumeration."""
    while index < len(code) and code[index] not in ("}", ";"):
        if is_word(code[index]) and code[index - 1] in "{,":
            yield code[index]
        index += 1
