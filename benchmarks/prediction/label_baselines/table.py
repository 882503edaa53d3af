"""The table of label baselines by name, and the options with which they are fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from seqtune.data.labels import Labels
from seqtune.predictor.choices.classifier_chain import ChainOptions, ChainWords, KernelChain
from seqtune.predictor.learning.choices.mixture_weights import by_device
from seqtune.predictor.learning.choices.predictors import Beam, LabelPredictor
from seqtune.predictor.learning.choices.training import vocabulary_of

from .lookup import Majority, NearestLabels
from .ranker import TreeRanker, TreeRankerOptions


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """Options of all baselines."""

    chains: ChainOptions = field(default_factory=lambda: ChainOptions(threads=1))
    ranker: TreeRankerOptions = field(default_factory=lambda: TreeRankerOptions(threads=1))


def _chains(labels: Mapping[str, Labels], options: BaselineOptions) -> Beam:
    """Chains of boosted trees for each device and kernel, greedy."""
    chains = {group: KernelChain.fit(part, options.chains) for group, part in by_device(labels).items()}
    return Beam(ChainWords(chains, vocabulary_of(labels, None)), width=1)


# A new baseline is one class that follows `LabelPredictor` and one line here.
BASELINES: Mapping[str, Callable[[Mapping[str, Labels], BaselineOptions], LabelPredictor]] = {
    "majority": lambda labels, options: Majority(labels),
    "nearest": lambda labels, options: NearestLabels(labels),
    "trees": _chains,
    "tree_ranker": lambda labels, options: TreeRanker(labels, options.ranker),
}
