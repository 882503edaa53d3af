"""FactVectors: the encoder's input for facts of problems and devices, remembered by fact.

They are what `seqtune.predictor.times.translator.SourceWords` computes, centred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from seqtune.kernels.devices.device import Device
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.problem import Problem

from ...sequence.vocabulary import Vocabulary
from ...translator.numpy_layers import Linear, Tensors
from ...translator.rows import Floats, Numbers, centred, gelu

MOST_REMEMBERED = 10_000  # facts; 5 MB at a width of 128


class FactVectors:
    """The vectors of source positions; each depends on the name and value of one fact."""

    def __init__(self, tensors: Tensors, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._name, self._word = tensors["source.name.weight"], tensors["source.word.weight"]
        self._code, self._mix = Linear.of(tensors, "source.code"), Linear.of(tensors, "source.mix")
        self._remembered: dict[tuple[str, Value], Floats] = {}

    def read(self, queries: Sequence[tuple[Problem, Device]]) -> tuple[Floats, Numbers, Floats]:
        """The vectors (position, W) of the source sentences, one after the other; their lengths; and quantities.

        Shapes: lengths (query,), quantities (query, quantity).
        """
        sources = [self._vocabulary.facts(problem, device) for problem, device in queries]
        remembered = self._remember(dict.fromkeys(fact for facts in sources for fact in facts))
        return (np.stack([remembered[fact] for facts in sources for fact in facts]),
                np.array([len(facts) for facts in sources]),
                np.stack([self._vocabulary.fact_quantities(facts) for facts in sources]))

    def _remember(self, facts: Mapping[tuple[str, Value], None]) -> Mapping[tuple[str, Value], Floats]:
        """Vectors of these facts and of others. Threads share the dictionary, so it only grows, or is replaced."""
        remembered = self._remembered
        fresh = [fact for fact in facts if fact not in remembered]
        if len(remembered) + len(fresh) > MOST_REMEMBERED:
            remembered = self._remembered = {}
            fresh = list(facts)
        if fresh:
            sentence = self._vocabulary.sentence(fresh)
            embedded = self._name[sentence.names] + self._word[sentence.words]
            vectors = centred(embedded + self._mix(gelu(self._code(sentence.codes) + embedded)))
            remembered.update(zip(fresh, vectors, strict=True))
        return remembered
