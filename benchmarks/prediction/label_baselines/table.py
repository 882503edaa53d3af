"""The table of label baselines by name, and the options with which they are fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from seqtune.data.labels import Labels
from seqtune.predictor.labels.classifier_chain import ChainOptions, ChainWords, KernelChain
from seqtune.predictor.labels.mixture_weights import by_device
from seqtune.predictor.labels.options import LabelOptions
from seqtune.predictor.labels.predictors import Beam, LabelPredictor
from seqtune.predictor.labels.training import train_network, vocabulary_of
from seqtune.predictor.labels.translator import LabelWords
from seqtune.predictor.say import Say, silent

from .lookup import Majority, NearestLabels
from .lstm import RecurrentTranslator
from .rankers import RankedLabels, TreeRanker, TreeRankerOptions, TwoTowerRanker, seen_labels


def network_options(epochs: int = 20, threads: int = 2) -> LabelOptions:
    """The training options of the two-tower ranker and the LSTM."""
    return LabelOptions(epochs=epochs, threads=threads, batch=256, rate=2e-3, smoothing=0.05, even=0.8, most=3.0,
                        validation=0)


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """Options of all baselines."""

    networks: LabelOptions = field(default_factory=network_options)
    chains: ChainOptions = field(default_factory=lambda: ChainOptions(threads=2))
    ranker: TreeRankerOptions = field(default_factory=TreeRankerOptions)


@dataclass(frozen=True)
class FittingData:
    """The data and options that baselines are fitted with; what several baselines share is computed once."""

    labels: Mapping[str, Labels]  # by kernel, without the labels to judge
    options: BaselineOptions

    @cached_property
    def chains(self) -> ChainWords:
        """Chains of boosted trees for each device and kernel."""
        groups = by_device(self.labels)
        return ChainWords({group: KernelChain.fit(labels, self.options.chains) for group, labels in groups.items()},
                          vocabulary_of(self.labels, None))


def _lstm(fitting: FittingData) -> Beam:
    options = replace(fitting.options.networks, rate=3e-3)
    recurrent = train_network(fitting.labels, None, options, make=RecurrentTranslator)
    return Beam(LabelWords(recurrent.model, recurrent.vocabulary), width=1)


# A new baseline is one class that follows `LabelPredictor` and one line here.
BASELINES: Mapping[str, Callable[[FittingData], LabelPredictor]] = {
    "majority": lambda fitting: Majority(fitting.labels),
    "nearest": lambda fitting: NearestLabels(fitting.labels),
    "trees": lambda fitting: Beam(fitting.chains, width=1),
    "trees_beam": lambda fitting: Beam(fitting.chains),
    "tree_ranker": lambda fitting: TreeRanker(fitting.labels, fitting.options.ranker),
    "two_towers": lambda fitting: RankedLabels(TwoTowerRanker.fit(fitting.labels, fitting.options.networks),
                                             seen_labels(fitting.labels)),
    "lstm": _lstm,
}


def fit_baselines(labels: Mapping[str, Labels], progress: Say = silent, options: BaselineOptions | None = None,
                  names: Iterable[str] = tuple(BASELINES)) -> dict[str, LabelPredictor]:
    """Fit the named baselines to the same labels; methods by name."""
    fitting = FittingData(labels, options or BaselineOptions())
    methods = {}
    for name in BASELINES:
        if name in names:
            progress(f"fitting {name}")
            methods[name] = BASELINES[name](fitting)
    return methods
