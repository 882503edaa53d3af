"""Baselines of labels by name, and how they are fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from seqtune.data.labels import Labels

from ...say import Say, silent
from ..classifier_chain import ChainOptions, ChainWords, KernelChain
from ..label_options import LabelOptions
from ..methods import Beam, Method
from ..training import train, vocabulary_of
from ..translator import LabelWords
from .lookup import Majority, Nearest, by_device
from .lstm import Recurrent
from .rankers import Candidates, TreeRanker, TreeRankerOptions, TwoTowers, seen_places


def network_options(epochs: int = 20, threads: int = 2) -> LabelOptions:
    """How the two-tower ranker and the LSTM are trained."""
    return LabelOptions(epochs=epochs, threads=threads, batch=256, rate=2e-3, smoothing=0.05, even=0.8, most=3.0,
                        validation=0)


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """How the baselines are fitted."""

    networks: LabelOptions = field(default_factory=network_options)
    chains: ChainOptions = field(default_factory=lambda: ChainOptions(threads=2))
    ranker: TreeRankerOptions = field(default_factory=TreeRankerOptions)


@dataclass(frozen=True)
class Fitting:
    """What baselines are fitted to; what several of them share is made once."""

    labels: Mapping[str, Labels]  # by kernel; none of them is judged
    options: BaselineOptions

    @cached_property
    def chains(self) -> ChainWords:
        """Boosted trees for each device and kernel."""
        groups = by_device(self.labels)
        return ChainWords({group: KernelChain.fit(labels, self.options.chains) for group, labels in groups.items()},
                          vocabulary_of(self.labels, None))


def _lstm(fitting: Fitting) -> Beam:
    recurrent = train(fitting.labels, None, replace(fitting.options.networks, rate=3e-3), make=Recurrent)
    return Beam(LabelWords(recurrent.model, recurrent.vocabulary), width=1)


# A new baseline is one class that follows `Method` and one line here.
BASELINES: Mapping[str, Callable[[Fitting], Method]] = {
    "majority": lambda fitting: Majority(fitting.labels),
    "nearest": lambda fitting: Nearest(fitting.labels),
    "trees": lambda fitting: Beam(fitting.chains, width=1),
    "trees_beam": lambda fitting: Beam(fitting.chains),
    "tree_ranker": lambda fitting: TreeRanker(fitting.labels, fitting.options.ranker),
    "two_towers": lambda fitting: Candidates(TwoTowers.fit(fitting.labels, fitting.options.networks),
                                             seen_places(fitting.labels)),
    "lstm": _lstm,
}


def fit_baselines(labels: Mapping[str, Labels], progress: Say = silent, options: BaselineOptions | None = None,
                  names: Iterable[str] = tuple(BASELINES)) -> dict[str, Method]:
    """The named baselines, fitted on the same labels."""
    fitting = Fitting(labels, options or BaselineOptions())
    methods = {}
    for name in BASELINES:
        if name in names:
            progress(f"fitting {name}")
            methods[name] = BASELINES[name](fitting)
    return methods
