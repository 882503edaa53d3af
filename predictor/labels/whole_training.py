"""Training of a whole label checkpoint: the transformer, the trees beside it, their weights, and the finish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.data.formats.miopen_import import tables_of
from seqtune.data.labels import Labels, Races, read_labels, read_races

from ..networks.threads import one_thread
from ..say import Say, silent
from ..training.loop import Progress
from ..training.state import describe
from .checkpoint import LabelCheckpoint
from .label_evaluation import judged_rows, training_part
from .label_options import LabelOptions
from .mixture_weights import Chains, best_weights, grow
from .seen_problems import Learned
from .training import Trained, set_aside, train
from .translator import LabelTranslator

FINISH_EPOCHS, FINISH_RATE = 3, 0.2  # on all problems, after the training on most; the rate as a share of that before


def train_whole(data: Dataset, options: LabelOptions, *, everything: bool = False, trees: bool = True,
                progress: Callable[[Progress], None] | None = None,
                say: Say = silent) -> tuple[LabelCheckpoint, dict[str, Any]]:
    """Train on a data set's labels and races, except those of the held-out tenth of the problems.

    Returns the checkpoint and a report. With `trees` chains of boosted trees stand beside the transformer. With
    `everything` the checkpoint is judged on the held-out problems (its metrics keep the figures), then finished on all
    problems, and its trees are grown from all.
    """
    say("reading the labels")
    labels, races = read_labels(data), read_races(data)
    fitting, timed = training_part(labels, races)
    trained = train(fitting, timed, options, progress, say=say)
    assert isinstance(trained.model, LabelTranslator)
    chains: Chains = {}
    weight = 0.5
    weights: dict[str, float] = {}
    if trees:
        known = {name: one.known() for name, one in fitting.items()}
        parts = {name: set_aside(one, options.validation) for name, one in known.items()}
        if options.validation:
            say("growing trees on a part, to weigh them")
            chains = grow({name: part for name, (part, _) in parts.items()}, options.threads, options.seed)
            weight, weights = best_weights(trained.model, trained.vocabulary, chains,
                                           {name: aside for name, (_, aside) in parts.items()})
        say("growing trees")
        chains = grow(known, options.threads, options.seed)
    metrics = {name: value for name, value in trained.report.items() if name != "history"}
    provenance: dict[str, Any] = {"source": data.provenance.get("source", ""), "options": describe(options)}
    found = LabelCheckpoint(trained.model.size, trained.model.arrays(), trained.vocabulary, tables_of(data), chains,
                            weight, weights, _learned(fitting, timed), provenance, metrics, options.seed)
    if everything:
        found = _finished(found, labels, races, options, progress, say)
    return found, trained.report


def _finished(found: LabelCheckpoint, labels: dict[str, Labels], races: Races | None, options: LabelOptions,
              progress: Callable[[Progress], None] | None, say: Say) -> LabelCheckpoint:
    """The checkpoint after it has learned from the held-out problems, too, on which it is judged before."""
    with one_thread():
        held_out: Any = judged_rows(found, labels, races, say)
    every = {name: one for name, one in labels.items() if name in found.kernels()}
    say("finishing on everything")
    finish = replace(options, epochs=FINISH_EPOCHS, rate=options.rate * FINISH_RATE, validation=0,
                     state=None if options.state is None else options.state / "finish")
    trained = train(every, races, finish, progress, Trained(found.model, found.vocabulary, {}), say=say)
    assert isinstance(trained.model, LabelTranslator)
    chains = found.chains
    if chains:
        say("growing trees on everything")
        chains = grow({name: one.known() for name, one in every.items()}, options.threads, options.seed)
    learned = {name: trained.report[name] for name in ("labels", "races")}
    return replace(found, state=trained.model.arrays(), chains=chains, learned=_learned(every, races),
                   provenance={**found.provenance, "finished": {"epochs": FINISH_EPOCHS, "rate": finish.rate,
                                                                "on": "held-out problems, too", **learned}},
                   metrics={**found.metrics, "held_out": held_out})


def _learned(labels: dict[str, Labels], races: Races | None) -> Learned:
    hashes = [one.questions.hashes for one in labels.values()]
    return Learned.of(np.concatenate(hashes if races is None else [*hashes, races.hashes]))
