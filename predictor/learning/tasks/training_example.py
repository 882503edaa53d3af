"""TrainingExample: one problem on one device, with times that were measured or estimated by the teacher."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.tuner.cost_models.machine_ratios import jittered

from ...sequence.vocabulary import Sentence, Vocabulary
from ...training.options import TrainingOptions
from .targets import Landscape, PrefixTree, TargetSentences

EXPLORE = 0.25  # share of sentences drawn from a flatter distribution (4 tau), for the beam's other paths


@dataclass(frozen=True, slots=True)
class DrawnExample:
    """The part of an example that a step reads."""

    source: Sentence
    sentences: TargetSentences
    landscape: Landscape
    anchored: float


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """One problem on one device: the source sentence, and the wanted next words after every prefix."""

    source: Sentence
    tree: PrefixTree
    problem: Problem
    device: Device
    anchored: float = 0.0  # the anchor's share in the wanted probabilities, if there is an anchor

    def drawn(self, seed: int, vocabulary: Vocabulary, options: TrainingOptions) -> DrawnExample:
        """Draw sentences, configurations for the judge, and rates of the device as another measurement might give."""
        generator = np.random.default_rng(seed)
        return DrawnExample(
            vocabulary.with_ratios(self.source, self.problem, jittered(self.device, generator)),
            self.tree.sample(generator, options.sentences, EXPLORE),
            self.tree.landscape(generator, options.listed), self.anchored)
