"""Strategy: proposes configurations and is told results. One algorithm a file, named in STRATEGIES.

The tuning loop calls `ask` for a batch, measures it, and calls `tell` once per configuration, in the order measured;
configurations that the journal already holds are told without being measured. `ask` returns an empty list when the
strategy has nothing more to propose; it never proposes the same configuration twice. The same seed and the same told
results give the same proposals. A strategy sees failures (`seconds` is infinite) and must survive a space of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from seqtune.data.record import Measurement
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.space import SearchSpace


class Strategy(Protocol):
    """Made with the spaces of one problem (one per kernel family) and a seed."""

    def ask(self, count: int) -> list[Configuration]:
        """Up to `count` new configurations; fewer near the end or to learn from first, none when done."""
        ...

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        """The result of a configuration that was asked for."""
        ...


class StrategyFactory(Protocol):
    """How a strategy is made. `trials` is how many the budget allows, where it says so; none is bound to use them.

    A factory whose class attribute `takes_history` is true also takes `history=`, a sequence of Past; one whose
    `takes_seeds` is true takes `seeds=`, configurations to begin with, likeliest first (the predictor's beam).
    """

    def __call__(self, spaces: Sequence[SearchSpace], seed: int, trials: int | None = None) -> Strategy: ...




# A new strategy is one new file and one line here.
STRATEGIES: dict[str, str] = {
    "portfolio": "seqtune.tuner.strategies.portfolio:Portfolio",
    "predictor": "seqtune.tuner.strategies.seeded_droplet:Predictor",
    "autotvm": "seqtune.tuner.strategies.autotvm:AutoTVM",
    "droplet": "seqtune.tuner.strategies.droplet:Droplet",
    "evolutionary": "seqtune.tuner.strategies.evolutionary:Evolutionary",
    "annealing": "seqtune.tuner.strategies.annealing:Annealing",
    "local": "seqtune.tuner.strategies.local:Local",
    "random": "seqtune.tuner.strategies.random:Random",
    "exhaustive": "seqtune.tuner.strategies.exhaustive:Exhaustive",
}




