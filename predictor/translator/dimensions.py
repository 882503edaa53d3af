"""Dimensions: the sizes of a translator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..sequence.numeric_codes import CODE_SIZE
from ..sequence.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The sizes of a translator. The first eight follow from the vocabulary and its numeric codes (see `of`)."""

    names: int
    words: int
    targets: int
    groups: int
    derived: int
    longest: int  # target words of the longest sentence
    code: int
    quantities: int  # compared with the values of target words; 0: a word means the same for every problem
    width: int = 128
    layers: int = 3  # in the encoder
    decoder_layers: int = 0  # 0: as many as in the encoder
    heads: int = 4
    hidden: int = 256  # width of the feed-forward blocks
    dropout: float = 0.1
    word_dropout: float = 0.05  # source words read as <unknown> in training, so that <unknown> gets a meaning
    number_dropout: float = 0.01  # the same for numbers
    judge: int = 0  # hidden width of the judge of whole configurations; 0: none
    facts: int = 0  # of the one operation whose sentence says which facts share a position; 0: each has its own

    @property
    def fixed_words(self) -> bool:
        """Whether a target word has the same vector for every problem and after every prefix."""
        return not self.quantities and not self.derived

    @property
    def depth(self) -> int:
        """The number of the decoder's layers."""
        return self.decoder_layers or self.layers

    @classmethod
    def of(cls, vocabulary: Vocabulary, **options: Any) -> Dimensions:
        """The dimensions for a vocabulary; `options` are values of the fields from `quantities` on."""
        return cls(len(vocabulary.names), len(vocabulary.words), len(vocabulary.targets),
                   len(vocabulary.parameter_names), len(vocabulary.derived), vocabulary.longest, CODE_SIZE,
                   **{"quantities": len(vocabulary.quantities), **options})
