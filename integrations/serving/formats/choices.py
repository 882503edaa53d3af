"""Choices in vLLM's and SGLang's files as a data set: rows of status `chosen`, because the files hold no times.

No file name contains the width of the model and the experts per token, so these features of the problems are unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from seqtune.data.dataset import Dataset, configuration
from seqtune.data.formats.declared_rows import DeclaredRow, imported
from seqtune.data.formats.format import ImportResult, Report, report_of
from seqtune.data.gpu_names import gpu_of
from seqtune.data.record import Status
from seqtune.errors import DeviceError, FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.triton.fused_moe import KERNEL as FUSED_MOE
from seqtune.kernels.triton.scaled_gemm import KERNEL as SCALED_GEMM
from seqtune.kernels.triton.text import AMD_ONLY

from .table_file import Settings, Table, TableFile, read_table

_TOOLCHAIN = "triton "
_IMPLIED: dict[str, Setting] = {**AMD_ONLY, "USE_TMA": 0}  # values of keys that files leave out


def read_choices(paths: Sequence[Path]) -> ImportResult:
    """Read files into a data set, with a report of each. Files with other names or of unknown GPUs are left out.

    Raises FormatError if a file is damaged.
    """
    choices: list[DeclaredRow] = []
    reports: list[Report] = []
    for path in paths:
        skipped: Counter[str] = Counter()
        before = len(choices)
        try:
            file = TableFile.parse(path.name)
            device = gpu_of(file.device)
        except FormatError:
            skipped["a name that is not known here"] += 1
        except DeviceError:
            skipped["no facts are known here of the GPU"] += 1
        else:
            table, version = read_table(path)
            folder = re.fullmatch(r"triton_([0-9]+(?:_[0-9]+)*)", path.parent.name)
            version = version or (folder[1].replace("_", ".") if folder else "")
            choices += _choices(file, table, device, f"{_TOOLCHAIN}{version}" if version else "", skipped)
        reports.append(report_of(path, len(choices) - before, skipped))
    return imported(choices, "tuned files of vLLM or SGLang", reports)


def _choices(file: TableFile, table: Table, device: Device, toolchain: str,
             skipped: Counter[str]) -> Iterator[DeclaredRow]:
    kernel = FUSED_MOE if file.experts else SCALED_GEMM
    for tokens, settings in table.items():
        values = {name: settings.get(name, _IMPLIED.get(name)) for name in kernel.by_name}
        if reason := _why_not(kernel, values, settings):
            skipped[reason] += 1
        else:
            known = {name: value for name, value in values.items() if value is not None}
            yield DeclaredRow(device, file.problem(tokens), kernel, known, toolchain)


def _why_not(kernel: Kernel, values: dict[str, Setting | None], settings: dict[str, int]) -> str | None:
    """The reason why settings are no configuration of the kernel; None if they are."""
    for name in settings:
        if name not in kernel.by_name:
            return f"{kernel.name} has no parameter {name:.40}"
    for name, value in values.items():
        if value is None:
            return f"no value of {name}"
        if value not in kernel.by_name[name].values:
            return f"{kernel.name} has no value {name}={value}"
    return None


def listed(configuration: Configuration, device: Device, down: bool) -> Settings:
    """The settings as a file lists them: keys of AMD's compiler only for AMD's GPUs, USE_TMA only for second products.

    Raises ConfigurationError if a value is a word.
    """
    settings = {name: configuration.number(name) for name, _ in configuration.settings}
    amd = device.instruction_set != "ptx"
    return {name: value for name, value in settings.items()
            if (name not in AMD_ONLY or (amd and (name != "matrix_instr_nonkdim" or value > 0)))
            and (name != "USE_TMA" or down)}


def choices_of(data: Dataset) -> dict[tuple[TableFile, str | None], Table]:
    """The tables of the chosen configurations in a data set, by file and version of Triton. Raises FormatError."""
    tables: dict[tuple[TableFile, str | None], Table] = {}
    chosen = data.rows[(data.rows["status"] == Status.CHOSEN.value)
                       & data.rows["kernel"].isin((FUSED_MOE.name, SCALED_GEMM.name))]
    for row in chosen.itertuples(index=False):
        problem, device = data.known_problems[str(row.problem)], data.devices[str(row.device)]
        file = TableFile.of(problem, device.model)
        version = str(row.toolchain).removeprefix(_TOOLCHAIN) or None
        table = tables.setdefault((file, version), {})
        tokens = problem.size("m" if problem.type == "scaled_gemm" else "tokens")
        table[tokens] = listed(configuration(str(row.kernel), str(row.configuration)), device, file.down)
    if not tables:
        raise FormatError("the data set holds no choices of vLLM or SGLang")
    return tables
