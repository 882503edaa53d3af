"""Undefined names: names that an OpenCL C source reads and nothing defines, such as a parameter's former name.

Lint has no compiler, so the check is rough and stays silent when in doubt: a name counts as defined if anything in the
source might declare it.

A name in a condition of the preprocessor (`#if`, `#ifdef`) that no macro defines counts as 0 in `#if` (C11, 6.10.1),
and no compiler says so: a misspelt parameter, or a word that is a parameter's value, makes configurations that differ
the same program. Conditions are checked in OpenCL C and CUDA C alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import pairwise, zip_longest

from ..libraries.declared_kernel import RESERVED_WORDS
from ..libraries.document import KernelDocument, SourceSection
from ..libraries.fault import KeyPath
from .c_text import ATTRIBUTE, MACROS, CText, Macro, is_word, tested_names, tokens, words
from .report import ITEM, Remark

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


_OPERATORS = {"true", "false", "and", "or", "not", "xor", "bitand", "bitor", "compl", "not_eq"}  # words of C++
_SIMILAR, _HARDLY = 0.8, 0.6  # of the letters, from which a name is another one, misspelt; from which it may be
_DEEPEST = 10  # levels of macros that a condition reads


def defined_names(document: KernelDocument, section: SourceSection) -> set[str]:
    """The macros that a document gives to a source: parameters, `defines` and those of options."""
    return {*document.parameters, *section.defines, *(
        re.split("=", option[2:], maxsplit=1)[0] for option in section.options if option.startswith("-D"))}


def condition_findings(source: CText, document: KernelDocument, given: Collection[str],
                       path: KeyPath) -> Iterator[Remark]:
    """Remarks about undefined names in conditions. `given` are the macros that the document defines.

    A source that includes a file which lint cannot read may get any name from there: then names are remarked if they
    resemble one that is declared and that the source does not read.
    """
    unread = sorted(set(given) - words(source.whole))
    words_of = {value: name for name, parameter in document.parameters.items()
                for value in parameter.values if isinstance(value, str)}
    optional = {name for condition in source.conditions for name in condition.tested}
    for name, line in undefined_in_conditions(source, given).items():
        certain = not source.has_includes and name not in optional
        others = [*unread, *sorted({*given, *words_of})] if certain else unread
        near = next(iter(get_close_matches(name, others, 1, _HARDLY if certain else _SIMILAR)), None)
        near = near or next((other for other in sorted(given) if _is_slip(name, other)), None)
        if is_known(name) or not (certain or near):
            continue
        hint = (f"; it is a value of {words_of[name]}, to which `defines` can give a number: {name} = \"1\""
                if name in words_of else f": is {near} meant?" if near is not None
                else f"; it does not read {get_close_matches(name, unread, 1, 0.0)[0]}, which is declared" if unread
                else "")
        yield Remark(path, f"the source reads {ITEM}, which neither it nor a parameter defines, in `{line:.80}`"
                           f"{', where it counts as 0' if certain else ''}{hint}", item=name[:60])


def undefined_in_conditions(source: CText, defined: Collection[str]) -> dict[str, str]:
    """The names that conditions read, or of which they ask whether they are defined, and that no macro of the source
    or of `defined` has, each with the first such line.
    """
    macros: dict[str, list[Macro]] = {}
    for macro in source.macros:
        macros.setdefault(macro.name, []).append(macro)
    pasting = calling(source.macros, [macro.name for macro in source.macros if "#" in macro.body])
    known, found = {*defined, *macros, *_OPERATORS}, dict[str, str]()
    for condition in source.conditions:
        for name in (*condition.tested, *_valued(condition.expression, macros, pasting, _DEEPEST)):
            if name not in known:
                found.setdefault(name, condition.line)
    return found


def _valued(text: str, macros: Mapping[str, list[Macro]], pasting: Collection[str], levels: int) -> Iterator[str]:
    """The names whose values a text needs: its own, and those in the bodies of the macros that it reads.

    Macros that are `pasting` make new names of their arguments, which they hide.
    """
    code = tokens(text)
    hidden = set(arguments_of(code, pasting))
    for token, after in zip_longest(code, code[1:], fillvalue=""):
        if not is_word(token) or token in hidden or (after == "(" and token not in macros):
            continue
        yield token
        for macro in macros.get(token, ()) if levels and token not in pasting else ():
            own = {token, "defined", *(macro.arguments or ()), *tested_names(macro.body)}
            yield from (name for name in _valued(macro.body, macros, pasting, levels - 1) if name not in own)


def _is_slip(name: str, other: str) -> bool:
    """Whether a name is another one with a letter more or less, or with two neighbours swapped."""
    if len(name) == len(other):
        return any(name == other[:place] + other[place + 1] + other[place] + other[place + 2:]
                   for place in range(len(other) - 1))
    shorter, longer = sorted((name, other), key=len)
    return len(longer) == len(shorter) + 1 and any(
        longer[:place] + longer[place + 1:] == shorter for place, letter in enumerate(longer) if letter.isalpha())
