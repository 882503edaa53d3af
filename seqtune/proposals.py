"""Seeds: what a trained translator proposes, and searches that begin with it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import CheckpointError
from .inputs import load_checkpoint, one_thread

if TYPE_CHECKING:
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.space import SearchSpace
    from seqtune.tuner.strategies.strategy import Strategy, StrategyFactory

SEEDS = 8  # configurations of the translator's beam that a search may begin with


def proposed(spaces: Sequence[SearchSpace], checkpoint: str | Path, top: int) -> dict[Configuration, float]:
    """Configurations with their probabilities, most probable first. Raises CheckpointError."""
    loaded = load_checkpoint(checkpoint)
    device = spaces[0].device
    loaded.vocabulary.check([space.kernel for space in spaces])
    if f"backend={device.backend}" not in loaded.vocabulary.words:
        raise CheckpointError(f"the checkpoint {checkpoint} was not trained for {device.backend} devices; "
                              "retrain it with records of one")
    with one_thread() if "torch" in sys.modules else contextlib.nullcontext():  # labels are predicted without it
        found = loaded.propose(spaces, top)
    return {candidate.configuration: candidate.probability for candidate in found}


def seeded(name: str, factory: StrategyFactory) -> str | StrategyFactory:
    """The strategy; one that takes seeds is handed the translator's beam, if the translator knows the kernels."""
    if not getattr(factory, "takes_seeds", False):
        return name
    seeded_factory: Callable[..., Strategy] = factory

    def made(spaces: Sequence[SearchSpace], seed: int, trials: int | None = None,
             seeds: Sequence[Configuration] = (), **known: object) -> Strategy:
        try:
            seeds = (*seeds, *proposed(spaces, "default", SEEDS))
        except CheckpointError:  # it does not know these kernels or this device
            if name == "predictor":
                raise
        return seeded_factory(spaces, seed, trials, seeds=seeds, **known)

    made.__name__ = name
    made.takes_seeds = True  # type: ignore[attr-defined]
    made.takes_history = getattr(factory, "takes_history", False)  # type: ignore[attr-defined]
    return made
