"""NearestChoices: the settings that a tuner chose for the most similar layers and GPUs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.data.dataset import Dataset
from seqtune.data.record import Status
from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task

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
