"""Declared libraries: makes a Library from its document and the folder of its files, here and in measuring workers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from seqtune.errors import FormatError, ProblemError

from ..kernel import Kernel
from ..launches.includes import with_includes
from ..operations.operation import Operation
from ..operations.table import operation
from .code import LibraryCode
from .declared_kernel import declared_kernel
from .declared_operation import DeclaredOperation
from .document import KernelDocument, LibraryDocument
from .fault import DocumentFault, KeyPath, at_path, dotted, first_fault
from .files import LARGEST_SOURCE, exists_inside, inside, source_text
from .library import Library

LARGEST_SOURCES = 10_000_000  # characters of all sources of a library, which every worker receives


def parse_document(content: object) -> LibraryDocument:
    """The document in a table of keys and values. Raises DocumentFault."""
    try:
        return LibraryDocument.model_validate(content)
    except ValidationError as error:
        raise first_fault(error) from None


def declared_library(document: LibraryDocument, folder: Path | None = None, *, origin: str | None = None,
                     own_modules: bool = False, allowed: bool = True,
                     locate: Callable[[KeyPath], str] | None = None) -> Library:
    """Make the library of a document; its files lie in `folder`. Raises DocumentFault with the path of the mistake.

    With `own_modules`, Python code is named by modules in the folder, otherwise by importable ones. `allowed` says
    whether that code and commands may run. `locate` gives the location of a value in its file.
    """
    document = _with_sources(document, folder)
    name = document.name
    code = LibraryCode(name, folder, own_modules, locate or dotted)
    operations: dict[str, Operation] = {}
    for work, declared in document.operations.items():
        with at_path("operations", work):
            operations[work] = DeclaredOperation(work, declared, code.of_operation(work, declared), folder)
    kernels: dict[str, Kernel] = {}
    for family, description in document.kernels.items():
        with at_path("kernels", family):
            solved = _solved(document, description, operations)
            implementation = code.of_kernel(f"{name}.{family}", family, description)
            full = f"{name}.{family}"
            files, former = ({**digests.get(solved.name, {}), **digests.get(full, {})}
                             for digests in (code.files, code.former))
            unfollowed = code.unfollowed.get(solved.name) or code.unfollowed.get(full)
            kernels[full] = declared_kernel(name, family, description, solved, files,
                                            None if unfollowed or files.keys() != former.keys() else former,
                                            implementation, folder)
    if document.checkpoint is not None:
        with at_path("checkpoint"):
            inside(folder, document.checkpoint)
    checkpoint = None if document.checkpoint is None or folder is None else str(folder / document.checkpoint)
    return Library(name, kernels, operations, document.meaning, checkpoint=checkpoint, folder=folder,
                   document=document, allowed=allowed, origin=origin or f"the library {name}", code=code.entries,
                   own_modules=own_modules, locate=locate or dotted,
                   unfollowed=code.unfollowed)


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
            with at_path(*path, "source" if section.text is None else "text"):
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
