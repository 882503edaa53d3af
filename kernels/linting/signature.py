"""Signature: the parameters of a kernel function, read from its source: pointers, numbers, element types, const."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from ..launches.c_types import C_TYPES
from .c_text import ATTRIBUTE, CText, is_word, tokens

_SPACES = {f"{dashes}{space}": space for space in ("global", "local", "constant", "private") for dashes in ("", "__")}
_QUALIFIERS = {*_SPACES, "const", "volatile", "restrict", "__restrict", "__restrict__", "read_only", "write_only",
               "__read_only", "__write_only", "signed", "struct"}
_WIDTH = re.compile(r"(\w*?[A-Za-z])(2|3|4|8|16)")
_FIXED = re.compile(r"(u?int(?:8|16|32|64))_t")
_KERNEL = re.compile(r"\b(?:__kernel|kernel|__global__)\b[^;{}()]{0,200}?\b([A-Za-z_]\w*)\s*\(")
_MOST_DEFINITIONS = 20  # occurrences of the entry's name that are looked at
_WRITTEN = (  # how a body writes through a pointer; NAME stands for it
    r"\bNAME\s*\[(?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\](?:\s*\.\s*\w+)?\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)",
    r"\bNAME\s*\[(?:[^\[\]]|\[[^\[\]]*\])*\]\s*(?:\+\+|--)",
    r"\*\s*(?:NAME|\(\s*NAME\b[^()]*\))\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)",
    r"\bvstore\w*\s*\([^;]{0,400},\s*NAME\b[^,;]*\)\s*;")


@dataclass(frozen=True, slots=True)
class SourceParameter:
    """A parameter of a kernel function."""

    text: str  # the parameter as the source writes it
    name: str
    is_pointer: bool | None  # None: unknown, because the source names the type by a word of its own
    space: str  # address space of a pointer's target: "global", "local", "constant" or ""
    is_const: bool  # whether the kernel cannot write through the pointer
    dtype: str | None  # element type; None: not known
    width: int = 1  # numbers of an element: 4 of a float4


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a kernel function, and its body."""

    parameters: tuple[SourceParameter, ...]
    body: str

    def writes(self, parameter: SourceParameter) -> bool:
        """Whether the body evidently writes through a pointer; False: it does not, or not evidently."""
        return any(re.search(pattern.replace("NAME", parameter.name), self.body) for pattern in _WRITTEN)


def read_signature(source: CText, entry: str, words: Collection[str]) -> Signature | str:
    """The signature of a function in a source, or the reason why it is not known.

    `words` are names that the compiler replaces by one word each: tuning parameters and defines.
    """
    definitions = list(_definitions(source, entry))
    if not definitions:
        return f"no definition of {entry} is found"
    lists = {" ".join(tokens(parameters)) for parameters, _ in definitions}
    if len(lists) > 1:
        return f"{entry} is defined more than once"
    parameters, body = definitions[0]
    if "#" in parameters:
        return "a preprocessor line stands among them"
    aliases = _aliases(source)
    read: list[SourceParameter] = []
    for text in _split(parameters):
        parameter = _parameter(text, aliases, words)
        if parameter is None:
            return f"{' '.join(text.split())[:60]!r} may be a macro"
        read.append(parameter)
    return Signature(tuple(read), body)


def functions(source: CText) -> list[str]:
    """The names of the kernel functions of a source."""
    return list(dict.fromkeys(_KERNEL.findall(ATTRIBUTE.sub(" ", source.code))))


def _definitions(source: CText, entry: str) -> Iterator[tuple[str, str]]:
    """The texts between the parentheses and between the braces of each definition of a function."""
    text = ATTRIBUTE.sub(" ", source.whole)
    for match in islice(re.finditer(rf"\b{re.escape(entry)}\s*\(", text), _MOST_DEFINITIONS):
        line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        end = _closing(text, match.end() - 1)
        opening = re.compile(r"\s*\{").match(text, end + 1) if end is not None else None
        if end is not None and opening is not None and not line.lstrip().startswith("#"):
            close = _closing(text, opening.end() - 1)
            yield text[match.end():end], text[opening.end():close]


def _closing(text: str, begin: int) -> int | None:
    """The index of the bracket that closes the one at `begin`; None if there is none."""
    opening, depth = text[begin], 0
    closing = {"(": ")", "{": "}"}[opening]
    for match in re.compile(f"[{re.escape(opening + closing)}]").finditer(text, begin):
        depth += 1 if match[0] == opening else -1
        if not depth:
            return match.start()
    return None


def _split(parameters: str) -> list[str]:
    """The parameters between commas that no bracket encloses; none for `void`."""
    texts, begin, depth = list[str](), 0, 0
    for match in re.finditer(r"[,(<\[)>\]]", parameters):
        if match[0] != ",":
            depth = max(0, depth + (1 if match[0] in "(<[" else -1))
        elif not depth:
            texts.append(parameters[begin:match.start()])
            begin = match.end()
    texts.append(parameters[begin:])
    return [] if len(texts) == 1 and texts[0].strip() in ("", "void") else texts


def _aliases(source: CText) -> dict[str, list[str] | None]:
    """The meanings of a source's macros and names of types, as words and stars; None where they are something else.

    A name that stands for one type or another (`#if`) keeps its name if none of them is a pointer.
    """
    listed: dict[str, list[list[str]]] = {}
    for macro in source.macros:
        listed.setdefault(macro.name, []).append(["("] if macro.arguments is not None else tokens(macro.body))
    for match in re.finditer(r"\btypedef\s+([\w\s*]{1,200}?)\b([A-Za-z_]\w*)\s*;", source.code):
        listed.setdefault(match[2], []).append(tokens(match[1]))
    aliases: dict[str, list[str] | None] = {}
    for name, meanings in listed.items():
        simple = all(is_word(token) or token == "*" for meaning in meanings for token in meaning)
        same = all(meaning == meanings[0] for meaning in meanings)
        one_word = all(meaning and "*" not in meaning and _QUALIFIERS.isdisjoint(meaning) for meaning in meanings)
        aliases[name] = meanings[0] if simple and same else [name] if simple and one_word else None
    return aliases


def _parameter(text: str, aliases: dict[str, list[str] | None], replaced: Collection[str]) -> SourceParameter | None:
    """Read one parameter; None if a macro may hide what it is."""
    written: list[str] = []
    for token in tokens(text):
        alias = aliases.get(token, [token])
        if alias is None:
            return None
        written += alias
    if "(" in written or "&" in written:
        return None
    names = [token for token in written if is_word(token) and token not in _QUALIFIERS]
    if len(names) < 2:  # a type without a name, or a macro
        return None
    kind = " ".join(names[:-1])
    vector = _WIDTH.fullmatch(kind)  # `uint8` is a vector of OpenCL C
    if vector is not None and vector[1] in C_TYPES:
        dtype, width = C_TYPES.get(vector[1]), int(vector[2])
    else:
        dtype, width = C_TYPES.get(_FIXED.sub(r"\1", kind)), 1
    star = next((index for index, token in enumerate(written) if token in "*["), None)
    known = dtype is not None or kind == "void" or kind in replaced
    space = next((_SPACES[token] for token in written if token in _SPACES), "")
    return SourceParameter(" ".join(text.split()), names[-1], True if star is not None else False if known else None,
                           space, space == "constant" or "const" in written[:star or 0], dtype, width)
