"""The table of label baselines by name, and the options with which they are fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from seqtune.integrations.miopen.predictor.chains import Chain
from seqtune.integrations.miopen.predictor.labels import Labels, SolverTimings
from seqtune.integrations.miopen.predictor.learned import LabelWords
from seqtune.integrations.miopen.predictor.learning import Propose, propose
from seqtune.integrations.miopen.predictor.training import vocabulary_of
from seqtune.predictor.sequence.beam import Allowed, Scores
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.tuner.cost_models.boosting import Boosting

from .lookup import Majority, NearestLabels
from .ranker import TreeRanker, TreeRankerOptions


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """Options of all baselines."""

    chains: Boosting = field(default_factory=lambda: Boosting("", rounds=150, depth=6, rate=0.08))
    ranker: TreeRankerOptions = field(default_factory=lambda: TreeRankerOptions(threads=1))


@dataclass(frozen=True)
class NoWords:
    """A translator without an opinion: trees decide alone."""

    vocabulary: Vocabulary

    def start(self, queries: Any, allowed: Allowed) -> tuple[None, Scores]:
        """All words are as probable."""
        return None, np.zeros(len(allowed.words), np.float32)

    def advance(self, state: None, chosen: Allowed, allowed: Allowed) -> tuple[None, Scores]:
        """All words are as probable."""
        return self.start((), allowed)


def _chains(labels: Mapping[str, Labels], options: BaselineOptions) -> Propose:
    """Chains of boosted trees for each device and kernel, greedy."""
    chains = {(device, name): Chain.fit([part], options.chains)[0] for name, own in labels.items()
              for device, part in own.by_device().items()}
    none: Any = np.zeros(0)
    untimed = SolverTimings(none, none, none, (), none)
    return partial(propose, LabelWords(NoWords(vocabulary_of(labels, untimed)), chains, 1.0, {}), width=1)


# A new baseline is a function that returns what proposes, and one line here.
BASELINES: Mapping[str, Callable[[Mapping[str, Labels], BaselineOptions], Propose]] = {
    "majority": lambda labels, options: Majority(labels).propose,
    "nearest": lambda labels, options: NearestLabels(labels).propose,
    "trees": _chains,
    "tree_ranker": lambda labels, options: TreeRanker(labels, options.ranker).propose,
}
