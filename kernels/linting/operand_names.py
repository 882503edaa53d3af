"""Operand names: arrays that a kernel takes by a name that its operation, one of our own, does not have."""

from __future__ import annotations

from collections.abc import Iterator

from seqtune.errors import MisuseError

from ..libraries.document import KernelDocument
from ..libraries.fault import KeyPath
from ..libraries.run_sections import SourceSection
from ..operations.operation import Operation
from ..operations.tensor import Tensors
from ..problem import Problem
from .report import Remark
from .sample_problems import example_of


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
