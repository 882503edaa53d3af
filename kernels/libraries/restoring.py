"""Restoring: the arrays of a declared kernel that are restored before each launch that counts.

They are restored where the check's launch changed them. Their names are part of the kernel's version, because times of
launches that began with the results of earlier ones are of other work. A program restores its own arrays.
"""

from __future__ import annotations

from ..launches.call_declaration import DeclaredArgument, rewritten_inputs
from ..operations.operation import Operation
from .declared_operation import DeclaredOperation
from .document import KernelDocument, SourceSection


def restored_arrays(document: KernelDocument, operation: Operation) -> tuple[str, ...]:
    """The names of the arrays that may be restored, in the order of the operation. Raises ExpressionError, FormatError.

    A kernel that only runs a program has none.
    """
    if not isinstance(operation, DeclaredOperation) or not (document.implementation or _sources(document)):
        return ()
    work = operation.document
    swapped = {name for section in _sources(document) for name in rewritten_inputs(
        map(DeclaredArgument.of, section.arguments), work.inputs, work.outputs)}
    inputs = (name for name, declared in work.inputs.items() if declared.restore or name in swapped)
    return (*inputs, *(name for name, declared in work.outputs.items()
                       if declared.values is not None and declared.restore))


def _sources(document: KernelDocument) -> list[SourceSection]:
    return [section for section in document.sections().values() if isinstance(section, SourceSection)]
