"""Hypotheses: the state of a network for the sentences that a beam search continues word by word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..sequence.beam import Allowed
from .transformer import Pairs


@dataclass(frozen=True)
class Hypotheses:
    """The sentences begun so far: the encoded source of each and the decoder's state after its words.

    The pairs are keys and values, or other states, one pair for each layer of the decoder.
    """

    memory: Pairs  # (query, ...): the encoded source of every query
    mask: Tensor | None  # (query, ...): which positions of the source exist; None: all do
    owners: NDArray[np.int64]  # (hypothesis,): index of the query
    selected: tuple[Pairs, Tensor | None]  # (hypothesis, ...): memory and mask of the hypothesis's query
    past: Pairs  # (hypothesis, ...): the decoder's state; no pairs before a word is read

    @classmethod
    def of(cls, memory: Pairs, mask: Tensor | None = None) -> Hypotheses:
        """One hypothesis without words for each query."""
        return cls(memory, mask, np.arange(len(memory[0][0])), (memory, mask), ())

    def follow(self, words: Allowed) -> Hypotheses:
        """The hypotheses that read `words` next: number i continues the old hypothesis `words.after[i]`.

        `past` still lacks the new words. The decoder that reads them makes the past that has them.
        """
        owners = self.owners[words.after]
        selected = self.selected if np.array_equal(owners, self.owners) else self._select(torch.from_numpy(owners))
        return Hypotheses(self.memory, self.mask, owners, selected, _rows(self.past, torch.from_numpy(words.after)))

    def _select(self, owners: Tensor) -> tuple[Pairs, Tensor | None]:
        """Memory and mask of those queries; views instead of copies where there is only one query."""
        if len(self.memory[0][0]) > 1:
            return _rows(self.memory, owners), None if self.mask is None else self.mask[owners]
        return (tuple((_repeated(first, len(owners)), _repeated(second, len(owners)))
                      for first, second in self.memory),
                None if self.mask is None else _repeated(self.mask, len(owners)))


def _rows(pairs: Pairs, rows: Tensor) -> Pairs:
    return tuple((first[rows], second[rows]) for first, second in pairs)


def _repeated(tensor: Tensor, count: int) -> Tensor:
    """A view of a tensor (1, ...) as (count, ...)."""
    return tensor.expand(count, *(-1,) * (tensor.dim() - 1))
