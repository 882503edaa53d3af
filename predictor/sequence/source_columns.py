"""SourceColumns: the source sentences of many queries of one operation, as columns.

The facts of an operation's own sentence are evaluated over columns, a hundred thousand queries in a second. The
sentences are those of `Vocabulary.source`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import Queries
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem

from .numeric_codes import CODE_SIZE, column_codes
from .source_facts import device_names, own_facts, own_positions, own_values
from .vocabulary import PAD, SourceBatch, Vocabulary, Words


def fact_columns(queries: Queries) -> dict[str, NDArray[Any]]:
    """The facts of an operation's own sentence by name, in its order: a column (query,) for each.

    Numbers are float64, NaN where unknown; words are text. All queries are of one operation.
    """
    queries = queries.compact()
    columns = queries.problems.columns
    values: dict[str, Any] = {name: column[queries.problem] for name, column in columns.values.items()}
    known: dict[str, Any] = {name: column[queries.problem] for name, column in columns.known.items()}
    devices = [device_names(device) for device in queries.devices]
    for name in dict.fromkeys(name for names in devices for name in names):
        given = [names.get(name) for names in devices]
        filler = next(value for value in given if value is not None)
        values[name] = np.array([filler if value is None else value for value in given])[queries.device]
        known[name] = np.array([value is not None for value in given])[queries.device]
    facts: dict[str, NDArray[Any]] = {}
    for name, expression in own_facts(columns.operation.name).items():
        if not known.keys() >= set(expression.names):  # no device has such a fact
            facts[name] = np.full(len(queries), np.nan)
            continue
        column: NDArray[Any] = np.broadcast_to(np.asarray(expression(values)), len(queries))
        values[name], known[name] = column, np.all([known[used] for used in expression.names], axis=0)
        facts[name] = (np.where(known[name], column, np.nan) if column.dtype.kind in "biuf" else column.astype(str))
    return facts


def few_fact_columns(pairs: Sequence[tuple[Problem, Device]]) -> dict[str, NDArray[Any]]:
    """The columns of `fact_columns` for a few queries, from the values that their source sentences have anyway."""
    values = [own_values(problem, device) for problem, device in pairs]
    return {name: np.array([str(row[name]) if isinstance(row[name], str) else np.nan if row[name] is None else row[name]
                            for row in values], str if isinstance(value, str) else np.float64)
            for name, value in values[0].items()}


@dataclass(frozen=True, eq=False)
class SourceColumns:
    """The facts of queries. A fact is a number for all queries, or a word for all."""

    names: Words  # (fact,)
    positions: Words  # (fact,)
    numbers: NDArray[np.float64]  # (query, fact that is a number) NaN: unknown
    words: Words  # (query, fact that is a word)
    numeric: NDArray[np.bool_]  # (fact,) whether it is a number

    @classmethod
    def of(cls, queries: Queries, vocabulary: Vocabulary) -> SourceColumns:
        """Evaluate the facts of queries, all of one operation with a sentence of its own."""
        type_name = queries.problems.columns.operation.name
        facts, positions = fact_columns(queries), own_positions(type_name)
        assert positions is not None
        numeric = np.array([column.dtype.kind == "f" for column in facts.values()])
        words = []
        for name, column in facts.items():
            if column.dtype.kind != "f":
                texts, index = np.unique(column, return_inverse=True)
                words.append(np.array([vocabulary.word(f"{type_name}.{name}", str(text)) for text in texts])[index])
        return cls(np.array([vocabulary.name(f"{type_name}.{name}") for name in facts]), positions,
                   np.stack([column for column in facts.values() if column.dtype.kind == "f"], axis=1),
                   np.stack(words, axis=1), numeric)

    def __len__(self) -> int:
        return len(self.numbers)

    def batch(self, rows: NDArray[np.int64]) -> SourceBatch:
        """The source sentences of the queries with these row numbers; they have no quantities."""
        count, facts = len(rows), len(self.names)
        words, codes = np.full((count, facts), PAD), np.zeros((count, facts, CODE_SIZE), np.float32)
        words[:, ~self.numeric] = self.words[rows]
        codes[:, self.numeric] = column_codes(self.numbers[rows])
        return SourceBatch(np.broadcast_to(self.names, (count, facts)).copy(), words, codes,
                           np.ones((count, 1 + int(self.positions[-1])), np.bool_), np.zeros((count, 0), np.float32),
                           np.broadcast_to(self.positions, (count, facts)).copy())
