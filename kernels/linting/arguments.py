"""Argument lint: compares the declared arguments of a launch with the operation's arrays and the source's signature.

A mismatch that no driver accepts is an error: another number of arguments, an array for a number, a number of another
size. A mismatch that a driver accepts and that may be intended is a remark: another element type, an output that the
kernel only reads, an input that it writes. Where a macro may hide the signature, one remark says that nothing was
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from seqtune.errors import MisuseError

from ..devices.element_types import ELEMENT_TYPES
from ..launches.call_declaration import DeclaredArgument
from ..launches.includes import without_definitions
from ..libraries.declared_operation import DeclaredOperation
from ..libraries.document import KernelDocument, SourceSection
from ..libraries.fault import KEY, KeyPath
from ..operations.operation import Operation
from ..operations.tensor import Tensors
from ..problem import Problem
from .c_text import LARGEST_READ, CText, words
from .report import Remark
from .sample_problems import example_of
from .signature import Signature, SourceParameter, functions, read_signature

Declared = Sequence[tuple[int, DeclaredArgument]]  # each with its index in the list of the section


def argument_findings(document: KernelDocument, work: Operation, path: KeyPath) -> Iterator[Remark]:
    """Compare the arguments of every section that has a source with its signature, and yield the differences."""
    arrays = {name for tensors in _layouts(work) for name in tensors.names()}
    for name in arrays.intersection(document.parameters):
        if arrays.isdisjoint(map(str, document.parameters[name].values)):
            yield Remark((*path, "parameters", name, KEY), f"{name} is an array of {work.name}, too, and in "
                                                           "`arguments` it stands for the parameter's value")
    for backend, section in document.sections().items():
        if isinstance(section, SourceSection):
            yield from _section(backend, section, document, work, (*path, backend))


def _section(backend: str, section: SourceSection, document: KernelDocument, work: Operation,
             path: KeyPath) -> Iterator[Remark]:
    replaced = {*document.parameters, *section.defines}
    if len(section.text or "") > LARGEST_READ:
        yield Remark((*path, "arguments"), "the arguments are not compared with the source, which is long")
        return
    source, entry = CText.of(without_definitions(section.text or "", replaced)), section.entry
    if entry in replaced:
        return  # another name for each configuration
    if entry not in words(source.whole):
        known = functions(source)
        near = get_close_matches(entry, known, 1, 0.0) if known else []
        yield Remark((*path, "entry"), f"the source has no function {entry}{f'; it has {near[0]}' if near else ''}",
                     error="##" not in source.whole)
        return
    signature = read_signature(source, entry, replaced)
    if isinstance(signature, str):
        yield Remark((*path, "arguments"), f"the arguments are not compared with the source: {signature}")
        return
    for name in [parameter.name for parameter in signature.parameters if parameter.name in replaced]:
        key = (*path, "defines") if name in section.defines else (*path[:-1], "parameters")
        yield Remark((*key, name, KEY), f"{name} is an argument of {entry}, and the compiler replaces its name by the "
                                        "value: give one of them another name")
    arguments = list(enumerate(map(DeclaredArgument.of, section.arguments)))
    if backend == "cuda":  # dynamic shared memory is no argument
        arguments = [(index, argument) for index, argument in arguments if argument.kind != "local"]
    if len(arguments) != len(signature.parameters):
        takes = ", ".join(parameter.text for parameter in signature.parameters)
        ignored = backend == "cuda" and len(arguments) > len(signature.parameters)  # CUDA's driver reads those it needs
        yield Remark((*path, "arguments"), f"{entry} takes {len(signature.parameters)} arguments ({takes:.200}), and "
                                           f"{len(arguments)} are declared", error=not ignored)
        return
    types = {name: declared.dtype for arrays in (work.document.inputs, work.document.outputs)
             for name, declared in arrays.items()} if isinstance(work, DeclaredOperation) else {}
    for (index, argument), parameter in zip(arguments, signature.parameters, strict=True):
        argument_path = (*path, "arguments", index)
        if (reason := _refused(argument, parameter)) is not None:
            yield Remark(argument_path, f"argument {index + 1} of {entry} is {parameter.text!r:.80}, {reason}",
                         error=True)
        else:
            yield from _types(argument, parameter, types, argument_path)
    if isinstance(work, DeclaredOperation):
        yield from _directions(arguments, signature, work, document, (*path, "arguments"))


def _refused(argument: DeclaredArgument, parameter: SourceParameter) -> str | None:
    """The reason why no driver accepts an argument; None if a driver may accept it."""
    if argument.kind == "scalar":
        if parameter.is_pointer:
            return "a pointer, and a number is declared"
        if parameter.is_pointer is False and parameter.dtype is not None:
            takes = ELEMENT_TYPES[parameter.dtype].size * parameter.width
            given = ELEMENT_TYPES[argument.dtype].size
            return None if takes == given else f"which has {takes} bytes, and the declared {argument.dtype} has {given}"
        return None
    if parameter.is_pointer is False:
        return f"a number, and {'local memory' if argument.kind == 'local' else 'an array'} is declared"
    if argument.kind == "local" and parameter.space in ("global", "constant"):
        return "an array, and local memory is declared"
    if argument.kind != "local" and parameter.space == "local":
        return "local memory, and an array is declared (write `local float n` for n numbers)"
    return None


def _types(argument: DeclaredArgument, parameter: SourceParameter, types: Mapping[str, str],
           path: KeyPath) -> Iterator[Remark]:
    """Remarks about numbers that the kernel reads as another type. Bytes may stand for any type."""
    if parameter.dtype is None:
        return
    given = {argument.expression.text: argument.dtype} if argument.dtype else {
        name: types[name] for name in argument.expression.names if name in types}
    taken = ELEMENT_TYPES[parameter.dtype].stored
    for name, dtype in given.items():
        kind = ELEMENT_TYPES[dtype].stored
        alike = kind.itemsize == taken.itemsize and (kind.kind == "f") == (taken.kind == "f")  # int and unsigned int
        if not alike and 1 not in (kind.itemsize, taken.itemsize):
            yield Remark(path, f"{name:.60} is {dtype}, and the kernel takes {parameter.text!r:.80}")


def _directions(arguments: Declared, signature: Signature, work: DeclaredOperation, document: KernelDocument,
                path: KeyPath) -> Iterator[Remark]:
    """Remarks about outputs that the kernel cannot write, and about inputs that it writes."""
    buffers = [(index, argument.expression.names, parameter) for (index, argument), parameter in zip(
        arguments, signature.parameters, strict=True) if argument.kind == "buffer"]
    if any(name in document.parameters for _, names, _ in buffers for name in names):
        return  # a parameter's words may name arrays
    for name in work.document.outputs:
        taking = [(index, parameter) for index, names, parameter in buffers if name in names]
        if not taking:
            yield Remark(path, f"{name} is an output, and no argument of the kernel")
        elif all(parameter.is_const for _, parameter in taking):
            index, parameter = taking[0]
            yield Remark((*path, index), f"{name} is an output, and the kernel only reads it as "
                                         f"{parameter.text!r:.80}: are two arguments swapped?")
    for index, names, parameter in buffers:
        written = not parameter.is_const and signature.writes(parameter)
        declared = work.document.inputs.get(names[0]) if len(names) == 1 else None
        if written and declared is not None and not declared.restore:
            yield Remark((*path, index), f"{names[0]} is an input, and the kernel writes it as {parameter.text!r:.80}: "
                                         "are two arguments swapped?")


def operand_findings(document: KernelDocument, work: Operation, path: KeyPath) -> Iterator[Remark]:
    """Errors about arguments that name no array. An operation that says nothing of its arrays is not checked."""
    layouts = tuple(_layouts(work))
    names = {name for tensors in layouts for name in tensors.names()}
    for backend, section in document.sections().items():
        arguments = section.arguments if isinstance(section, SourceSection) and names else ()
        for index, argument in enumerate(arguments):
            if argument.strip().isidentifier() and argument.strip() not in names | set(document.parameters):
                yield Remark((*path, backend, "arguments", index), f"the operation {work.name} has no array "
                             f"{argument!r:.60}: for {work.example}, it has {_described(layouts[0])}", error=True)


def _described(tensors: Tensors) -> str:
    inputs = ", ".join(f"{name} {tensor.shape}" for name, tensor in tensors.inputs.items())
    return f"the inputs {inputs} and the output " + ", ".join(
        f"{name} {tensor.shape}" for name, tensor in tensors.outputs.items())


def _layouts(work: Operation) -> Iterator[Tensors]:
    """The arrays of the operation's example, and of the same problem with each other choice (bias=yes)."""
    try:
        example = example_of(work)
        yield work.tensors(example)
    except MisuseError:
        return
    given = {name: value for name, value in example if value is not None}
    for feature in work.features:
        for choice in feature.choices or ():
            try:
                yield work.tensors(Problem.make(work.name, **{**given, feature.name: choice}))
            except MisuseError:  # a rule excludes the choice
                continue
