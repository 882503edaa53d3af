"""Tables of devices, libraries and kernel families, and of the checks of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seqtune.kernels.kernel import Configuration, shown_setting

from ...api.results import NEW_CPU
from .console import out, show, table_of

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Kernel
    from seqtune.kernels.linting.report import LintReport
    from seqtune.tuner.compile_check import FamilyCheck
    from seqtune.tuner.memory_check.check import MemoryReport

    from ...api.examining import Examination
    from ...api.listing import ListedLibrary
    from ...api.results import CompileReport, Devices


def devices(listing: Devices) -> None:
    """Print the devices with their main facts, then the unavailable backends."""
    table = table_of("", "device", "bits", "threads", "units", "L1", "L2", "L3", "GFLOP/s", "GB/s",
                   right=("bits", "threads", "units", "L1", "L2", "L3", "GFLOP/s", "GB/s"))
    alike: dict[str, list[str]] = {}
    for alias, device in listing.listed:
        table.add_row(alias, device.name, str(device.vector_bits), str(device.threads), str(device.compute_units),
                      *(_size(size) for size in (device.l1_bytes, device.l2_bytes, device.l3_bytes)),
                      f"{device.peak_gflops:.0f}" if device.peak_gflops else "-",
                      f"{device.bandwidth_gbs:.0f}" if device.bandwidth_gbs else "-")
        alike.setdefault(f"{device.model} ({device.architecture}), {device.toolchain}", []).append(alias)
    if listing.listed:
        show(table)
    for text, aliases in alike.items():
        out.say(f"{' '.join(aliases)}: {text}")
    for alias, device in listing.listed:
        if device.l1_gbs:
            out.say(f"{alias}: {_measured_reads(device)}")
    able: dict[str, list[str]] = {}
    for alias, device in listing.listed:
        own = device.capabilities
        if own:
            able.setdefault(", ".join(own), []).append(alias)
    for text, aliases in able.items():
        out.say(f"{' '.join(aliases)}: instructions {text}")
    if listing.doubt:
        out.print(listing.doubt, soft_wrap=True)
    for backend, reason in listing.unavailable.items():
        out.print(f"{backend} is unavailable: {reason}", markup=False)
    if listing.new_cpu:
        out.print(NEW_CPU, soft_wrap=True)
    if listing.described:
        _described(listing.described)
    else:
        out.print("described: `seqtune devices --all` lists GPUs and ARM CPUs to predict and compile for without "
                  "having them", soft_wrap=True)
    out.print("replay: `seqtune tune --replay DATASET` searches the records of any device, and measures nothing")


def _measured_reads(device: Device) -> str:
    """Reads from caches, waking threads and gathering, as text."""
    reads = ", ".join(f"{level} {rate:.0f}" for level, rate in (
        ("L1", device.l1_gbs), ("L2", device.l2_gbs), ("L3", device.l3_gbs)) if rate)
    wakes = f"; threads wake in {device.wake_microseconds:.2g} us" if device.wake_microseconds else ""
    return f"reads {reads} GB/s{wakes}; {device.gather_nanoseconds:.2g} ns to gather a number"


def _described(devices: Sequence[Device]) -> None:
    """Print the GPUs and CPUs of the tables with their main facts, each model under its first name."""
    table = table_of("described", "model", "arch.", "units", "L2", "GFLOP/s", "GB/s",
                   right=("units", "L2", "GFLOP/s", "GB/s"))
    models: dict[str, Device] = {}
    for device in devices:
        models.setdefault(device.model, device)
    for device in models.values():
        table.add_row(device.name, device.model, device.architecture, str(device.compute_units),
                      _size(device.l2_bytes), f"{device.peak_gflops:.0f}", f"{device.bandwidth_gbs:.0f}")
    show(table)
    names = {backend: [device.name.partition(":")[2] for device in devices if device.backend == backend]
             for backend in ("cuda", "triton")}
    without = ", ".join(name for name in names["cuda"] if name not in names["triton"])
    out.say("each cuda:NAME of this table is also described for Triton, as triton:NAME"
            + (f", except {without}" if without else ""))


def _size(size: int) -> str:
    if not size:
        return "-"
    return f"{size // 1024}K" if size < 1 << 20 else f"{size / (1 << 20):.4g}M"


def libraries(listed: Sequence[ListedLibrary]) -> None:
    """Print where each library comes from, whether it is in use, and its number of kernels."""
    if not listed:
        return
    table = table_of("library", "from", "in use", "kernels", right=("kernels",))
    for library in listed:
        table.add_row(library.name, library.origin, "yes" if library.in_use else f"--library {library.name}",
                      str(len(library.kernels)) if library.kernels else "-")
    show(table)


def kernels(families: Sequence[Kernel]) -> None:
    """Print each kernel with its parameters, constraints, default and what its times include."""
    from ...api.listing import included

    for kernel in families:
        out.print(f"{kernel.name} (version {kernel.version}{_origin(kernel)}): {kernel.meaning or kernel.operation}",
                   markup=False)
        for condition in kernel.solves:
            out.print(f"  solves {kernel.operation} where {condition.expression.text}: {condition.reason}",
                       markup=False)
        for parameter in kernel.parameters:
            values = " ".join(map(shown_setting, parameter.values))
            out.print(f"  {parameter.name}: {values}" + (f"  ({parameter.meaning})" if parameter.meaning else ""),
                       markup=False)
        for name, expression in kernel.derived:
            out.print(f"  {name} = {expression.text}", markup=False)
        for constraint in kernel.constraints:
            out.print(f"  {constraint.expression.text}: {constraint.reason}", markup=False)
        out.print(f"  default: {Configuration(kernel.name, kernel.default).brief()}", markup=False)
        out.print(f"  a time includes: {included(kernel) or 'nothing, it cannot be run'}\n", markup=False)


def examination(result: Examination) -> None:
    """Print a line for each check: its state, what was found, and what to do."""
    for check in result.checks:
        advice = f"; {check.advice}" if check.advice else ""
        out.say(f"{check.state:4}  {check.name:9}  {check.found}{advice}")


def linted(report: LintReport) -> None:
    """Print the size of each space, then a line for every finding."""
    table = table_of("kernel", "problem", "configurations", right=("configurations",))
    for size in report.sizes:
        table.add_row(size.kernel, size.problem.key, "too many to count" if size.size is None else str(size.size))
    show(table)
    for source, message in report.findings:
        out.say(f"{source}: {message}")
    if not report.findings:
        out.print(f"nothing suspicious in the library {report.library}", markup=False)
    for source, message in report.notes:
        out.say(f"{source}: {message}")


def _origin(kernel: Kernel) -> str:
    """The origin of a kernel's library as text; empty if the library is ours."""
    from seqtune.kernels.libraries.table import IN_USE, library_in_use

    library = kernel.name.partition(".")[0]
    origin = library_in_use(library).origin if library in IN_USE else "seqtune"
    return "" if origin == "seqtune" else f", from {origin}"


