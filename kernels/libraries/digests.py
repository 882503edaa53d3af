"""Digests of a library's files, which change with what a compiler reads: not with comments or insignificant space.

Sources like C are digested by their tokens, Python's by their syntax tree without docstrings, other files by their
bytes. Equal digests mean equal programs, except for numbers of lines.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

DIGITS = 16  # hexadecimal digits of a digest: 64 bits
LARGEST_PARSED = 300_000  # bytes of a source that is read by its tokens (0.3 s); a larger one counts by its bytes
MOST_RAW = 200  # raw texts of C++ in a source that is read by its tokens: each may be searched to the file's end
C_ENDINGS = frozenset([".c", ".cl", ".clh", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".cc", ".cpp", ".cxx", ".inc",
                       ".inl", ".ipp", ".tpp", ".hip", ".m", ".mm", ".ocl"])
_MARK = re.compile(r'^#line (\d+) "([^"\n]*)"$', re.MULTILINE)  # as `launches.includes` writes it
_RAW = r'(?:u8|[uUL])?R"(?P<raw>[^()\\\s"]{0,16})\(.*?\)(?P=raw)"'
_SPLICE = re.compile(rf"{_RAW}|\\[ \t]*\r?\n", re.DOTALL)
_TOKEN = re.compile(
    rf"(?P<header>(?<=include)[ \t]*<[^>\n]*>)|"
    rf"(?P<space>(?:[ \t\v\f\r]|//[^\n]*|/\*.*?(?:\*/|\Z))+)|(?P<line>\n)|{_RAW}|"
    r"\"(?:\\.|[^\"\\\n])*\"|(?:\d|\.\d)(?:[eEpP][+-]|'?[\w.])*|'(?:\\.|[^'\\\n])*'|[^\W\d][\w$]*|"
    r"%:%:|<<<|>>>|<<=|>>=|<=>|->\*|\.\.\.|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||##|::|\.\*|[-+*/%&|^]=|.", re.DOTALL)
_STRINGS = re.compile(r"^[ \t]*#[ \t]*define\b[^\n]*[^#\n]#[ \t]*[A-Za-z_]", re.MULTILINE)  # makes text of code
_BARE = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def file_digest(name: str, content: bytes) -> str:
    """The digest of a file's content, read as the end of its name says."""
    ending = PurePath(name).suffix.lower()
    if len(content) <= LARGEST_PARSED and (ending in C_ENDINGS or ending == ".py"):
        try:
            text = content.decode("utf-8-sig")
            return digest_of(_python(text) if ending == ".py" else c_tokens(text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            pass  # as a file of another kind
    return digest_of([content])


def source_digests(name: str, text: str) -> dict[str, str]:
    """The digests by name of a source like C and of the files whose texts stand in it (`launches.includes`)."""
    parts: dict[str, list[str]] = {name: []}
    current, begin = name, 0
    for mark in _MARK.finditer(text):
        parts[current].append(text[begin:mark.start()])
        begin = mark.end()
        if mark[1] == "1":
            parts[current].append(f'\n#include "{mark[2]}"\n')
        current = mark[2]
        parts.setdefault(current, [])
    parts[current].append(text[begin:])
    return {file: digest_of(c_tokens("".join(pieces))) for file, pieces in parts.items()}


def c_tokens(text: str) -> Iterator[str]:
    """The tokens of a source like C; a directive of the preprocessor ends with its line.

    White space counts where a macro begins (`f (x)` is another macro than `f(x)`), and everywhere in a source whose
    macros make text of code. A very large source, or one of very many raw texts, is one token.
    """
    if len(text) > LARGEST_PARSED or text.count('R"') > MOST_RAW:
        yield text
        return
    text = _SPLICE.sub(lambda match: match[0] if match["raw"] is not None else "", text)
    spaced = _STRINGS.search(text) is not None
    directive: list[str] | None = None  # the tokens of the directive that the line is
    fresh, space = True, False  # whether the line has no token yet, and whether space came before
    for match in _TOKEN.finditer(text):
        if match["line"] is not None:
            if directive is not None:
                yield "\n"
            directive, fresh, space = None, True, True
            continue
        if match["space"] is not None:
            space = True
            continue
        token = "".join(match[0].split()) if match["header"] else match[0]
        if fresh and token == "#":
            directive = []
            yield "\n"
        defined = directive is not None and len(directive) == 3 and directive[1] == "define"
        if space and (spaced or (defined and token == "(")):
            yield " "
        if directive is not None:
            directive.append(token)
        yield token
        fresh = space = False
    if directive is not None:
        yield "\n"


def _python(text: str) -> Iterator[str]:
    """The nodes of a Python source, without texts that stand alone, such as docstrings; equal in all Pythons."""
    stack: list[object] = [ast.parse(text)]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.AST):
            yield type(item).__name__
            stack.append(_END)
            for name, value in reversed(list(ast.iter_fields(item))):
                if name == "body" and isinstance(item, _BARE):
                    value = [statement for statement in value if not _is_text(statement)]
                if name != "kind" and value is not None and value != []:
                    stack += [value, _Name(name)]
        elif isinstance(item, list):
            stack += [_END, *reversed(item)]
        else:
            yield item if isinstance(item, _Name) else f"{type(item).__name__} {item!r}"


class _Name(str):
    """The name of a field, or the end of a node."""


_END = _Name(")")


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(
        statement.value.value, str)


def digest_of(pieces: Iterable[str | bytes]) -> str:
    """The digest of pieces of text or bytes, in order."""
    digest = hashlib.sha256()
    for piece in pieces:
        content = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece
        digest.update(b"%d " % len(content))
        digest.update(content)
    return digest.hexdigest()[:DIGITS]
