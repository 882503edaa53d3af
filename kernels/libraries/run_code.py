"""Run code: makes the implementation of a kernel from the run sections of its document."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from pathlib import Path

from ..kernel import Kernel
from ..launches.call_declaration import LAUNCH, LAUNCHES, CallDeclaration, DeclaredArgument, Sections, checked_options
from ..launches.command_declaration import CommandDeclaration, names_in
from ..launches.includes import mark, without_definitions
from ..operations.operation import Operation
from .declared_operation import DeclaredOperation, expression_of
from .document import CommandSection, KernelDocument, SourceSection
from .fault import DocumentFault, at_path

Names = Set[str] | None  # names that expressions may read; None: any


def run_code(kernel: Kernel, document: KernelDocument, operation: Operation, folder: Path | None,
             names: Names) -> object:
    """The implementation that the sections declare; None if there are none. Raises DocumentFault."""
    sections: dict[str, object] = {}
    for backend, section in document.sections().items():
        with at_path(backend):
            if isinstance(section, CommandSection):
                sections[backend] = _command(section, kernel, operation, folder, names)
            else:
                sections[backend] = _call(backend, section, document, kernel, operation, names)
    return Sections(sections) if sections else None


def _call(language: str, section: SourceSection, document: KernelDocument, kernel: Kernel, operation: Operation,
          names: Names) -> CallDeclaration:
    """A call in OpenCL C or CUDA C."""
    declared = isinstance(operation, DeclaredOperation)
    if isinstance(operation, DeclaredOperation) and not operation.has_output:
        raise DocumentFault((), f"the operation {operation.name} declares no outputs, so nothing could be checked")
    assert section.text is not None  # `declared_library` has read it
    _check_texts(language, section)
    source = section.source or f"{kernel.name}.{'cl' if language == 'opencl' else 'cu'}"
    text = without_definitions(section.text, {*document.parameters, *section.defines})
    call = CallDeclaration.of(
        language, mark(1, source) + text, section.entry, section.arguments,
        global_size=section.global_, groups=section.groups, local=section.local, launches=section.launches,
        derived=kernel.derived, defines=section.defines)
    arrays = {*operation.document.inputs, *operation.document.outputs} if isinstance(
        operation, DeclaredOperation) else set()
    inside = None if names is None else names | {LAUNCH, LAUNCHES}
    for index, argument in enumerate(call.arguments):
        buffers = arrays if argument.kind == "buffer" else ()
        if argument.kind != "buffer" or declared:
            _check(argument.expression.names, inside, buffers, "arguments", index)
    for part, expressions in (("groups" if call.counts_groups else "global", call.sizes), ("local", call.local or ())):
        for index, expression in enumerate(expressions):
            _check(expression.names, inside, (), part, index)
    _check(call.launches.names, names, (), "launches")
    for name, expression in call.defines:
        _check(expression.names, inside, (), "defines", name)
    for index, option in enumerate(section.options):  # checked last: an undeclared name is the more helpful message
        with at_path("options", index):
            checked_options(language, [option])
    return replace(call, options=tuple(section.options))


def _check_texts(language: str, section: SourceSection) -> None:
    """Check every text by itself, so that a message names the line of the mistake. Raises DocumentFault at its path."""
    for index, argument in enumerate(section.arguments):
        with at_path("arguments", index):
            DeclaredArgument.of(argument)
    for part, texts in (("global", section.global_), ("groups", section.groups), ("local", section.local)):
        for index, text in enumerate(texts or ()):
            expression_of(text, None, part, index)
    expression_of(section.launches, None, "launches")
    for name, text in section.defines.items():
        expression_of(text, None, "defines", name)


def _command(section: CommandSection, kernel: Kernel, operation: Operation, folder: Path | None,
             names: Names) -> CommandDeclaration:
    """A program."""
    if folder is None:
        raise DocumentFault((), "the library has no folder in which its command could run")
    tolerances = [output.tolerance for output in operation.document.outputs.values() if output.tolerance is not None
                  ] if isinstance(operation, DeclaredOperation) else []
    command = CommandDeclaration(
        folder, tuple(section.run), tuple(section.build or ()), section.repeats, section.timeout, section.memory,
        derived=kernel.derived, **({"tolerance": min(tolerances)} if tolerances else {}))
    optional = {f"{{{parameter.name}}}" for parameter in kernel.parameters if "" in parameter.values}
    for part, words in (("build", command.build), ("run", command.run)):
        if not optional.isdisjoint(words[:1]):
            raise DocumentFault((part, 0), f"a value of {words[0]} is the empty word, which leaves out the program")
        for index, word in enumerate(words):
            _check(names_in(word), names, (), part, index)
    return command


def _check(used: Iterable[str], names: Names, more: Iterable[str], *path: str | int) -> None:
    """Check that the names are known. Raises DocumentFault at the path."""
    known = None if names is None else names | set(more)
    unknown = next((name for name in used if known is not None and name not in known), None)
    if unknown is not None:
        raise DocumentFault(path, f"unknown name {unknown!r:.60}")
