"""Declared libraries: makes a Library from its document and the folder of its files, here and in measuring workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from seqtune.errors import FormatError, ProblemError

from ..calls.includes import with_includes
from ..kernel import Kernel
from ..operations.operation import Operation
from ..operations.table import operation
from .declared_kernel import declared_kernel
from .declared_operation import DeclaredOperation, contents_of
from .document import KernelDocument, LibraryDocument, OperationDocument
from .fault import DocumentFault, KeyPath, dotted, first_fault, found_at
from .foreign_code import check_reference, reference_in
from .library import Library
from .library_files import LARGEST_SOURCE, exists_inside, inside, read_regular, source_text

LARGEST_SOURCES = 10_000_000  # characters of all sources of a library, which every worker receives
LARGEST_PROGRAM = 100_000_000  # bytes of a file whose content is part of a version
LARGEST_PROGRAMS = 1_000_000_000  # bytes of all such files, read in two seconds


def parse_document(content: object) -> LibraryDocument:
    """The document in a table of keys and values. Raises DocumentFault."""
    try:
        return LibraryDocument.model_validate(content)
    except ValidationError as error:
        raise first_fault(error) from None


def declared_library(document: LibraryDocument, folder: Path | None = None, *, origin: str | None = None,
                     own_modules: bool = False, allowed: bool = True,
                     place: Callable[[KeyPath], str] | None = None) -> Library:
    """Make the library of a document; its files lie in `folder`. Raises DocumentFault with the path of the mistake.

    With `own_modules`, Python code is named by modules in the folder, otherwise by importable ones. `allowed` says
    whether that code and commands may run. `place` tells where in its file a value is.
    """
    document = _with_sources(document, folder)
    name = document.name
    code = _Code(name, folder, own_modules, place or dotted)
    operations: dict[str, Operation] = {}
    for work, declared in document.operations.items():
        with found_at("operations", work):
            operations[work] = DeclaredOperation(work, declared, code.of_operation(work, declared), folder)
    kernels: dict[str, Kernel] = {}
    for family, description in document.kernels.items():
        with found_at("kernels", family):
            solved = _solved(document, description, operations)
            implementation = code.of_kernel(f"{name}.{family}", family, description)
            files = {**code.files.get(solved.name, {}), **code.files.get(f"{name}.{family}", {})}
            kernels[f"{name}.{family}"] = declared_kernel(name, family, description, solved, files, implementation,
                                                            folder)
    if document.checkpoint is not None:
        with found_at("checkpoint"):
            inside(folder, document.checkpoint)
    checkpoint = None if document.checkpoint is None or folder is None else str(folder / document.checkpoint)
    return Library(name, kernels, operations, document.meaning, checkpoint=checkpoint, folder=folder,
                   document=document, allowed=allowed, origin=origin or f"the library {name}", code=code.places,
                   own_modules=own_modules, place=place or dotted)


def _solved(document: LibraryDocument, kernel: KernelDocument, operations: dict[str, Operation]) -> Operation:
    """The operation that a kernel solves: named, or the only one that the library declares. Raises DocumentFault."""
    if kernel.operation is None:
        if len(operations) != 1:
            raise DocumentFault((), "it lacks 'operation': the library declares "
                                    f"{', '.join(operations) or 'no operation of its own'}")
        return next(iter(operations.values()))
    if kernel.operation in operations:
        return operations[kernel.operation]
    try:
        return operation(kernel.operation)
    except ProblemError:
        raise DocumentFault(("operation",), f"no operation {kernel.operation!r:.60}; declare it in "
                                            "[operations.NAME]") from None


def _with_sources(document: LibraryDocument, folder: Path | None) -> LibraryDocument:
    """The document with the text of every source file in it, so that all processes see the same text."""
    kernels, size = {}, 0
    for name, kernel in document.kernels.items():
        sections = {}
        for backend, section in (("opencl", kernel.opencl), ("cuda", kernel.cuda)):
            if section is None:
                continue
            path = ("kernels", name, backend)
            if section.text is None and section.source is None:
                raise DocumentFault(path, "it lacks 'source' (a file) or 'text'")
            with found_at(*path, "source" if section.text is None else "text"):
                text = with_includes(section.source or f"{name}.{backend}", partial(_text_if_there, folder),
                                     LARGEST_SOURCE, section.text)
                size += len(text)
                if size > LARGEST_SOURCES:
                    raise FormatError(f"the sources of all kernels have more than {LARGEST_SOURCES} characters")
            sections[backend] = section.model_copy(update={"text": text})
        kernels[name] = kernel.model_copy(update=sections) if sections else kernel
    return document.model_copy(update={"kernels": kernels})


def _text_if_there(folder: Path | None, name: str) -> str | None:
    """The text of a source file in the folder; None if there is no such file. Raises FormatError."""
    return source_text(folder, name) if folder is not None and exists_inside(folder, name) else None


class _Code:
    """The Python code and the commands of a library: checked, with their places and the digests of their files."""

    def __init__(self, library: str, folder: Path | None, own_modules: bool,
                 place: Callable[[KeyPath], str]) -> None:
        self.library, self.folder, self.own_modules, self.place = library, folder, own_modules, place
        self.places: dict[str, str] = {}  # operation or full name of a kernel -> place of what runs code
        self.files: dict[str, dict[str, str]] = {}  # the same -> path in the folder -> digest
        self._digests: dict[Path, str] = {}
        self._size = 0  # bytes of all files with a digest

    def of_operation(self, name: str, document: OperationDocument) -> str | None:
        """The importable reference of an operation. Raises DocumentFault."""
        reference = None
        if document.reference is not None:
            with found_at("reference"):
                reference = self._importable(name, document.reference)
            self._note(name, "operations", name, "reference")
        for output, file in (document.expected or {}).items():
            with found_at("expected", output):
                self._digest(name, inside(self.folder, file))
        arrays: list[tuple[str, str, int | float | str | None]] = [
            ("inputs", array, declared.values) for array, declared in document.inputs.items()]
        arrays += [("outputs", array, declared.values) for array, declared in document.outputs.items()]
        for part, array, values in arrays:
            if isinstance(path := contents_of(values, self.folder), Path):
                with found_at(part, array, "values"):
                    self._digest(name, path)
        return reference

    def of_kernel(self, full: str, family: str, document: KernelDocument) -> str | None:
        """The importable implementation of a kernel. Raises DocumentFault."""
        implementation = None
        if document.implementation is not None:
            with found_at("implementation"):
                if document.sections():
                    raise FormatError("give an implementation or sections that say how the kernel runs, not both")
                if document.backends is None:
                    raise FormatError("an implementation needs `backends`, the backends that it runs on")
                implementation = self._importable(full, document.implementation)
            self._note(full, "kernels", family, "implementation")
        if document.command is not None:
            self._note(full, "kernels", family, "command", "run")
            for part in ("build", "run"):
                for index, word in enumerate(getattr(document.command, part) or ()):
                    with found_at("command", part, index):
                        self._word(full, word, program=index == 0)
        return implementation

    def _note(self, owner: str, *path: str) -> None:
        """Note that an entry runs code."""
        entry, place = dotted(path), self.place(path)
        self.places[owner] = entry if place == entry else f"{place}: {entry}"

    def _importable(self, owner: str, text: str) -> str:
        if not self.own_modules or self.folder is None:
            return check_reference(text)
        reference, file = reference_in(self.library, self.folder, text)
        self._digest(owner, file)
        return reference

    def _word(self, owner: str, word: str, program: bool) -> None:
        """Note the file that a word of a command names; a relative program must exist inside the folder."""
        if "\0" in word:
            raise FormatError("a word of a command has a NUL character")
        if "{" in word or self.folder is None:
            return
        if word.startswith(("/", "-")):
            return
        if "/" in word if program else (self.folder / word).is_file():  # a program without / is looked up in PATH
            self._digest(owner, inside(self.folder, word))

    def _digest(self, owner: str, file: Path) -> None:
        """Note the digest of a file in the folder. Raises FormatError."""
        assert self.folder is not None
        if file not in self._digests:
            content = read_regular(file, min(LARGEST_PROGRAM, LARGEST_PROGRAMS - self._size))
            self._digests[file] = hashlib.sha256(content).hexdigest()
            self._size += len(content)
        path = file.relative_to(self.folder.resolve()).as_posix()
        self.files.setdefault(owner, {})[path] = self._digests[file]
