"""Name lint: names of a declared library that clash with others, or that nothing reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from seqtune.errors import ExpressionError

from ..expression import Expression
from ..kernel import Kernel
from ..launches.command_declaration import names_in
from ..libraries.declared_kernel import device_facts
from ..libraries.document import KernelDocument, LibraryDocument, SourceSection
from ..libraries.fault import KEY, KeyPath
from ..operations.operation import Operation
from .c_text import LARGEST_READ, MACROS, CText, words
from .report import ITEM, Remark
from .undefined_names import condition_findings, defined_names, undefined_names

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
                yield Remark((*path, "derived", name, KEY), f"nothing reads {ITEM}", item=name)


def kernel_findings(kernel: Kernel, document: KernelDocument, path: KeyPath,
                    generated: bool = False) -> Iterator[Remark]:
    """Names that hide or redefine something, that nothing reads, or that a source reads and nothing defines.

    The defines of a `generated` document are there for sources that may need them.
    """
    yield from _hidden(document.parameters, (*path, "parameters"))
    yield from _hidden(document.derived, (*path, "derived"))
    if document.implementation is not None:
        return  # its code may read everything
    known = _names_of(kernel) | _names_run(document)
    for name in document.derived:
        if name not in known:
            yield Remark((*path, "derived", name, KEY), f"nothing but models reads {ITEM}", item=name)
    for backend, section in document.sections().items():
        if isinstance(section, SourceSection):
            yield from _redefined(document, section, (*path, backend), path)
            yield from _unused(document, section, kernel, path)
            read = words(section.text or "")
            for name in () if generated else section.defines:
                if name not in read:
                    yield Remark((*path, backend, "defines", name, KEY), f"the source does not name {ITEM}", item=name)
            yield from _undefined(backend, document, section, (*path, backend))


def _hidden(names: Iterable[str], path: KeyPath) -> Iterator[Remark]:
    for name in names:
        if name in device_facts():
            yield Remark((*path, name, KEY), f"{name} hides the device's fact of this name")


def _redefined(document: KernelDocument, section: SourceSection, section_path: KeyPath,
               path: KeyPath) -> Iterator[Remark]:
    """Parameters and defines whose names are macros already."""
    for names, table_path in ((document.parameters, (*path, "parameters")),
                              (section.defines, (*section_path, "defines"))):
        for name in names:
            if MACROS.fullmatch(name):
                yield Remark((*table_path, name, KEY), f"{name} redefines a macro or function of the compiler")
    for name in section.defines:
        if name in document.parameters:
            yield Remark((*section_path, "defines", name, KEY), f"{name} is defined as a parameter already")


def _unused(document: KernelDocument, section: SourceSection, kernel: Kernel, path: KeyPath) -> Iterator[Remark]:
    """Parameters that neither the source nor an expression of the launch reads."""
    read = read_names(kernel, section)
    for name in document.parameters:
        if name not in read:
            yield Remark((*path, "parameters", name, KEY), f"the kernel does not read {ITEM}: neither its source nor "
                                                           "its launch names it", item=name)


def _undefined(backend: str, document: KernelDocument, section: SourceSection, path: KeyPath) -> Iterator[Remark]:
    """Names that a source reads and nothing defines; a parameter may have had this name."""
    if len(section.text or "") > LARGEST_READ:
        return
    source, given = CText.of(section.text or ""), defined_names(document, section)
    path = (*path, "source" if section.source else "text")
    yield from condition_findings(source, document, given, path)
    unread = sorted(given - words(source.whole))
    for name in undefined_names(source, given) if backend == "opencl" else ():
        near = get_close_matches(name, unread, 1, 0.0)
        yield Remark(path, f"the source reads {ITEM}, which neither it nor a parameter defines"
                           f"{f'; it does not read {near[0]}, which is declared' if near else ''}", item=name[:60])


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
    return {name for text in texts for name in words(text)}


def read_names(kernel: Kernel, section: SourceSection) -> set[str]:
    """The names that a source or its section reads, directly or through derived quantities."""
    return _closure(kernel, _section_names(section)) | words(section.text or "")


def launch_names(kernel: Kernel, section: SourceSection) -> set[str]:
    """The names that arguments and sizes of a section read, directly or through derived quantities."""
    return _closure(kernel, _section_names(section.model_copy(update={"defines": {}})))


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
