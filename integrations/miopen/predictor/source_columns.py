"""SourceColumns: the source sentences of many queries of one operation, as columns.

The operation has a sentence of its own. The sentences are those of `Vocabulary.source`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.predictor.sequence.numeric_codes import CODE_SIZE, column_codes
from seqtune.predictor.sequence.source_facts import own_positions, own_values
from seqtune.predictor.sequence.vocabulary import PAD, SourceBatch, Vocabulary, Words

Pair = tuple[Problem, Device]


def fact_columns(pairs: Sequence[Pair]) -> Mapping[str, NDArray[Any]]:
    """The facts of the source sentences of queries, at least one, by name, in order: a column (query,) for each.

    Numbers are float64, NaN where unknown; words are text.
    """
    values = [own_values(problem, device) for problem, device in pairs]
    return {name: np.array([str(row[name]) if isinstance(row[name], str) else np.nan if row[name] is None else row[name]
                            for row in values], str if isinstance(value, str) else np.float64)
            for name, value in values[0].items()}


@dataclass(frozen=True, eq=False)
class SourceColumns:
    """The facts of queries. A fact is a number for all queries, or a word for all."""

    names: Words  # (fact,)
    positions: Words  # (fact,)
    numeric: NDArray[np.bool_]  # (fact,) whether it is a number
    numbers: NDArray[np.float64]  # (query, fact that is a number) NaN: unknown
    words: Words  # (query, fact that is a word)

    @classmethod
    def of(cls, pairs: Sequence[Pair], vocabulary: Vocabulary) -> SourceColumns:
        """Evaluate the facts of queries, at least one."""
        operation = pairs[0][0].type
        facts, positions = fact_columns(pairs), own_positions(operation)
        assert positions is not None
        names = {name: f"{operation}.{name}" for name in facts}
        words = [[vocabulary.word(names[name], text) for text in column.tolist()]
                 for name, column in facts.items() if column.dtype.kind == "U"]
        numbers = [column for column in facts.values() if column.dtype.kind == "f"]
        return cls(np.array([vocabulary.name(name) for name in names.values()]), positions,
                   np.array([column.dtype.kind == "f" for column in facts.values()]), np.stack(numbers, axis=1),
                   np.array(words).T)

    def batch(self, rows: NDArray[np.int64]) -> SourceBatch:
        """The sentences of the queries with these row numbers; they have no quantities."""
        shape = len(rows), len(self.names)
        words, codes = np.full(shape, PAD), np.zeros((*shape, CODE_SIZE), np.float32)
        words[:, ~self.numeric] = self.words[rows]
        codes[:, self.numeric] = column_codes(self.numbers[rows])
        return SourceBatch(np.broadcast_to(self.names, shape).copy(), words, codes,
                           np.ones((len(rows), 1 + int(self.positions[-1])), np.bool_),
                           np.zeros((len(rows), 0), np.float32), np.broadcast_to(self.positions, shape).copy())
