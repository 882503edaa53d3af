"""Left out: the weights of a mixture's experts on chips without choices, learned by leaving out each chip in turn.

A tuner's habits differ from chip to chip more than times do, so what the trees learn counts less there, and the nearest
problem and the analytic model more. For each chip of the training, trees and a table of winners that know only the
other chips propose for some of its problems. Translator and judge take no part: to train them anew for each chip would
take too long, so their weights stay the prior's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqtune.kernels.devices.accelerators import chip_of
from seqtune.kernels.task import ChosenTask, Task

from ..say import Say, silent
from ..trees.cost_trees import Trees, TreesOptions
from ..trees.ranker import Ranker
from .fitting import fit_weights, observe
from .mixture import Candidates, Mixture
from .weights import PRIOR, Weights
from .winners import Entry, Winners

LEARNED, JUDGED = 600, 40  # tasks on other chips that the trees learn from, and tasks on the chip that judge them
ROUNDS, RATE = 100, 0.15  # of the trees
# What is believed on chips without choices: the analytic model, which needs none, counts more than elsewhere
BELIEVED = Weights(base={**PRIOR.base, "analytic": -1.0})


@dataclass(frozen=True)
class TreesAndWinners:
    """Experts without a translator: trees that rank every configuration, and a mixture."""

    ranker: Ranker
    mixture: Mixture

    @classmethod
    def of(cls, fitting: Sequence[ChosenTask], options: TreesOptions) -> TreesAndWinners:
        """Experts that know only these tasks."""
        trees = Trees(fitting, replace(options, rounds=ROUNDS, rate=RATE, models=1))
        return cls(Ranker.of(trees), Mixture.learned(Winners.of(map(Entry.of, fitting))))

    def consulted(self, tasks: Sequence[Task], width: int) -> list[Candidates]:
        """The candidates of the trees, all of which count the same, and of the other experts."""
        candidates = []
        for task in tasks:
            slowness = self.ranker.slowness(task, np.arange(len(task)))
            numbers = np.argsort(slowness, kind="stable")[:width]
            joined = self.mixture.joined(task, numbers, np.zeros(len(numbers)))
            members = self.ranker.members(task, joined.numbers).astype(np.float64)
            candidates.append(replace(joined, members=members, log_probabilities=np.zeros(len(joined.numbers))))
        return candidates


def unseen_weights(fitting: Sequence[ChosenTask], options: TreesOptions, say: Say = silent) -> Weights:
    """The weights on chips without choices; those that are believed if the tasks are of one chip.

    `say` receives a line for each chip.
    """
    generator = np.random.default_rng(options.seed)
    chips: dict[str, list[ChosenTask]] = {}
    for task in fitting:
        chips.setdefault(chip_of(task.device), []).append(task)
    observed = []
    for number, (chip, own) in enumerate(sorted(chips.items()), 1):
        say(f"weights on new chips: trees without {chip} ({number} of {len(chips)})")
        others = _drawn([task for task in fitting if chip_of(task.device) != chip], LEARNED, generator)
        if others:
            experts = TreesAndWinners.of(others, options)
            known = {kernel for task in others for kernel in task.task.kernels}
            judged = [task for task in _drawn(own, JUDGED, generator) if known.issuperset(task.task.kernels)]
            observed += [result for task in judged if (result := observe(experts, task)) is not None]
    return fit_weights(observed, BELIEVED)


def _drawn(tasks: Sequence[ChosenTask], count: int, generator: np.random.Generator) -> list[ChosenTask]:
    chosen = np.sort(generator.permutation(len(tasks))[:count])
    return [tasks[index] for index in chosen.tolist()]
