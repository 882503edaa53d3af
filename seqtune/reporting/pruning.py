"""Pruning: how many combinations of values each constraint excludes, for a problem of each kernel and machine.

A constraint is counted over the combinations of the parameters that it reads, also through derived quantities; where
these are too many, over a sample of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.enumeration import column_of
from seqtune.kernels.kernel import Constraint, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace

from ..errors import SeqtuneError
from .cases import Cases

MOST_EXAMPLES = 24  # pairs of kernel and machine
MOST_COUNTED = 500_000  # combinations that a constraint is evaluated on; more are sampled
SAMPLE = 100_000  # combinations: a share is then known to 0.3 percent points (two standard errors of a half)


def pruning(cases: Cases, seed: int = 0) -> dict[str, Any]:
    """The `examples`: for each kernel and machine, the problem with the most measured configurations; and what is
    `undeclared`: kernels whose constraints no library in use declares."""
    tried = cases.rows.drop_duplicates(["case", "kernel", "configuration"]).groupby(["kernel", "case"]).size()
    counts = tried.reset_index(name="measured")
    counts["machine"] = cases.machine[counts["case"].to_numpy()]
    chosen = counts.loc[counts.groupby(["kernel", "machine"])["measured"].idxmax()]
    examples: list[dict[str, Any]] = []
    for kernel, case, measured, machine in chosen.itertuples(index=False, name=None):
        family, device = cases.tables[kernel].kernel, cases.measurements.machines[machine].device
        if family is not None and device is not None and len(examples) < MOST_EXAMPLES:
            problem = cases.measurements.problems[cases.problems[cases.problem[case]]]
            example = pruned(family, problem, device, seed)
            if example is not None:
                examples.append({"kernel": int(kernel), "machine": int(machine), "problem": problem.key,
                                 "measured": int(measured), **example})
    return {"examples": examples, "undeclared": [table.name for table in cases.tables if table.kernel is None]}


def pruned(kernel: Kernel, problem: Problem, device: Device, seed: int = 0) -> dict[str, Any] | None:
    """The combinations of a kernel's values, those that are left, and the share that each constraint alone excludes.

    None if the kernel does not solve the problem, or its space cannot be enumerated.
    """
    try:
        left = len(SearchSpace(kernel, problem, device))
        names: dict[str, Any] = {**device.names(), **problem.names()}
        for name, expression in kernel.split_derived()[0]:
            names[name] = expression(names)
        generator = np.random.default_rng(seed)
        excluded = [_excluded(kernel, constraint, names, generator) for constraint in kernel.constraints]
    except SeqtuneError:
        return None
    constraints = [{"reason": constraint.reason, "expression": constraint.expression.text, "share": share,
                    "sampled": sampled}
                   for constraint, (share, sampled) in zip(kernel.constraints, excluded, strict=True)]
    return {"combinations": math.prod(len(parameter.values) for parameter in kernel.parameters), "left": left,
            "constraints": constraints}


def _excluded(kernel: Kernel, constraint: Constraint, names: dict[str, Any],
              generator: np.random.Generator) -> tuple[float, bool]:
    """The share of all combinations that break a constraint, and whether it comes from a sample."""
    read, derived = set(constraint.expression.names), []
    for name, expression in reversed(kernel.derived):
        if name in read and name not in names:
            derived.append((name, expression))
            read.update(expression.names)
    parameters = [parameter for parameter in kernel.parameters if parameter.name in read]
    sizes = [len(parameter.values) for parameter in parameters]
    count = math.prod(sizes)
    sampled = count > MOST_COUNTED
    indices: list[NDArray[Any]] = ([generator.integers(size, size=SAMPLE) for size in sizes] if sampled else
                                   list(np.unravel_index(np.arange(count), sizes)) if sizes else [])
    values = dict(names)
    for parameter, index in zip(parameters, indices, strict=True):
        values[parameter.name] = column_of(parameter)[index]
    for name, expression in reversed(derived):
        values[name] = expression(values)
    valid = np.asarray(constraint.expression(values), bool)
    return 1 - float(valid.mean()), sampled
