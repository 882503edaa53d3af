"""FollowedFiles: the files of a library's folder that code or a command reads, as far as its text tells.

Placeholders in words are expanded over the values of parameters, `#include` lines of sources like C and imports of
Python files are followed. Nothing is executed. What cannot be followed is named for `seqtune kernels`.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice, product
from pathlib import Path, PurePath

from seqtune.errors import ExpressionError, FormatError, shown

from ..expression import Expression
from ..launches.command_declaration import OUTPUT, filled, names_in
from .digests import C_ENDINGS, LARGEST_PARSED, c_tokens
from .document import KernelDocument
from .fault import KeyPath
from .files import is_file_inside
from .python_imports import imports_of, module_file

MOST_FILES = 1000  # that one kernel's command reads
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

Unfollowed = tuple[KeyPath, str]  # a path in the kernel's or operation's part of the document, and a message


class FollowedFiles:
    """Files by their paths in the folder, in the order of following; `remarks` on what cannot be followed."""

    def __init__(self, folder: Path, read: Callable[[str], bytes]) -> None:
        """`read` returns the content of a file by its path in the folder, or more than LARGEST_PARSED bytes of it.

        It raises FormatError if the file is too large to be read at all.
        """
        self.folder, self._read = folder, read
        self.paths: dict[str, None] = {}
        self.remarks: dict[Unfollowed, None] = {}

    def module(self, path: str, key: KeyPath) -> None:
        """Follow the imports of a Python file; modules are sought beside it, or else in the library's folder."""
        self._follow(path, key, tuple(dict.fromkeys((posixpath.dirname(path), ""))), ())

    def command(self, document: KernelDocument) -> None:
        """Follow the words of a kernel's command."""
        assert document.command is not None
        for part, words in (("build", document.command.build or []), ("run", document.command.run)):
            self._part(document, part, words)

    def _part(self, document: KernelDocument, part: str, words: Sequence[str]) -> None:
        """Follow the words of one part of a command, `build` or `run`."""
        expanded = [self._forms(document, word, ("command", part, index)) for index, word in enumerate(words)]
        headers = _header_folders(expanded)
        programs = {PurePath(word).name for word in expanded[0]} if words else set[str]()
        python = any(map(_PYTHON.fullmatch, programs))
        for index, forms in enumerate(expanded):
            key, before = ("command", part, index), expanded[index - 1] if index else []
            if part == "build" and "-o" in before:
                continue  # what it writes
            for word in forms:
                if python and before == ["-m"]:
                    self._package(word, key)
                elif python and before == ["-c"]:
                    for path in self._imported("-c", word.encode(), key, ("",)):
                        self._follow(path, key, ("",), ())
                elif index or "/" in word:
                    self._word(word, key, headers)
        if part == "build":
            self._unnamed_files(programs)

    def _unnamed_files(self, programs: Collection[str]) -> None:
        """Add all sources in the folder where a build's program reads files without being told, as make does."""
        for name in sorted(name for name in programs if not _C_COMPILER.fullmatch(name)):
            for path in sorted(self.folder.rglob("*")):
                relative = path.relative_to(self.folder).as_posix()
                if (path.name in _BUILD_FILES or path.suffix.lower() in _SOURCES) and self._is_file(relative):
                    self._add(relative)
            self._remark(("command", "build"), f"which files {name:.60} reads is not known, so the version covers all "
                                               "sources in the library's folder, and none elsewhere")

    def _forms(self, document: KernelDocument, word: str, key: KeyPath) -> list[str]:
        """The forms of a word; none, with a remark, where they are not known and may name files."""
        forms = word_forms(document, word)
        if isinstance(forms, list):
            return forms
        if not word.startswith("-") and self._matches(word):
            self._remark(key, f"the version does not cover the files that {word!r:.60} stands for, since {forms}")
        return []

    def _matches(self, word: str) -> bool:
        """Whether a file of the folder may be one that a word with placeholders names."""
        pattern = re.sub(r"\{\w+\}", "*", re.sub(r"[\[\]?*]", "?", word))
        if not pattern.strip("*") or pattern.startswith("/") or ".." in pattern:
            return False
        return any(True for _ in islice(self.folder.glob(pattern), 1))

    def _word(self, word: str, key: KeyPath, headers: tuple[str, ...]) -> None:
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

    def _package(self, name: str, key: KeyPath) -> None:
        """Follow the module or package of `python -m`."""
        words = name.split(".")
        for last in range(1, len(words) + 1):
            part = "/".join(words[:last])
            for path in dict.fromkeys((module_file(self.folder, part), f"{part}/__main__.py")):
                if path is not None and self._is_file(path):
                    self._follow(path, key, ("",), ())

    def _follow(self, first: str, key: KeyPath, roots: tuple[str, ...], headers: tuple[str, ...]) -> None:
        """Add a file with those that it includes or imports, and theirs."""
        waiting = [first]
        while waiting:
            path = waiting.pop()
            if path in self.paths and path != first:
                continue
            self._add(path)
            ending, content = PurePath(path).suffix.lower(), self._read(path)
            script = content[:2] == b"#!"
            if ending in C_ENDINGS:
                waiting += self._included(path, content, key, headers)
            elif ending == ".py" or (script and b"python" in content[:100].partition(b"\n")[0]):
                waiting += self._imported(path, content, key, roots)
            elif ending in _SCRIPTS or script:
                self._remark(key, f"the files that {path:.60} reads are not followed: the version does not cover them")

    def _included(self, path: str, content: bytes, key: KeyPath, headers: tuple[str, ...]) -> list[str]:
        """The files in the folder that a source like C includes."""
        if len(content) > LARGEST_PARSED:
            self._remark(key, f"{path:.60} is too large to follow what it includes")
            return []
        tokens = [token for token in c_tokens(content.decode("utf-8", "replace")) if token != " "]
        paths: list[str] = []
        for before, sign, word, name in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
            if before == "\n" and sign == "#" and word in _READING:
                paths += self._directive(path, name, key, headers)
        binaries = (posixpath.normpath(name) for token in tokens if token[:1] == '"' for name in _BINARY.findall(token))
        return [*paths, *filter(self._is_file, binaries)]

    def _directive(self, path: str, name: str, key: KeyPath, headers: tuple[str, ...]) -> list[str]:
        """The files in the folder that `#include` of a name, in its quotes or brackets, may read."""
        if name[0] not in "\"<":
            self._remark(key, f"{path:.60} includes what the macro {name:.40} names, which is not followed")
            return []
        folders = (posixpath.dirname(path), *headers) if name[0] == '"' else headers
        candidates = dict.fromkeys(posixpath.normpath(posixpath.join(folder, name[1:-1])) for folder in folders)
        paths = list(filter(self._is_file, candidates))
        if not paths and name[0] == '"':
            self._remark(key, f"{path:.60} includes {name:.60}, which is not in the library's folder, so the version "
                              "does not cover it")
        return paths

    def _imported(self, path: str, content: bytes, key: KeyPath, roots: tuple[str, ...]) -> list[str]:
        """The files in the folder that Python code imports."""
        if len(content) > LARGEST_PARSED:
            self._remark(key, f"{path:.60} is too large to follow what it imports")
            return []
        try:
            imports = imports_of(content.decode("utf-8-sig"), path, self.folder, roots)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._remark(key, f"{path:.60} is no Python that can be read here, so its imports are not followed")
            return []
        for name in imports.dynamic:
            self._remark(key, f"{path:.60} uses {name}, which may import files that the version does not cover")
        return list(imports.paths)

    def _is_file(self, path: str) -> bool:
        return is_file_inside(self.folder, path)

    def _add(self, path: str) -> None:
        if len(self.paths) >= MOST_FILES and path not in self.paths:
            raise FormatError(f"it may read more than {MOST_FILES} files of the library's folder, the last one "
                              f"{shown(path)}; move those that it does not read out of the folder")
        self.paths[path] = None

    def _remark(self, key: KeyPath, message: str) -> None:
        self.remarks[key, message] = None


