"""Rows of kernels that are declared here: what other tools chose or measured, checked against the kernels' spaces."""

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

from ..chosen_tasks import copies_note
from ..dataset import ADDED, SCHEMA, TYPES, Dataset
from ..record import Status
from .format import ImportResult, Report

RUN = "tuned"


class DeclaredRow(NamedTuple):
    """A configuration of a declared kernel that another tool chose, or measured, for a problem on a device."""

    device: Device
    problem: Problem
    kernel: Kernel
    settings: Mapping[str, Setting]  # a value for each parameter, in order
    toolchain: str = ""
    status: Status = Status.CHOSEN
    seconds: float = np.inf
    build_seconds: float = 0.0


def to_dataset(rows: Sequence[DeclaredRow], source: str, kernels: Iterable[Kernel] = ()) -> Dataset:
    """The data set of rows, without repeated ones. `kernels` are those that nobody else declares."""
    frame = pd.DataFrame([{
        "device": row.device.key, "problem": row.problem.key, "kernel": row.kernel.name,
        "kernel_version": row.kernel.version, "configuration": json.dumps(dict(row.settings), separators=(",", ":")),
        "status": row.status.value, "seconds": row.seconds, "spread": 0.0,
        "samples": int(row.status is Status.CORRECT), "error": np.nan, "build_seconds": row.build_seconds, "run": RUN,
        "toolchain": row.toolchain, **ADDED} for row in rows], columns=SCHEMA.names).drop_duplicates(ignore_index=True)
    return Dataset(frame.astype(TYPES), {row.device.key: row.device for row in rows},
                   {row.problem.key: row.problem for row in rows}, provenance={"source": source},
                   kernels={kernel.name: kernel for kernel in kernels})


def imported(rows: Sequence[DeclaredRow], source: str, reports: Sequence[Report],
             kernels: Iterable[Kernel] = ()) -> ImportResult:
    """The result of reading files, with a note about copies."""
    data = to_dataset(rows, source, kernels)
    return ImportResult(data, reports, copies_note(data))


def in_their_spaces(rows: Sequence[DeclaredRow], skipped: Counter[str]) -> list[DeclaredRow]:
    """The rows that are valid configurations of their kernels, in order; the others are counted by reason."""
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        groups[row.kernel.name, row.device.key].append(number)
    reasons: dict[int, Any] = {}
    for numbers in groups.values():
        part = [rows[number] for number in numbers]
        kernel = part[0].kernel
        columns = {name: np.array([row.settings[name] for row in part]) for name in kernel.by_name}
        problems = ProblemColumns.of([row.problem for row in part])
        reasons |= zip(numbers, Membership(kernel, problems, part[0].device, columns).reasons, strict=True)
    for number, row in enumerate(rows):
        if reasons[number] is not None:
            skipped[f"{row.kernel.name}: {reasons[number]}"] += 1
    return [row for number, row in enumerate(rows) if reasons[number] is None]
