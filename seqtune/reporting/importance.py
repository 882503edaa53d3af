"""Importance: the share of the variance of log time that the value of one parameter explains alone.

This is the correlation ratio eta squared (K. Pearson, 1905), the effect size of a one-way analysis of variance
(R. A. Fisher, Statistical Methods for Research Workers, 1925): the sum of squares between the groups of equal value
divided by the whole sum of squares. Both sums are taken within each problem and added over the problems, so that a
problem's size explains nothing. Also a parameter without effect has a share above 0: with k values and n configurations
of a problem, chance explains (k - 1) / (n - 1) of its variance on average.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cases import Cases

FEWEST = 3  # configurations of a problem, so that a variance has a meaning


def importance(cases: Cases) -> list[dict[str, Any]]:
    """A row for each kernel, parameter and machine where it had several values: `share` and that of `chance`."""
    effects = []
    machine = cases.machine[cases.times["case"].to_numpy()]
    machines = len(cases.measurements.machines)
    pairs = cases.times["kernel"].to_numpy() * machines + machine
    order = np.argsort(pairs, kind="stable")
    distinct, begins = np.unique(pairs[order], return_index=True)
    for pair, rows in zip(distinct.tolist(), np.split(order, begins[1:]), strict=False):
        kernel, number = divmod(pair, machines)
        table, times = cases.tables[kernel], cases.times.iloc[rows]
        values = table.indices[times["configuration"].to_numpy()]
        case, logs = times["case"].to_numpy(), np.log(times["seconds"].to_numpy())
        for column, (name, _) in enumerate(table.parameters):
            shares = explained(case, logs, values[:, column])
            if shares is not None:
                effects.append({"kernel": kernel, "machine": number, "parameter": name, "share": shares[0],
                                "chance": shares[1], "problems": shares[2]})
    return effects


def explained(case: NDArray[np.int64], logs: NDArray[np.float64], value: NDArray[np.int64],
              ) -> tuple[float, float, int] | None:
    """Eta squared of a parameter's value, what chance would give, and the number of cases; None without variance.

    There is an entry for each configuration: its case, its log time and the index of its value.
    """
    if not len(case):
        return None
    _, group, sizes = np.unique(case, return_inverse=True, return_counts=True)
    keep = sizes[group] >= FEWEST
    if not keep.any():
        return None
    _, group, sizes = np.unique(case[keep], return_inverse=True, return_counts=True)
    logs, value = logs[keep], value[keep]
    centred = logs - (np.bincount(group, logs) / sizes)[group]
    whole = np.bincount(group, centred**2)
    _, first, part, members = np.unique(np.stack([group, value]), axis=1, return_index=True, return_inverse=True,
                                        return_counts=True)
    values = np.bincount(group[first], minlength=len(sizes))  # (case,) number of distinct values
    varied = (values > 1) & (whole > 0)
    if not varied.any():
        return None
    sums = np.bincount(part, centred)
    between = np.bincount(group[first], sums**2 / members, minlength=len(sizes))
    total = float(whole[varied].sum())
    chance = float((whole * (values - 1) / (sizes - 1))[varied].sum())
    return float(between[varied].sum()) / total, chance / total, int(varied.sum())
