"""Choices in vLLM's and SGLang's files as a data set: rows of status `chosen`, because the files hold no times.

No file name contains the width of the model and the experts per token, so these features of the problems are unknown.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqtune.data.dataset import Dataset, configuration
from seqtune.data.formats.declared_rows import DeclaredRow, imported
from seqtune.data.formats.format import ImportResult, Report, report_of
from seqtune.data.gpu_names import gpu_of
from seqtune.data.record import Status
from seqtune.errors import DeviceError, FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.kernels.triton.fused_moe import KERNEL as FUSED_MOE
from seqtune.kernels.triton.scaled_gemm import KERNEL as SCALED_GEMM
from seqtune.kernels.triton.text import AMD_ONLY

from .table_file import Settings, Table, TableFile, read_table

_TOOLCHAIN = "triton "
_IMPLIED: dict[str, Setting] = {**AMD_ONLY, "USE_TMA": 0}  # values of keys that files leave out


def read_choices(paths: Sequence[Path], devices: Sequence[str | Device] = ()) -> ImportResult:
    """Read files of either project into a data set, with a report of each; their names say the `devices`.

    Files with other names or of unknown GPUs are left out. Raises FormatError if a file is damaged.
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


# Distances are sums of doublings of the sizes. Another GPU counts as much as a size that differs by 1.4, one of another
# architecture as much as a size that differs by 4 in all.
OTHER_GPU, OTHER_ARCHITECTURE = 0.5, 1.5
_SIZES = {"fused_moe": ("tokens", "experts", "intermediate"), "scaled_gemm": ("m", "n", "k")}


def group_of(problem: Problem, device: Device) -> tuple[object, ...]:
    """The properties that choices must share to be comparable: the product, the types, the scales, the maker."""
    features = dict(problem)
    dtype = "bf16" if features.get("dtype") == "fp16" else features.get("dtype")
    return (problem.type, dtype, device.instruction_set,
            *(features.get(name) for name in ("half", "scale_n", "scale_k", "per_channel")))


def sizes_of(problem: Problem) -> list[float]:
    """The binary logarithms of the sizes that are compared."""
    return [math.log2(problem.size(name)) for name in _SIZES[problem.type]]


@dataclass(frozen=True, eq=False)
class ChoiceGroup:
    """Choices of one group; arrays are (choice,) and sizes (choice, size)."""

    sizes: NDArray[np.float64]
    models: NDArray[np.str_]
    architectures: NDArray[np.str_]

    @classmethod
    def of(cls, queries: Sequence[tuple[Problem, Device]]) -> ChoiceGroup:
        """The group of the problems and devices of choices, which must be of one group."""
        return cls(np.array([sizes_of(problem) for problem, _ in queries]),
                   np.array([device.model for _, device in queries]),
                   np.array([device.architecture for _, device in queries]))

    def distances(self, problem: Problem, device: Device) -> NDArray[np.float64]:
        """The distance of each choice from a problem on a device."""
        apart: NDArray[np.float64] = np.abs(self.sizes - np.array(sizes_of(problem))).sum(axis=1)
        apart += OTHER_GPU * (self.models != device.model)
        apart += OTHER_ARCHITECTURE * (self.architectures != device.architecture)
        return apart


def _version(toolchain: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,6}", toolchain))


class NearestChoices:
    """The choices of a data set that `seqtune import vllm` or `sglang` made."""

    def __init__(self, data: Dataset) -> None:
        queries: dict[tuple[object, ...], list[tuple[Problem, Device]]] = {}
        self._configurations: dict[tuple[object, ...], list[Configuration]] = {}
        rows = data.rows[(data.rows["status"] == Status.CHOSEN.value) & data.rows["kernel"].str.startswith("triton.")]
        newest_first = sorted(rows.itertuples(index=False), key=lambda row: _version(str(row.toolchain)), reverse=True)
        for row in newest_first:
            problem, device = data.known_problems[str(row.problem)], data.devices[str(row.device)]
            if problem.type in _SIZES:
                group = group_of(problem, device)
                queries.setdefault(group, []).append((problem, device))
                self._configurations.setdefault(group, []).append(
                    Configuration.of(str(row.kernel), json.loads(str(row.configuration))))
        if not queries:
            raise FormatError("the data set holds no choices of vLLM or SGLang; `seqtune import sglang` makes one")
        self._groups = {group: ChoiceGroup.of(members) for group, members in queries.items()}

    def propose(self, problem: Problem, device: Device, count: int) -> dict[Configuration, float | None]:
        """Up to `count` distinct choices that are valid here, the nearest first; none if no choice is comparable.

        How fast they are is unknown: the values are None.
        """
        group = group_of(problem, device)
        if group not in self._groups:
            return {}
        task = Task.of(problem, device)
        proposals: dict[Configuration, float | None] = {}
        for index in np.argsort(self._groups[group].distances(problem, device), kind="stable").tolist():
            if len(proposals) == count:
                break
            configuration = self._configurations[group][index]
            if task.find(configuration) is not None:
                proposals[configuration] = None
        return proposals
