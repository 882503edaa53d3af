"""Choices of other tuners as rows of status `chosen`, and their check against the spaces of the kernels."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel, Setting
from seqtune.kernels.membership import Membership
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns

from ..dataset import ADDED, SCHEMA, TYPES, Dataset
from ..record import Status

RUN = "tuned"


class Choice(NamedTuple):
    """The configuration that a tuner chose for a problem on a device: a value for each parameter, in order."""

    device: Device
    problem: Problem
    kernel: Kernel
    settings: Mapping[str, Setting]
    toolchain: str = ""


def to_dataset(choices: Sequence[Choice], source: str, kernels: Iterable[Kernel] = ()) -> Dataset:
    """The data set of choices, without repeated rows. `kernels` are those that nobody else declares."""
    rows = [{"device": device.key, "problem": problem.key, "kernel": kernel.name, "kernel_version": kernel.version,
             "configuration": json.dumps(dict(settings), separators=(",", ":")), "status": Status.CHOSEN.value,
             "seconds": np.inf, "spread": 0.0, "samples": 0, "error": np.nan, "build_seconds": 0.0, "run": RUN,
             "toolchain": toolchain, **ADDED}
            for device, problem, kernel, settings, toolchain in choices]
    frame = pd.DataFrame(rows, columns=SCHEMA.names).drop_duplicates(ignore_index=True)
    return Dataset(frame.astype(TYPES), {choice.device.key: choice.device for choice in choices},
                   {choice.problem.key: choice.problem for choice in choices}, provenance={"source": source},
                   kernels={kernel.name: kernel for kernel in kernels})


def in_their_spaces(choices: Sequence[Choice], skipped: Counter[str]) -> list[Choice]:
    """The choices that are valid configurations of their kernels, in order; the others are counted by reason."""
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, choice in enumerate(choices):
        groups[choice.kernel.name, choice.device.key].append(number)
    reasons: dict[int, Any] = {}
    for numbers in groups.values():
        part = [choices[number] for number in numbers]
        kernel = part[0].kernel
        columns = {name: np.array([choice.settings[name] for choice in part]) for name in kernel.by_name}
        problems = ProblemColumns.of([choice.problem for choice in part])
        reasons |= zip(numbers, Membership(kernel, problems, part[0].device, columns).reasons, strict=True)
    for number, choice in enumerate(choices):
        if reasons[number] is not None:
            skipped[f"{choice.kernel.name}: {reasons[number]}"] += 1
    return [choice for number, choice in enumerate(choices) if reasons[number] is None]