def _header_folders(expanded: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The folders in the library's own where a compiler seeks headers, by the forms of a command's words."""
    folders = []
    for before, forms in zip([[""], *expanded], expanded, strict=False):
        for word in forms:
            option = next((option for option in _FOLDERS if word.startswith(option)), "")
            if set(before) & set(_FOLDERS):
                folders.append(word)
            elif option and word != option:
                folders.append(word.removeprefix(option))
    return tuple(dict.fromkeys(posixpath.normpath(folder) for folder in folders if not folder.startswith("/")))


MOST_FORMS = 1000  # of one word


def word_forms(document: KernelDocument, word: str) -> list[str] | str:
    """The forms of a word, or the reason why they are not known. A word that names what is built has none."""
    if "{" + OUTPUT + "}" in word:
        return []
    names = names_in(word)
    if not names:
        return [word]
    derived = {name: Expression(text) for name, text in document.derived.items()}
    read = _names_read(set(names), derived)
    values = {name: document.parameters[name].values for name in read if name in document.parameters}
    count = math.prod(map(len, values.values()))
    if count > MOST_FORMS:
        return f"it has {count} forms"
    if not read <= document.parameters.keys() | derived.keys():
        return "it depends on more than the parameters"
    used = {name: expression for name, expression in derived.items() if name in read}
    forms = (_form(word, dict(zip(values, chosen, strict=True)), used) for chosen in product(*values.values()))
    return [form for form in forms if form is not None]


def _form(word: str, known: dict[str, object], derived: Mapping[str, Expression]) -> str | None:
    """The word with these values of parameters; None for values that no configuration has, or if nothing is left."""
    try:
        for name, expression in derived.items():
            known[name] = expression(known)
        return next(iter(filled([word], known)), None)
    except (ExpressionError, FormatError):
        return None


def _names_read(names: set[str], derived: Mapping[str, Expression]) -> set[str]:
    """The names, and those that derived quantities among them read."""
    for name, expression in reversed(list(derived.items())):
        if name in names:
            names = names | set(expression.names)
    return names
