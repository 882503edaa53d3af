"""Sentences: the valid target sentences of some tasks, as the arguments of Hugging Face's `generate`.

`generate` runs an ordinary beam search over the target vocabulary. The search spaces decide which words may follow
(`allowed`), probabilities are renormalised over those words, and a finished sentence continues with <pad> at no cost
until the longest one has ended. `seqtune.predictor.sequence.beam` searches in the same way, so the beams are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.task import Task

from ..sequence.grammar import BatchGrammar, Prefixes, Quantities
from ..sequence.vocabulary import BEGIN, PAD, SourceBatch, Vocabulary
from .translator import Source


@dataclass(frozen=True, eq=False)
class _Node:
    """A beginning of a sentence and the words that may follow it."""

    resolved: Quantities  # (T, derived) resolved by the words so far, <begin> included
    words: NDArray[np.int64]  # (word,) allowed next
    prefixes: Prefixes  # (word,) the prefix with that word; the same prefix if the sentence has ended
    following: Quantities  # (word, derived) resolved by each word


class Sentences:
    """The sentences of several tasks. Raises CheckpointError for a kernel that the vocabulary lacks."""

    def __init__(self, vocabulary: Vocabulary, tasks: Sequence[Task]) -> None:
        self.vocabulary = vocabulary
        self.tasks = tuple(tasks)
        self._grammar = BatchGrammar(vocabulary, tasks)
        self._first = self._grammar.begin()
        self._nodes: dict[tuple[int, ...], _Node] = {}

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `generate`, to which `num_beams` and `num_return_sequences` can be added."""
        source = Source.of(SourceBatch.of([self.vocabulary.source(task.problem, task.device) for task in self.tasks]))
        return {**source._asdict(), "sentences": self, "prefix_allowed_tokens_fn": self.allowed,
                "decoder_start_token_id": BEGIN, "pad_token_id": PAD, "max_length": self.vocabulary.longest + 1,
                "renormalize_logits": True, "length_penalty": 0.0, "use_cache": False}

    def allowed(self, task: int, words: Tensor) -> list[int]:
        """The words that may follow `words` (T,), which begin with <begin>: `prefix_allowed_tokens_fn`."""
        following: list[int] = self._node((task, *words.tolist())).words.tolist()
        return following

    def resolved(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """The quantities that words (sentence, T) resolve, and those that each target word would resolve next.

        Their shapes are (sentence, T, D) and (sentence, 1, V, D). Each task has equally many sentences, in order.
        """
        each = len(words) // len(self.tasks)
        nodes = [self._node((number // each, *row)) for number, row in enumerate(words.tolist())]
        following = np.full((len(nodes), 1, len(self.vocabulary.targets), len(self.vocabulary.derived)), np.nan,
                            np.float32)
        for number, node in enumerate(nodes):
            following[number, 0, node.words] = node.following
        return (torch.from_numpy(np.stack([node.resolved for node in nodes])).to(words.device),
                torch.from_numpy(following).to(words.device))

    def configurations(self, sequences: Tensor) -> list[list[Configuration]]:
        """The configurations of each task in the result of `generate`, best first.

        If there are fewer sentences than beams, further beams repeat a sentence or are empty (-1 for each word); these
        are left out.
        """
        each = len(sequences) // len(self.tasks)
        configurations: list[dict[Configuration, None]] = [{} for _ in self.tasks]
        for number, row in enumerate(sequences.tolist()):
            if row[-1] < 0:
                continue
            node = self._node((number // each, *row))
            space, begin = int(node.prefixes.space[0]), int(node.prefixes.begin[0])
            configurations[number // each].setdefault(self._grammar.spaces[space][begin])
        return [list(distinct) for distinct in configurations]

    def _node(self, key: tuple[int, ...]) -> _Node:
        """The node for a task's number, <begin> and words; nodes are kept."""
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = self._make(key)
        return node

    def _make(self, key: tuple[int, ...]) -> _Node:
        task, *words = key
        unresolved = np.full((1, len(self.vocabulary.derived)), np.nan, np.float32)
        if len(words) == 1:
            own = np.flatnonzero(self._first.after == task)
            prefixes = self._first.prefixes.select(own)
            return _Node(unresolved, self._first.words[own], prefixes, prefixes.resolved)
        before = self._node(key[:-1])
        last = np.flatnonzero(before.words == words[-1])
        prefix, column = before.prefixes.select(last), len(words) - 2  # the words begin with <begin> and the kernel's
        resolved = np.concatenate([before.resolved, before.following[last]])
        if column >= len(self._grammar.spaces[int(prefix.space[0])].kernel.parameters):
            return _Node(resolved, np.array([PAD]), prefix, unresolved)
        following = self._grammar.follow(prefix, column)
        return _Node(resolved, following.words, following.prefixes, following.prefixes.resolved)
