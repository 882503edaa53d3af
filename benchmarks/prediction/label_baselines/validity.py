"""Validity of proposed configurations: whether they are in their search spaces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqtune.integrations.miopen.formats.terms import as_convnd
from seqtune.integrations.miopen.predictor.labels import Labels, Queries
from seqtune.integrations.miopen.predictor.learning import ValueIndices
from seqtune.kernels.enumeration import column_of
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.membership import Membership
from seqtune.kernels.problem_sets.columns import ProblemColumns


def device_rows(queries: Queries) -> dict[str, NDArray[np.int64]]:
    """The rows of queries by the name of their device."""
    names = np.array([device.name for device in queries.devices])
    return {name: np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}


def valid(kernel: Kernel, queries: Queries, indices: ValueIndices) -> NDArray[np.bool_]:
    """Whether each configuration `indices` (query, parameter) is in the search space of its query, (query,).

    Evaluates the constraints over columns, without enumerating the spaces.
    """
    result = np.zeros(len(queries), np.bool_)
    for rows in device_rows(queries).values():
        rows = rows[(indices[rows] >= 0).all(axis=1)]
        if len(rows):
            settings = {parameter.name: column_of(parameter)[indices[rows, column]]
                        for column, parameter in enumerate(kernel.parameters)}
            problems = ProblemColumns.of(list(map(as_convnd, queries.problems[rows])))
            member = Membership(kernel, problems, queries.devices[rows[0]], settings)
            result[rows] = [reason is None for reason in member.reasons]
    return result


def count_invalid(labels: Labels, proposed: ValueIndices) -> int:
    """The number of proposals (label, proposal, parameter) that are outside of their search spaces."""
    return sum(int(((indices >= 0).all(axis=1) & ~valid(labels.kernel, labels, indices)).sum())
               for indices in proposed.transpose(1, 0, 2))
