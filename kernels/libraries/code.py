"""LibraryCode: the Python code and commands that a library's document names, and the digests of their files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from seqtune.errors import FormatError

from .declared_operation import contents_of
from .digests import LARGEST_PARSED, file_digest
from .document import KernelDocument, OperationDocument
from .fault import KeyPath, at_path, dotted
from .files import inside, read_regular
from .followed_files import FollowedFiles, Unfollowed
from .foreign_code import check_reference, reference_in

LARGEST_PROGRAM = 100_000_000  # bytes of a file whose content is part of a version
LARGEST_PROGRAMS = 1_000_000_000  # bytes of all such files, read in two seconds


class _File(NamedTuple):
    """A file that was read."""

    digest: str
    former: str  # the digest of its bytes, as 0.2.0 made it
    head: bytes  # its content, or more than LARGEST_PARSED bytes of a larger one, which is not followed


class LibraryCode:
    """The code that a document names, gathered and checked while its operations and kernels are made."""

    def __init__(self, library: str, folder: Path | None, own_modules: bool,
                 locate: Callable[[KeyPath], str]) -> None:
        self.library, self.folder, self.own_modules, self.locate = library, folder, own_modules, locate
        self.entries: dict[str, str] = {}  # operation or full name of a kernel -> its entry that runs code
        # operation or full name of a kernel -> path in the folder -> digest
        self.files: dict[str, dict[str, str]] = {}
        self.former: dict[str, dict[str, str]] = {}  # the same as 0.2.0 made them, of the files that it knew of
        self.unfollowed: dict[str, tuple[Unfollowed, ...]] = {}  # what may read files that `files` lacks
        self._read: dict[Path, _File] = {}
        self._size = 0  # bytes of all files that were read

    def of_operation(self, name: str, document: OperationDocument) -> str | None:
        """The importable reference of an operation. Raises DocumentFault."""
        reference = None
        if document.reference is not None:
            with at_path("reference"):
                reference = self._importable(name, document.reference, "reference")
            self._note(name, "operations", name, "reference")
        for output, file in (document.expected or {}).items():
            with at_path("expected", output):
                self._digest(name, inside(self.folder, file))
        arrays: list[tuple[str, str, int | float | str | None]] = [
            ("inputs", array, declared.values) for array, declared in document.inputs.items()]
        arrays += [("outputs", array, declared.values) for array, declared in document.outputs.items()]
        for part, array, values in arrays:
            with at_path(part, array, "values"):
                if isinstance(path := contents_of(values, self.folder), Path):
                    self._digest(name, path)
        return reference

    def of_kernel(self, full: str, family: str, document: KernelDocument) -> str | None:
        """The importable implementation of a kernel. Raises DocumentFault."""
        implementation = None
        if document.implementation is not None:
            with at_path("implementation"):
                if document.sections():
                    raise FormatError("give an implementation or sections that say how the kernel runs, not both")
                if document.backends is None:
                    raise FormatError("an implementation needs `backends`, the backends that it runs on")
                implementation = self._importable(full, document.implementation, "implementation")
            self._note(full, "kernels", family, "implementation")
        if document.command is not None:
            self._note(full, "kernels", family, "command", "run")
            for part in ("build", "run"):
                for index, word in enumerate(getattr(document.command, part) or ()):
                    with at_path("command", part, index):
                        self._word(full, word, program=index == 0)
            if self.folder is not None:
                followed = self._followed(self.folder)
                with at_path("command"):
                    followed.command(document)
                self._note_files(full, followed)
        return implementation

    def _note(self, owner: str, *path: str) -> None:
        """Note the entry, with its location, that makes an operation or kernel run code."""
        entry, location = dotted(path), self.locate(path)
        self.entries[owner] = entry if location == entry else f"{location}: {entry}"

    def _importable(self, owner: str, text: str, key: str) -> str:
        if not self.own_modules or self.folder is None:
            return check_reference(text)
        reference, file = reference_in(self.library, self.folder, text)
        self._digest(owner, file)
        followed = self._followed(self.folder.resolve())
        followed.module(file.relative_to(followed.folder).as_posix(), (key,))
        self._note_files(owner, followed)
        return reference

    def _followed(self, folder: Path) -> FollowedFiles:
        return FollowedFiles(folder, lambda path: self._file(inside(folder, path)).head)

    def _note_files(self, owner: str, followed: FollowedFiles) -> None:
        """Note the digests of followed files, and what could not be followed."""
        for path in followed.paths:
            self.files.setdefault(owner, {})[path] = self._file(inside(followed.folder, path)).digest
        self.unfollowed[owner] = (*self.unfollowed.get(owner, ()), *followed.remarks)

    def _word(self, owner: str, word: str, program: bool) -> None:
        """Note the file that a word of a command names; a relative program must exist inside the folder."""
        if "\0" in word:
            raise FormatError("a word of a command has a NUL character")
        if "{" in word or self.folder is None or word.startswith(("/", "-")):
            return
        if "/" in word if program else (self.folder / word).is_file():  # a program without / is looked up in PATH
            self._digest(owner, inside(self.folder, word))

    def _digest(self, owner: str, path: Path) -> None:
        """Note the digests of a file in the folder. Raises FormatError."""
        assert self.folder is not None
        name, file = path.relative_to(self.folder.resolve()).as_posix(), self._file(path)
        self.files.setdefault(owner, {})[name], self.former.setdefault(owner, {})[name] = file.digest, file.former

    def _file(self, path: Path) -> _File:
        """The digests and the beginning of a file; every file is read once. Raises FormatError."""
        if path not in self._read:
            content = read_regular(path, min(LARGEST_PROGRAM, LARGEST_PROGRAMS - self._size))
            self._size += len(content)
            self._read[path] = _File(file_digest(path.name, content), hashlib.sha256(content).hexdigest(),
                                     content[:LARGEST_PARSED + 1])
        return self._read[path]
