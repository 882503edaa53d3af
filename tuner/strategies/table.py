"""The table of strategies, by name. Importing it imports no strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from seqtune.errors import MisuseError
from seqtune.kernels.lookup import resolve

if TYPE_CHECKING:
    from .strategy import StrategyFactory


@dataclass(frozen=True, slots=True)
class StrategyEntry:
    """An entry of the table of strategies."""

    factory: str  # "module:attribute" of a StrategyFactory
    ends: bool = False  # the strategy ends by itself, so a search with it needs no budget
    seeds: Literal["ignored", "welcome", "required"] = "ignored"  # how it treats the context's seeds


# A new strategy is one new file and one line here.
STRATEGIES: dict[str, StrategyEntry] = {
    "portfolio": StrategyEntry("seqtune.tuner.strategies.portfolio:Portfolio", seeds="welcome"),
    "predictor": StrategyEntry("seqtune.tuner.strategies.droplet:SeededDroplet", seeds="required"),
    "autotvm": StrategyEntry("seqtune.tuner.strategies.autotvm:AutoTVM"),
    "droplet": StrategyEntry("seqtune.tuner.strategies.droplet:Droplet"),
    "evolutionary": StrategyEntry("seqtune.tuner.strategies.evolutionary:Evolutionary"),
    "annealing": StrategyEntry("seqtune.tuner.strategies.annealing:Annealing"),
    "local": StrategyEntry("seqtune.tuner.strategies.local:Local", ends=True),
    "random": StrategyEntry("seqtune.tuner.strategies.random:Random"),
    "exhaustive": StrategyEntry("seqtune.tuner.strategies.random:Exhaustive", ends=True),
}


def strategy_entry(name: str) -> StrategyEntry:
    """The table's entry for a name. Raises MisuseError for an unknown name."""
    if name not in STRATEGIES:
        raise MisuseError(f"no strategy {name!r:.40}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]


def strategy_factory(name: str) -> StrategyFactory:
    """Import the factory of a strategy by name. Raises MisuseError for an unknown name."""
    return cast("StrategyFactory", resolve(strategy_entry(name).factory))
