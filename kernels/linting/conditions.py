"""Condition lint: names in conditions of the preprocessor (`#if`, `#ifdef`) that no macro defines.

Every such name counts as 0 in `#if` (C11, 6.10.1), and no compiler says so: a misspelt parameter, or a word that is a
parameter's value, makes configurations that differ the same program. The check reads sources as `c_text` does, for
OpenCL C and CUDA C alike.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from itertools import zip_longest

from ..libraries.document import KernelDocument
from ..libraries.fault import KeyPath
from ..libraries.run_sections import SourceSection
from .c_text import CText, Macro, is_word, tested_names, tokens, words
from .report import ITEM, Remark
from .undefined_names import arguments_of, calling, is_known

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
