"""Name lint: names of a declared library that clash with others, or that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from seqtune.errors import ExpressionError

from ..calls.command_declaration import names_in
from ..expression import Expression
from ..kernel import Kernel
from ..libraries.declared_kernel import device_facts
from ..libraries.document import KernelDocument, LibraryDocument
from ..libraries.fault import KEY, KeyPath
from ..libraries.run_sections import SourceSection
from ..operations.operation import Operation
from .report import Remark

# Macros of the standard headers, of OpenCL C and of CUDA, which a parameter of the same name would redefine.
MACROS = re.compile(r"__\w+|NULL|NAN|INFINITY|EOF|BUFSIZ|errno|assert|offsetof|(M|FLT|DBL|HALF|INT|UINT|CHAR|SCHAR|"
                    r"UCHAR|SHRT|USHRT|LONG|ULONG|CLK|CL|CUDA|FP)_\w+|MAXFLOAT|HUGE_VALF?|(min|max)")
ESTIMATED = ("flop", "bytes")  # sizes that time limits and models read


def operation_findings(document: LibraryDocument, operations: Iterable[Operation],
                       kernels: Iterable[Kernel]) -> Iterator[Remark]:
    """Features that hide facts of devices, and derived sizes that nothing reads."""
    families = list(kernels)
    for work in operations:
        declared = document.operations[work.name]
        path: KeyPath = ("operations", work.name)
        yield from _hidden(declared.features, (*path, "features"))
        yield from _hidden(declared.derived, (*path, "derived"))
        texts = [*declared.derived.values(), *declared.rules,
                 *(array.shape for arrays in (declared.inputs, declared.outputs) for array in arrays.values())]
        read = {name for text in texts for name in _names(f"({text},)")}
        for family in families:
            if family.operation == work.name:
                read |= _names_of(family)
                read |= _names_run(document.kernels[family.name.partition(".")[2]])
        for name in declared.derived:
            if name not in read and name not in ESTIMATED:
                yield Remark((*path, "derived", name, KEY), f"nothing reads {name}")


def kernel_findings(kernel: Kernel, document: KernelDocument, path: KeyPath) -> Iterator[Remark]:
    """Parameters and derived quantities that hide or redefine something, or that nothing reads."""
    yield from _hidden(document.parameters, (*path, "parameters"))
    yield from _hidden(document.derived, (*path, "derived"))
    if document.implementation is not None:
        return  # its code may read everything
    read = _names_of(kernel)
    run = _names_run(document)
    for name in document.derived:
        if name not in read | run:
            yield Remark((*path, "derived", name, KEY), f"nothing but models reads {name}")
    for backend, section in document.sections().items():
        if isinstance(section, SourceSection):
            yield from _redefined(document, section, (*path, backend), path)
            yield from _unused(document, section, kernel, path)
            if section.entry not in {*_words(section.text or ""), *document.parameters, *section.defines}:
                yield Remark((*path, backend, "entry"), f"the source has no function {section.entry}")


def _hidden(names: Iterable[str], path: KeyPath) -> Iterator[Remark]:
    for name in names:
        if name in device_facts():
            yield Remark((*path, name, KEY), f"{name} hides the device's fact of this name")


def _redefined(document: KernelDocument, section: SourceSection, home: KeyPath, path: KeyPath) -> Iterator[Remark]:
    """Parameters and defines that are macros already."""
    for names, place in ((document.parameters, (*path, "parameters")), (section.defines, (*home, "defines"))):
        for name in names:
            if MACROS.fullmatch(name):
                yield Remark((*place, name, KEY), f"{name} redefines a macro or function of the compiler")
    for name in section.defines:
        if name in document.parameters:
            yield Remark((*home, "defines", name, KEY), f"{name} is defined as a parameter already")


def _unused(document: KernelDocument, section: SourceSection, kernel: Kernel, path: KeyPath) -> Iterator[Remark]:
    """Parameters that neither the source nor an expression of the launch reads."""
    read = _closure(kernel, _section_names(section)) | _words(section.text or "")
    for name in document.parameters:
        if name not in read:
            yield Remark((*path, "parameters", name, KEY), f"the kernel does not read {name}: neither its source nor "
                                                            "its launch names it")


def _names_of(kernel: Kernel) -> set[str]:
    """The names that conditions and derived quantities of a kernel read."""
    expressions = [*(condition.expression for condition in (*kernel.solves, *kernel.constraints)),
                   *(expression for _, expression in kernel.derived)]
    return {name for expression in expressions for name in expression.names}


def _names_run(document: KernelDocument) -> set[str]:
    """The names that the sections of a kernel read to run it."""
    names: set[str] = set()
    for section in document.sections().values():
        if isinstance(section, SourceSection):
            names |= _section_names(section)
        else:
            names |= {name for word in (*section.run, *(section.build or ())) for name in names_in(word)}
    return names


def _section_names(section: SourceSection) -> set[str]:
    """The names that arguments, sizes and defines of a section read; words that are no names do no harm."""
    texts = [*section.arguments, *section.defines.values(), section.launches, *(section.global_ or ()),
             *(section.groups or ()), *(section.local or ())]
    return {name for text in texts for name in _words(text)}


def _words(text: str) -> set[str]:
    """The names in a source or an expression."""
    return set(re.findall(r"[A-Za-z_]\w*", text))


def _closure(kernel: Kernel, names: set[str]) -> set[str]:
    """The names, and those that derived quantities among them read."""
    for name, expression in reversed(kernel.derived):
        if name in names:
            names = names | set(expression.names)
    return names


def _names(text: str) -> tuple[str, ...]:
    try:
        return Expression(text).names
    except ExpressionError:
        return ()
