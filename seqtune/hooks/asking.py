"""Asking: how the doors of other software ask a predictor, and what they say where they leave the choice to a tool.

A door makes the task of a problem that the tool describes, narrows it to what the tool can express, and takes the first
proposals. Where there is none, or where it is less certain than wanted, the tool chooses as it would without seqtune.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.answering import Answering
from seqtune.predictor.candidate import doubt_about

from ..api.inputs import as_device, check_share
from ..errors import DeviceError, KernelError, MisuseError, SeqtuneError, SeqtuneWarning, shown

if TYPE_CHECKING:
    from seqtune.kernels.operations.feature import Value


Bounds: TypeAlias = tuple[int, int]  # the least and the most value of a parameter that a tool can run, inclusive
ANY: Bounds = (-sys.maxsize, sys.maxsize)  # any value, words too


@dataclass(frozen=True, slots=True)
class Asking:
    """For which GPU a door asks, whom, and how certain the answer must be. Raises MisuseError for wrong types."""

    device: Device | str | None = None  # counts where no GPU is running (None: the running one)
    checkpoint: str | Path | None = None  # None: the predictor that answers for the GPU
    min_confidence: float | None = None  # expected share of the best speed below which the tool chooses

    def __post_init__(self) -> None:
        for name, value, kinds in (("device", self.device, (Device, str)),
                                   ("checkpoint", self.checkpoint, (str, Path))):
            if value is not None and not isinstance(value, kinds):
                raise MisuseError(f"{name}={shown(value)} is no {' or '.join(kind.__name__ for kind in kinds)}")
        check_share("min_confidence", self.min_confidence)

    def gpu(self) -> Device:
        """The GPU to predict for. Raises DeviceError where none is running and none is given."""
        return running_device(self.device)

    def propose(self, task: Task, count: int) -> list[Configuration]:
        """Up to `count` configurations of a task, best first.

        Raises SeqtuneError if the first one is not expected to reach the wanted share of the best speed, KernelError
        if the task is empty, and CheckpointError if no predictor knows its kernels.
        """
        candidates = Answering.of(task, self.checkpoint).propose(count)
        first = next(iter(candidates.values()))
        if self.min_confidence is not None and (doubt := doubt_about(first, self.min_confidence)):
            raise SeqtuneError(doubt)
        return list(candidates)


class Tool:
    """A tool with a search of its own, which chooses where nothing is predicted."""

    def __init__(self, alternative: str) -> None:
        self.alternative = alternative  # what the tool does then, as in "Triton tunes"
        self.said: set[str] = set()

    def chooses(self, reason: SeqtuneError) -> None:
        """Warn in one line that the tool chooses and why, once for each reason: a tool asks for many problems."""
        if str(reason) not in self.said:
            self.said.add(str(reason))
            warnings.warn(f"seqtune predicts no configuration, so {self.alternative}: {reason}", SeqtuneWarning,
                          stacklevel=3)


def declared(given: Kernel | str | Path) -> Kernel:
    """The kernel given as itself or as a JSON file that declares one. Raises FormatError, MisuseError."""
    if isinstance(given, Kernel):
        return given
    if not isinstance(given, str | Path):
        raise MisuseError(f"kernel={shown(given)} is no Kernel or str or Path")
    from seqtune.kernels.declaration import read_kernels

    kernels = read_kernels(given)
    if len(kernels) != 1:
        raise MisuseError(f"{given} declares {len(kernels)} kernels; give the one as a Kernel")
    return kernels[0]


def problem_of(family: Kernel, features: Mapping[str, Value]) -> Problem:
    """The problem of a declared kernel; one that is recorded also has the kernel's name. Raises ProblemError."""
    named = dict(features)
    if family.operation == "recorded":
        named.setdefault("kernel", family.name.partition(".")[2])
    return Problem.make(family.operation, **named)


def narrowed(task: Task, allowed: Mapping[str, Bounds]) -> Task:
    """The part of a task that a tool can run: parameters that are not `allowed` keep their defaults.

    Raises KernelError if nothing is left.
    """
    keep = np.ones(len(task), bool)
    for space, part in task.parts():
        default = space.default
        for column, parameter in enumerate(space.kernel.parameters):
            bounds = allowed.get(parameter.name)
            if bounds == ANY:
                continue
            possible = np.array([value == default[parameter.name] if bounds is None else
                                 isinstance(value, int) and bounds[0] <= value <= bounds[1]
                                 for value in parameter.values])
            keep[part] &= possible[space.rows[:, column]]
    return _kept(task, keep)


def fitting(task: Task) -> Task:
    """The part of a task whose stages fit in shared memory if the compiler pipelines both operands.

    A tool that writes sizes as constants shows the compiler more of their divisors than a launch does. So the compiler
    may pipeline an operand that, by the formula of triton.gemm, it does not pipeline in a launch. Raises KernelError if
    nothing is left.
    """
    keep = np.ones(len(task), bool)
    for space, part in task.parts():
        if "ring" in dict(space.kernel.derived):
            columns = space.columns()
            rings = columns["ring"] * (columns["a_bytes"] + columns["b_bytes"]) + columns["thirds"] * columns["b_bytes"]
            keep[part] = rings <= task.device.local_memory
    return _kept(task, keep)


def _kept(task: Task, keep: NDArray[np.bool_]) -> Task:
    """The part of a task that is kept. Raises KernelError if nothing is."""
    if not keep.any():
        names = ", ".join(kernel.name for kernel in task.kernels)
        raise KernelError(f"no configuration of {names} is one that the tool can run")
    return task.narrowed(keep)


def running_device(given: Device | str | None) -> Device:
    """The GPU that PyTorch uses now; without one, the `given` device. Raises DeviceError where there is neither."""
    from seqtune.tuner.backends.triton.discovery import current

    device = current()
    if device is not None:
        return device
    if given is None:
        raise DeviceError("no GPU is running here; name the one to predict for, as in device='triton:h200'")
    if isinstance(given, str) and ":" not in given and (named := described("triton", given)) is not None:
        return named
    return as_device(given)
