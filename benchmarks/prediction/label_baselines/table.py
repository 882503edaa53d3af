"""The table of label baselines by name, and the options with which they are fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from seqtune.data.labels import Labels
from seqtune.predictor.labels.classifier_chain import ChainOptions, ChainWords, KernelChain
from seqtune.predictor.labels.mixture_weights import by_device
from seqtune.predictor.labels.options import LabelOptions
from seqtune.predictor.labels.predictors import Beam, LabelPredictor
from seqtune.predictor.labels.training import train_network, vocabulary_of
from seqtune.predictor.labels.translator import LabelWords

from .lookup import Majority, NearestLabels
from .lstm import RecurrentTranslator
from .rankers import TreeRanker, TreeRankerOptions, TwoTowerRanker

NETWORKS = LabelOptions(epochs=20, threads=1, batch=256, rate=2e-3, smoothing=0.05, even=0.8, most=3.0, validation=0)


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """Options of all baselines."""

    networks: LabelOptions = NETWORKS  # the two-tower ranker and the LSTM
    chains: ChainOptions = field(default_factory=lambda: ChainOptions(threads=1))
    ranker: TreeRankerOptions = field(default_factory=lambda: TreeRankerOptions(threads=1))


def _chains(labels: Mapping[str, Labels], options: BaselineOptions) -> Beam:
    """Chains of boosted trees for each device and kernel, greedy."""
    chains = {group: KernelChain.fit(part, options.chains) for group, part in by_device(labels).items()}
    return Beam(ChainWords(chains, vocabulary_of(labels, None)), width=1)


def _lstm(labels: Mapping[str, Labels], options: BaselineOptions) -> Beam:
    recurrent = train_network(labels, None, replace(options.networks, rate=3e-3), make=RecurrentTranslator)
    return Beam(LabelWords(recurrent.model, recurrent.vocabulary), width=1)


# A new baseline is one class that follows `LabelPredictor` and one line here.
BASELINES: Mapping[str, Callable[[Mapping[str, Labels], BaselineOptions], LabelPredictor]] = {
    "majority": lambda labels, options: Majority(labels),
    "nearest": lambda labels, options: NearestLabels(labels),
    "trees": _chains,
    "tree_ranker": lambda labels, options: TreeRanker(labels, options.ranker),
    "two_towers": lambda labels, options: TwoTowerRanker(labels, options.networks),
    "lstm": _lstm,
}
