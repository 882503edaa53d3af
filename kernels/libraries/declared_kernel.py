"""Declared kernels: the kernels of a library's document, checked and made into `Kernel` objects.

The arrays that are restored before each launch that counts, where the check's launch changed them, are part of a
kernel's version, because times of launches that began with the results of earlier ones are of other work. A program
restores its own arrays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ..devices.accelerators import ACCELERATORS, BACKENDS, described
from ..devices.device import Device
from ..expression import Expression
from ..kernel import Constraint, Kernel, Parameter, Setting, are_whole, identity
from ..launches.call_declaration import DeclaredArgument, rewritten_inputs
from ..operations.operation import Operation
from .declared_operation import DeclaredOperation, expression_of
from .digests import digest_of, source_digests
from .document import KernelDocument, SourceSection
from .fault import KEY, DocumentFault, at_path
from .run_code import run_code

OWN_BACKENDS = ("llvm", "opencl", "command", *BACKENDS)  # whose devices have known facts; others may have any
# Words of C, OpenCL C and C++ that no parameter may have: as a preprocessor define, it would replace them in a source.
RESERVED_WORDS = frozenset([
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "half",
    "bool", "uchar", "ushort", "uint", "ulong", "size_t", "kernel", "global", "local", "constant", "private",
    "__kernel", "__global", "__local", "__constant", "__private", "__shared__", "__global__", "__device__",
    "class", "template", "typename", "namespace", "operator", "public", "this", "new", "delete", "true",
    "false", "using", "virtual", "throw", "try", "catch",
])


def declared_kernel(library: str, name: str, document: KernelDocument, operation: Operation,
                    files: Mapping[str, str] | None = None, former_files: Mapping[str, str] | None = None,
                    implementation: object = None, folder: Path | None = None) -> Kernel:
    """Make the kernel `library.name` of a document. Its version covers `files`, digests of what it runs.

    `former_files` are the digests as 0.2.0 made them; None if its version did not cover all files.

    Raises DocumentFault with the path within the kernel's part of the document.
    """
    backends = tuple(document.backends or document.sections())
    if not backends:
        raise DocumentFault(("backends",), "name the backends that the kernel runs on, or say how it runs "
                                           "([kernels.NAME.opencl], cuda or command)")
    parameters = tuple(_parameter(parameter, document) for parameter in document.parameters)
    problem_names = {feature.name for feature in operation.features} | {name for name, _ in operation.derived}
    clash = next((parameter for parameter in document.parameters if parameter in problem_names), None)
    if clash is not None:
        raise DocumentFault(("parameters", clash, KEY), f"{clash!r} is the name of a feature or size of "
                                                        f"{operation.name}, too")
    facts = device_facts() if set(backends) <= set(OWN_BACKENDS) else None
    names = None if operation.is_open or facts is None else problem_names | facts  # None: any
    solves = tuple(Constraint(expression_of(text, names, "solves", text), reason)
                   for text, reason in document.solves.items())
    names = None if names is None else names | set(document.parameters)
    derived = _derived(document, problem_names, names)
    names = None if names is None else names | {quantity for quantity, _ in derived}
    constraints = tuple(Constraint(expression_of(text, names, "constraints", text), reason)
                        for text, reason in document.constraints.items())
    kernel = Kernel(f"{library}.{name}", operation.name, backends, parameters, constraints, _default(document),
                    document.meaning or operation.meaning, solves, derived, implementation=implementation)
    code = run_code(kernel, document, operation, folder, names) if implementation is None else implementation
    parts = version_parts(document, operation, files or {})
    return replace(kernel, implementation=code, parts=parts,
                   version=document.version or version_of(parts),
                   former_versions=former_versions(document, operation, former_files))


@lru_cache(maxsize=1)
def device_facts() -> frozenset[str]:
    """The names of the facts that devices of OWN_BACKENDS have."""
    devices = [Device("", "", "", ""), *(device for backend in BACKENDS for model in ACCELERATORS
                                         if (device := described(backend, model)) is not None)]
    return frozenset(name for device in devices for name in device.names()) | {"mma_gflops"}


def _parameter(name: str, document: KernelDocument) -> Parameter:
    values = document.parameters[name].values
    seen: set[Hashable] = set()
    for index, value in enumerate(values):
        if identity(value) in seen:
            raise DocumentFault(("parameters", name, "values", index), f"{value!r:.40} is listed twice")
        seen.add(identity(value))
    if "" in values and set(document.sections()) != {"command"}:
        raise DocumentFault(("parameters", name, "values", values.index("")),
                            "only a kernel that is a command may have an empty word as a value: it leaves out an "
                            "argument of the command line")
    if name in RESERVED_WORDS and (document.opencl or document.cuda):
        raise DocumentFault(("parameters", name, KEY), f"{name!r} is a word of C, so it cannot be defined")
    with at_path("parameters", name):
        return Parameter(name, tuple(document.parameters[name].values), document.parameters[name].meaning)


def _derived(document: KernelDocument, problem_names: set[str],
             known: set[str] | None) -> tuple[tuple[str, Expression], ...]:
    """The derived quantities, each over the names before it. Raises DocumentFault."""
    derived: list[tuple[str, Expression]] = []
    names = None if known is None else set(known)
    for name, text in document.derived.items():
        if name in document.parameters or name in problem_names:
            kind = "parameter" if name in document.parameters else "feature or size of the operation"
            raise DocumentFault(("derived", name, KEY), f"{name!r} is the name of a {kind}, too")
        derived.append((name, expression_of(text, names, "derived", name)))
        if names is not None:
            names.add(name)
    return tuple(derived)


def _default(document: KernelDocument) -> tuple[tuple[str, Setting], ...]:
    """The preferred default: declared values, and the first value of every other parameter. Raises DocumentFault."""
    for name, value in document.default.items():
        if name not in document.parameters:
            raise DocumentFault(("default", name, KEY), f"there is no parameter {name!r}")
        if identity(value) not in map(identity, document.parameters[name].values):
            raise DocumentFault(("default", name), f"{value!r:.60} is not among the values of {name}")
    return tuple((name, document.default.get(name, parameter.values[0]))
                 for name, parameter in document.parameters.items())


LARGEST_VERSION = 2**31 - 1  # data sets hold versions as int32


def version_of(parts: object) -> int:
    """A version from 1 to LARGEST_VERSION: a digest of the parts, which JSON can hold."""
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
    return 1 + int.from_bytes(digest[:8], "big") % LARGEST_VERSION


def version_parts(document: KernelDocument, operation: Operation, files: Mapping[str, str]
                  ) -> tuple[tuple[str, str], ...]:
    """The digests of all that affects what a configuration runs and its inputs, by file or by key of the document.

    Parameter values and constraints are left out: records stay valid when configurations are added or removed. So are
    comments, insignificant white space, and `tolerance`, which changes no time. The names of parameters with fractions
    or booleans count: once these were words or whole numbers. So does the default configuration where others are wrong
    if they do not agree with it, as programs that report a checksum may.
    """
    keys: dict[str, object] = {
        "parameters": [sorted(document.parameters), *_with_fractions(document)], "derived": document.derived,
        "implementation": document.implementation, "restored": restored_arrays(document, operation),
        "default": _default(document) if operation.agrees_with_default or document.command is not None else ()}
    parts = dict(files)
    for backend, section in document.sections().items():
        declared = section.model_dump(mode="json", by_alias=True, exclude={"source", "text"}, exclude_defaults=True)
        keys |= {f"{backend}.{key}": value for key, value in declared.items()}
        if isinstance(section, SourceSection):
            parts |= source_digests(section.source or f"{backend}.text", section.text or "")
    if isinstance(operation, DeclaredOperation):
        path, work = f"operations.{operation.name}", operation.document.model_dump(
            mode="json", include={"derived", "inputs", "outputs", "reference", "expected"}, exclude_defaults=True,
            exclude={"inputs": {"__all__": {"restore"}}, "outputs": {"__all__": {"restore", "tolerance"}}})
        for part in ("inputs", "outputs"):
            keys |= {f"{path}.{part}.{name}": array for name, array in work.pop(part, {}).items()}
        keys |= {f"{path}.{key}": value for key, value in work.items()}
    parts |= {key: digest_of([json.dumps(value, sort_keys=True)]) for key, value in keys.items() if value}
    return tuple(sorted(parts.items()))


def former_versions(document: KernelDocument, operation: Operation, files: Mapping[str, str] | None) -> tuple[int, ...]:
    """The version that 0.2.0 gave: a digest of texts and bytes with comments, and of the keys that it knew.

    There is none if it did not cover all files (`files` is None), or ran the kernel in another way: with words for
    fractions, or without restoring what the kernel changes.
    """
    if files is None or document.version or _with_fractions(document) or restored_arrays(document, operation):
        return ()
    parts: dict[str, object] = {
        "parameters": sorted(document.parameters), "derived": document.derived, "files": dict(files),
        "implementation": document.implementation,
        **{backend: section.model_dump(mode="json", exclude={"source"})
           for backend, section in document.sections().items()}}
    if isinstance(operation, DeclaredOperation):
        work = operation.document
        parts["operation"] = work.model_dump(mode="json", include={
            "derived": True, "reference": True, "expected": True,
            "inputs": {"__all__": {"shape", "dtype", "values"}},
            "outputs": {"__all__": {"shape", "dtype", "tolerance", "check", "values"}}})
    return (version_of(parts),)


def _with_fractions(document: KernelDocument) -> list[str]:
    """The names of the parameters with fractions or booleans."""
    return sorted(name for name, parameter in document.parameters.items() if not are_whole(parameter.values))


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
