"""Library lint: checks a declared library on sample problems of its operations, or on given ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seqtune.errors import FormatError, MisuseError, ProblemError

from ..libraries.declared_kernel import restored_arrays
from ..libraries.document import KernelDocument
from ..libraries.fault import KeyPath
from ..libraries.library import Library
from ..operations.operation import Operation
from ..operations.table import operation
from ..problem import Problem
from .arguments import argument_findings, operand_findings
from .equal_programs import EqualPrograms, Preprocessor
from .kernel import Allowance, KernelLint, typical_device
from .names import kernel_findings, operation_findings
from .report import LintReport, Remark, SpaceSize, folded
from .sample_problems import sample_problems_of


def lint(library: Library, problems: Sequence[Problem] = ()) -> LintReport:
    """Lint a declared library that is in use, on `problems` or on sample problems of its operations.

    Raises FormatError with the location of the first error, MisuseError if the library has no document.
    """
    document = library.document
    if document is None:
        raise MisuseError(f"the library {library.name} is not declared in a file")
    kernels = {name: library.kernel(f"{library.name}.{name}") for name in document.kernels}
    own = [work for work in library.operations.values() if isinstance(work, Operation)]
    notes: list[Remark] = []
    notes += [Remark(("operations", work.name, *key), message)
              for work in own for key, message in library.unfollowed.get(work.name, ())]
    findings = list(operation_findings(document, own, kernels.values()))
    sizes: list[SpaceSize] = []
    samples = {name: _samples(library, name, problems) for name in dict.fromkeys(
        [*(work.name for work in own), *(kernel.operation for kernel in kernels.values())])}
    allowance = Allowance()
    preprocessor = Preprocessor.installed()
    programs = None if preprocessor is None else EqualPrograms(preprocessor)
    for name, kernel in kernels.items():
        path: KeyPath = ("kernels", name)
        findings += kernel_findings(kernel, document.kernels[name], path, library.origin.lower().endswith(".json"))
        if kernel.operation not in document.operations:
            findings += operand_findings(document.kernels[name], operation(kernel.operation), path)
        findings += argument_findings(document.kernels[name], operation(kernel.operation), path)
        notes += _restoring_notes(document.kernels[name], operation(kernel.operation), path)
        notes += [Remark((*path, *key), message) for key, message in library.unfollowed.get(kernel.name, ())]
        spaces = KernelLint(kernel, path, allowance)
        if samples[kernel.operation]:
            findings += spaces.findings(samples[kernel.operation])
        if programs is not None:
            counted = [(problem, rows) for problem, _, rows in spaces.spaces if len(rows)]
            findings += programs.findings(kernel, document.kernels[name], counted, typical_device(kernel.backends[0]),
                                          path)
        sizes += spaces.sizes
    wrong = next((finding for finding in findings if finding.error), None)
    if wrong is not None:
        raise FormatError(f"{library.locate(wrong.path)}: {wrong.text}")
    located = (tuple((library.locate(remark.path), remark.text) for remark in folded(remarks))
               for remarks in (findings, notes))
    return LintReport(library.name, tuple(sizes), *located)


def _restoring_notes(document: KernelDocument, work: Operation, path: KeyPath) -> Iterator[Remark]:
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


def _samples(library: Library, name: str, problems: Sequence[Problem]) -> list[Problem]:
    """The sample problems of an operation. Raises FormatError if its example is wrong."""
    if problems:
        return [problem for problem in problems if problem.type == name]
    work = operation(name)
    try:
        return sample_problems_of(work)
    except ProblemError as error:
        if name not in library.operations:
            raise
        raise FormatError(f"{library.locate(('operations', name, 'example'))}: the example {work.example!r:.80} is "
                          f"refused: {error}") from None
