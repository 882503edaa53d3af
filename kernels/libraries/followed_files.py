"""FollowedFiles: the files of a library's folder that code or a command reads, as far as its text tells.

Placeholders in words are expanded over the values of parameters, `#include` lines of sources like C and imports of
Python files are followed. Nothing is executed. What cannot be followed is named for `seqtune kernels`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from pathlib import Path, PurePath

from seqtune.errors import ExpressionError, FormatError, shown

from ..expression import Expression
from ..launches.command_declaration import OUTPUT, filled, names_in
from .digests import C_ENDINGS, LARGEST_PARSED, c_tokens
from .document import KernelDocument
from .files import exists_inside
from .python_imports import imports_of, module_file

MOST_FILES = 1000  # that one kernel's command reads
MOST_WORDS = 1000  # forms of one word with placeholders
_C_COMPILER = re.compile(r"(?:[\w.]+-)*(?:cc|c\+\+|gcc|g\+\+|clang|clang\+\+|nvcc|hipcc|tcc|icc|icpc|icx|icpx|c99|c17|"
                         r"c89|c11)(?:-[\d.]+)?")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_BUILD_FILES = frozenset(["GNUmakefile", "makefile", "Makefile", "CMakeLists.txt", "SConstruct", "SConscript",
                          "Cargo.toml", "go.mod", "meson.build", "build.ninja"])
_SCRIPTS = frozenset([".sh", ".bash", ".pl", ".rb", ".lua", ".jl", ".js", ".r", ".tcl"])
_SOURCES = C_ENDINGS | _SCRIPTS | {".py", ".mk", ".cmake", ".s", ".f", ".f90", ".rs", ".go", ".zig", ".d"}
_FOLDERS = ("-iquote", "-isystem", "-idirafter", "-I")  # of headers, as options of compilers
_READING = ("include", "import", "include_next", "embed")  # directives
_BINARY = re.compile(r'\.incbin\s+\\?"([^"\\]+)')  # in assembler

Remark = tuple[tuple[str | int, ...], str]  # path in the kernel's or operation's part of the document, message


class FollowedFiles:
    """Files by their paths in the folder, in the order of following; `remarks` on what cannot be followed."""

    def __init__(self, folder: Path, read: Callable[[str], bytes]) -> None:
        """`read` returns the content of a file by its path in the folder. Raises FormatError if it is too large."""
        self.folder, self._read = folder, read
        self.paths: dict[str, None] = {}
        self.remarks: dict[Remark, None] = {}

    def module(self, path: str, key: tuple[str | int, ...], root: str | None = None) -> None:
        """Follow the imports of a Python file; modules are sought in its folder, or else in `root`."""
        own = posixpath.dirname(path)
        self._follow(path, key, tuple(dict.fromkeys((own,) if root is None else (own, root))), ())

    def command(self, document: KernelDocument) -> None:
        """Follow the words of a kernel's command."""
        assert document.command is not None
        for part, words in (("build", document.command.build or []), ("run", document.command.run)):
            self._part(document, part, words)

    def _part(self, document: KernelDocument, part: str, words: Sequence[str]) -> None:
        expanded = [list(self._expanded(document, word, ("command", part, index), index and words[index - 1]))
                    for index, word in enumerate(words)]
        headers = self._header_folders(expanded)
        program = {PurePath(word).name for word in expanded[0]} if words else set[str]()
        python = any(map(_PYTHON.fullmatch, program))
        for index, forms in enumerate(expanded):
            key, before = ("command", part, index), expanded[index - 1] if index else []
            if part == "build" and "-o" in before:
                continue  # what it writes
            for word in forms:
                if python and before == ["-m"]:
                    self._package(word, key)
                elif python and before == ["-c"]:
                    self._code("-c", word.encode(), key, ("",))
                elif index or "/" in word:
                    self._word(word, key, headers)
        self._program(part, program)

    def _program(self, part: str, program: set[str]) -> None:
        """Add all sources in the folder where a build's program reads files without being told, as make does."""
        for name in sorted(program if part == "build" else ()):
            if _C_COMPILER.fullmatch(name):
                continue
            for path in sorted(self.folder.rglob("*")):
                if path.name in _BUILD_FILES or path.suffix.lower() in _SOURCES:
                    relative = path.relative_to(self.folder).as_posix()
                    if self._is_file(relative):
                        self._add(relative)
            self._remark(("command", part), f"which files {name:.60} reads is not known, so the version covers all "
                                            "sources in the library's folder, and none elsewhere")

    def _expanded(self, document: KernelDocument, word: str, key: tuple[str | int, ...], before: str | int
                  ) -> Iterator[str]:
        """The forms of a word for all values of parameters; none of a word that names what is built."""
        names = names_in(word)
        if "{" + OUTPUT + "}" in word:
            return
        if not names:
            yield word
            return
        derived = {name: Expression(text) for name, text in document.derived.items()}
        read = _closure(set(names), derived)
        own = [name for name in read if name in document.parameters]
        count = 1
        for name in own:
            count *= len(document.parameters[name].values)
        if count > MOST_WORDS or not read <= document.parameters.keys() | derived.keys():
            if not word.startswith("-") and self._matches(word):
                why = f"it has {count} forms" if count > MOST_WORDS else "it depends on more than the parameters"
                self._remark(key, f"the version does not cover the files that {word!r:.60} stands for, since {why}")
            return
        for values in product(*(document.parameters[name].values for name in own)):
            known: dict[str, object] = dict(zip(own, values, strict=True))
            try:
                for name, expression in derived.items():
                    if name in read:
                        known[name] = expression(known)
                yield from filled([word], known)
            except (ExpressionError, FormatError):  # a form that no configuration has
                continue

    def _matches(self, word: str) -> bool:
        """Whether a file of the folder may be one that a word with placeholders names."""
        pattern = re.sub(r"\{\w+\}", "*", re.sub(r"[\[\]?*]", "?", word))
        if not pattern.strip("*") or pattern.startswith("/") or ".." in pattern:
            return False
        return any(True for _ in islice(self.folder.glob(pattern), 1))

    @staticmethod
    def _header_folders(expanded: Sequence[Sequence[str]]) -> tuple[str, ...]:
        folders = []
        for before, forms in zip([[""], *expanded], expanded, strict=False):
            for word in forms:
                option = next((option for option in _FOLDERS if word.startswith(option)), "")
                if set(before) & set(_FOLDERS):
                    folders.append(word)
                elif option and word != option:
                    folders.append(word.removeprefix(option))
        return tuple(dict.fromkeys(posixpath.normpath(folder) for folder in folders if not folder.startswith("/")))

    def _word(self, word: str, key: tuple[str | int, ...], headers: tuple[str, ...]) -> None:
        """Follow the file that a word of a command names, alone, after `=` or after `@`."""
        name = word.rpartition("=")[2] if word.startswith("-") else word.removeprefix("@")
        if not name or name.startswith(("/", "-")) or not self._is_file(name):
            return
        path = posixpath.normpath(name)
        if word.startswith("@"):
            self._add(path)
            self._remark(key, f"the words in {path:.60} are not followed")
        else:
            self._follow(path, key, (posixpath.dirname(path),), headers)

    def _package(self, name: str, key: tuple[str | int, ...]) -> None:
        """Follow the module or package of `python -m`."""
        words = name.split(".")
        for last in range(1, len(words) + 1):
            place = "/".join(words[:last])
            for path in dict.fromkeys((module_file(self.folder, place), f"{place}/__main__.py")):
                if path is not None and self._is_file(path):
                    self._follow(path, key, ("",), ())

    def _follow(self, first: str, key: tuple[str | int, ...], roots: tuple[str, ...], headers: tuple[str, ...]) -> None:
        """Add a file with those that it includes or imports, and theirs."""
        waiting = [first]
        while waiting:
            path = waiting.pop()
            if path in self.paths and path != first:
                continue
            self._add(path)
            ending, content = PurePath(path).suffix.lower(), self._read(path)
            if ending in C_ENDINGS:
                waiting += self._included(path, content, key, headers)
            elif ending == ".py" or (content[:2] == b"#!" and b"python" in content[:100].partition(b"\n")[0]):
                waiting += self._code(path, content, key, roots)
            elif ending in _SCRIPTS or content[:2] == b"#!":
                self._remark(key, f"the files that {path:.60} reads are not followed: the version does not cover them")

    def _included(self, path: str, content: bytes, key: tuple[str | int, ...], headers: tuple[str, ...]) -> list[str]:
        """The files in the folder that a source like C includes."""
        if len(content) > LARGEST_PARSED:
            self._remark(key, f"{path:.60} is too large to follow what it includes")
            return []
        tokens = [token for token in c_tokens(content.decode("utf-8", "replace")) if token != " "]
        found: list[str] = []
        for before, sign, word, name in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
            if before != "\n" or sign != "#" or word not in _READING:
                continue
            if name[0] not in "\"<":
                self._remark(key, f"{path:.60} includes what the macro {name:.40} names, which is not followed")
                continue
            places = (posixpath.dirname(path), *headers) if name[0] == '"' else headers
            paths = [file for place in dict.fromkeys(places)
                     if self._is_file(file := posixpath.normpath(posixpath.join(place, name[1:-1])))]
            found += paths
            if not paths and name[0] == '"':
                self._remark(key, f"{path:.60} includes {name:.60}, which is not in the library's folder, so the "
                                  "version does not cover it")
        found += [file for token in tokens if token[:1] == '"' for name in _BINARY.findall(token)
                  if self._is_file(file := posixpath.normpath(name))]
        return found

    def _code(self, path: str, content: bytes, key: tuple[str | int, ...], roots: tuple[str, ...]) -> list[str]:
        """The files in the folder that Python code imports; those of a text without a file are followed at once."""
        try:
            imports = imports_of(content.decode("utf-8-sig"), path, self.folder, roots)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._remark(key, f"{path:.60} is no Python that can be read here, so its imports are not followed")
            return []
        for call in imports.calls:
            self._remark(key, f"{path:.60} calls {call}, which may import files that the version does not cover")
        if path == "-c":
            for file in imports.paths:
                self._follow(file, key, roots, ())
        return list(imports.paths)

    def _is_file(self, path: str) -> bool:
        try:
            return exists_inside(self.folder, path) and (self.folder / path).is_file()
        except FormatError:  # outside the folder
            return False

    def _add(self, path: str) -> None:
        if len(self.paths) >= MOST_FILES and path not in self.paths:
            raise FormatError(f"it reads more than {MOST_FILES} files of the library's folder, the last one "
                              f"{shown(path)}")
        self.paths[path] = None

    def _remark(self, key: tuple[str | int, ...], message: str) -> None:
        self.remarks[key, message] = None


def _closure(names: set[str], derived: Mapping[str, Expression]) -> set[str]:
    """The names, and those that derived quantities among them read."""
    names = set(names)
    for name, expression in reversed(list(derived.items())):
        if name in names:
            names |= set(expression.names)
    return names
