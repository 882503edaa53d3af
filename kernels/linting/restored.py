"""Restored arrays: notes on what is restored before each launch of a declared kernel that counts."""

from __future__ import annotations

from collections.abc import Iterator

from ..libraries.document import KernelDocument
from ..libraries.fault import KeyPath
from ..libraries.restoring import restored_arrays
from ..operations.operation import Operation
from .report import Remark


def restoring_notes(document: KernelDocument, work: Operation, path: KeyPath) -> Iterator[Remark]:
    """Name the arrays that are restored before a launch, and say that a program restores its own."""
    if names := restored_arrays(document, work):
        yield Remark(path, f"restored before every launch that counts, if the first launch changed it: "
                           f"{', '.join(names)} (restore = false opts out)")
        if document.version is not None:
            yield Remark((*path, "version"), f"times of version {document.version} from before seqtune restored "
                                             f"{', '.join(names)} still count; raise the version to leave them out")
    if document.command is not None:
        yield Remark((*path, "command"), "a program must itself restore what it changes, before every run that it "
                                         "times; values of outputs do not reach it")