def memory(report: MemoryReport) -> None:
    """Print a line for every race or stray access, and for every configuration that could not be checked."""
    for finding in report.findings.values():
        where = finding.line or finding.kernel
        out.say(f"{where}: {finding.what} ({finding.kernel} {finding.settings} on {finding.problem})")
    for line in report.unfinished:
        out.say(f"not checked: {line}")
    out.print(f"{report.ran} configurations of the library {report.library} ran under Oclgrind, "
               f"{len(report.findings)} findings", markup=False)


def compiled(report: CompileReport) -> None:
    """Print a row for each family with counts of its configurations and the needs of all, then every finding.

    The table fits into 80 columns.
    """
    out.print(f"{report.sample} random configurations of each family, compiled for {report.device.name}")
    counts = ("failed", "differ", "spill")
    table = table_of("kernel", *counts, "registers", "shared", "occupancy", right=counts)
    for family in report.families:
        table.add_row(family.kernel, str(len(family.failures)), str(len(family.contradictions)), str(family.spilling),
                      _span(family, "registers", 1), _span(family, "shared", 1 / 1024, "K"),
                      _span(family, "occupancy", 100, " %"))
    show(table)
    out.print("differ: the compiled kernel contradicts its family's declaration\n"
               "registers: of a thread; shared: memory of a block; occupancy: of a unit")
    for family in report.families:
        if family.drawn < report.sample:
            out.print(f"{family.kernel}: only {family.drawn} valid configurations were found", markup=False)
        for label, findings in (("failed", family.failures), ("contradicts", family.contradictions)):
            for finding in findings:
                out.say(f"{label}: {family.kernel} {finding.configuration.brief()} on {finding.problem.brief()}: "
                        f"{finding.message}")


def _span(family: FamilyCheck, need: str, scale: float, unit: str = "") -> str:
    """The least and the most of a need, times `scale`, as in `16-227K`; one number where they are equal."""
    if need not in family.ranges:
        return "-"
    least, most = (f"{scale * bound:.0f}" for bound in family.ranges[need])
    return (least if least == most else f"{least}-{most}") + unit
