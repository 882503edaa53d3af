"""Training of a whole label checkpoint: the transformer, the boosted trees, their weights, and the final epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.data.formats.miopen_import import tables_of
from seqtune.data.labels import Labels, SolverTimings, read_labels, read_solver_timings

from ...checkpoint import Checkpoint
from ...choices.choice_trees import ChoiceTrees
from ...choices.learned import LearnedChoices
from ...choices.seen_problems import SeenProblems
from ...say import Say, silent
from ...training.progress import Progress
from ...training.state import describe
from ...training.unfinished import FINISH
from ...translator.threads import one_thread
from .evaluation import held_out_scores, training_part
from .mixture_weights import EVEN, best_weights, grow
from .options import ChoiceOptions
from .training import ChoiceTrainingResult, split_validation, train_network

FINISH_EPOCHS, FINISH_RATE = 3, 0.2  # on all problems; the rate is a share of the training's


def train_model(data: Dataset, options: ChoiceOptions, *, everything: bool = False, trees: bool = True,
                progress: Callable[[Progress], None] | None = None,
                say: Say = silent) -> tuple[Checkpoint, dict[str, Any]]:
    """Train on the labels and timings of a data set, except those of the held-out tenth of the problems.

    Returns the checkpoint and a report. With `trees` chains of boosted trees are mixed with the transformer. With
    `everything` the checkpoint is scored on the held-out problems (its metrics keep the scores), then trained for
    FINISH_EPOCHS on all problems, and its trees are grown on all problems; options that end the training now leave this
    out. Raises MisuseError, FormatError.
    """
    say("reading the labels")
    labels, timings = read_labels(data), read_solver_timings(data)
    fitting, fitting_timings = training_part(labels, timings)
    trained = train_network(fitting, fitting_timings, options, progress, say=say)
    grown: ChoiceTrees | None = None
    if trees:
        weight, weights = EVEN, dict[str, float]()
        known = {name: kernel_labels.known() for name, kernel_labels in fitting.items()}
        parts = {name: split_validation(kernel_labels, options.validation) for name, kernel_labels in known.items()}
        if options.validation:
            say("growing trees on a part of the labels, to choose their weights")
            chains = grow({name: part for name, (part, _) in parts.items()}, options.threads, options.seed)
            weight, weights = best_weights(trained.model, trained.vocabulary, chains,
                                           {name: validation for name, (_, validation) in parts.items()})
        say("growing trees")
        grown = ChoiceTrees(grow(known, options.threads, options.seed), weight, weights)
    metrics = {name: value for name, value in trained.report.items() if name != "history"}
    provenance: dict[str, Any] = {"source": data.provenance.get("source", ""), "options": describe(options)}
    choices = LearnedChoices(_learned(fitting, fitting_timings), tables_of(data), grown)
    checkpoint = replace(Checkpoint.of_translator(trained.model, trained.vocabulary, provenance, metrics,
                                                  options.seed), choices=choices)
    if everything and not options.end_now:
        checkpoint = _finished(checkpoint, labels, timings, options, progress, say)
    return checkpoint, trained.report


def _finished(checkpoint: Checkpoint, labels: dict[str, Labels], timings: SolverTimings | None,
              options: ChoiceOptions,
              progress: Callable[[Progress], None] | None, say: Say) -> Checkpoint:
    """Score the checkpoint on the held-out problems, then train it on all problems."""
    with one_thread():
        held_out: Any = held_out_scores(checkpoint, labels, timings, say)
    known_labels = {name: kernel_labels for name, kernel_labels in labels.items() if name in checkpoint.kernels}
    say("finishing on all problems")
    finish = replace(options, epochs=FINISH_EPOCHS, rate=options.rate * FINISH_RATE, validation=0,
                     state=None if options.state is None else options.state / FINISH)
    start = ChoiceTrainingResult(checkpoint.network, checkpoint.vocabulary, {})
    trained = train_network(known_labels, timings, finish, progress, start, say=say)
    assert checkpoint.choices is not None
    trees = checkpoint.choices.trees
    if trees is not None:
        say("growing trees on all problems")
        known = {name: kernel_labels.known() for name, kernel_labels in known_labels.items()}
        trees = replace(trees, chains=grow(known, options.threads, options.seed))
    learned = {name: trained.report[name] for name in ("labels", "races")}
    choices = replace(checkpoint.choices, trees=trees, learned=_learned(known_labels, timings))
    return replace(checkpoint, state=trained.model.arrays(), choices=choices,
                   provenance={**checkpoint.provenance, "finished": {"epochs": FINISH_EPOCHS, "rate": finish.rate,
                                                                "on": "held-out problems, too", **learned}},
                   metrics={**checkpoint.metrics, "held_out": held_out})


def _learned(labels: dict[str, Labels], timings: SolverTimings | None) -> SeenProblems:
    hashes = [kernel_labels.queries.hashes for kernel_labels in labels.values()]
    return SeenProblems.of(np.concatenate(hashes if timings is None else [*hashes, timings.hashes]))
