"""Tables of kernel families: their declarations, and the reports of compiling them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .tables import _out, _table

if TYPE_CHECKING:
    from seqtune.kernels.kernel import Kernel
    from seqtune.kernels.linting.report import LintReport
    from seqtune.tuner.compile_check import FamilyCheck
    from seqtune.tuner.memory_check.check import MemoryReport

    from ..api.listing import ListedLibrary
    from ..api.results import CompileReport


def libraries(listed: Sequence[ListedLibrary]) -> None:
    """Print where each library comes from, whether it is in use, and its number of kernels."""
    if not listed:
        return
    table = _table("library", "from", "in use", "kernels", right=("kernels",))
    for library in listed:
        table.add_row(library.name, library.origin, "yes" if library.in_use else f"--library {library.name}",
                      str(len(library.kernels)) if library.kernels else "-")
    _out.print(table)


def kernels(families: Sequence[Kernel]) -> None:
    """Print each kernel with its parameters, constraints, default and what its times include."""
    from ..api.listing import included

    for kernel in families:
        _out.print(f"{kernel.name} (version {kernel.version}{_origin(kernel)}): {kernel.meaning or kernel.operation}",
                   markup=False)
        for condition in kernel.solves:
            _out.print(f"  solves {kernel.operation} where {condition.expression.text}: {condition.reason}",
                       markup=False)
        for parameter in kernel.parameters:
            values = " ".join(map(str, parameter.values))
            _out.print(f"  {parameter.name}: {values}" + (f"  ({parameter.meaning})" if parameter.meaning else ""),
                       markup=False)
        for name, expression in kernel.derived:
            _out.print(f"  {name} = {expression.text}", markup=False)
        for constraint in kernel.constraints:
            _out.print(f"  {constraint.expression.text}: {constraint.reason}", markup=False)
        _out.print("  default: " + " ".join(f"{name}={value}" for name, value in kernel.default), markup=False)
        _out.print(f"  a time includes: {included(kernel) or 'nothing, it cannot be run'}\n", markup=False)


def linted(report: LintReport) -> None:
    """Print the size of each space, then a line for every finding."""
    table = _table("kernel", "problem", "configurations", right=("configurations",))
    for size in report.sizes:
        table.add_row(size.kernel, size.problem.key, "too many to count" if size.size is None else str(size.size))
    _out.print(table)
    for place, message in report.findings:
        _out.print(f"{place}: {message}", markup=False, soft_wrap=True)
    if not report.findings:
        _out.print(f"nothing suspicious in the library {report.library}", markup=False)


def _origin(kernel: Kernel) -> str:
    """The place that a kernel comes from, unless it is ours."""
    from seqtune.kernels.libraries.table import IN_USE, library_in_use

    home = kernel.name.partition(".")[0]
    origin = library_in_use(home).origin if home in IN_USE else "seqtune"
    return "" if origin == "seqtune" else f", from {origin}"


def memory(report: MemoryReport) -> None:
    """Print a line for every race or stray access, and those configurations that could not be judged."""
    for finding in report.findings.values():
        where = finding.line or finding.kernel
        _out.print(f"{where}: {finding.what} ({finding.kernel} {finding.settings} on {finding.problem})", markup=False,
                   soft_wrap=True)
    for line in report.unfinished:
        _out.print(f"not judged: {line}", markup=False, soft_wrap=True)
    _out.print(f"{report.ran} configurations of the library {report.library} ran under Oclgrind, "
               f"{len(report.findings)} findings", markup=False)


def compiled(report: CompileReport) -> None:
    """Print a row for each family with counts of its configurations and the needs of all, then every finding.

    The table fits into 80 columns.
    """
    _out.print(f"{report.sample} random configurations of each family, compiled for {report.device.name}")
    counts = ("failed", "differ", "spill")
    table = _table("kernel", *counts, "registers", "shared", "occupancy", right=counts)
    for family in report.families:
        table.add_row(family.kernel, str(len(family.failures)), str(len(family.contradictions)), str(family.spilling),
                      _span(family, "registers", 1), _span(family, "shared", 1 / 1024, "K"),
                      _span(family, "occupancy", 100, " %"))
    _out.print(table)
    _out.print("differ: the compiled kernel contradicts its family's declaration\n"
               "registers: of a thread; shared: memory of a block; occupancy: of a unit")
    for family in report.families:
        if family.drawn < report.sample:
            _out.print(f"{family.kernel}: only {family.drawn} valid configurations were found", markup=False)
        for label, findings in (("failed", family.failures), ("contradicts", family.contradictions)):
            for finding in findings:
                _out.print(f"{label}: {family.kernel} {finding.configuration.brief()} on {finding.problem.brief()}: "
                           f"{finding.message}", markup=False, soft_wrap=True)


def _span(family: FamilyCheck, need: str, scale: float, unit: str = "") -> str:
    """The least and the most of a need, times `scale`, as in `16-227K`; one number where they are equal."""
    if need not in family.ranges:
        return "-"
    least, most = (f"{scale * bound:.0f}" for bound in family.ranges[need])
    return (least if least == most else f"{least}-{most}") + unit
