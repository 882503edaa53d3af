"""Confidence refitting: fits the confidence model of a trained checkpoint again, without training the translator.

The translator has not seen the validation problems of its training, but the checkpoint's trees have. Trees that are
fitted without these problems propose for them together with the translator, as at the end of a training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from seqtune.data.measured_tasks import Data, measured_tasks, split
from seqtune.errors import MisuseError

from ..confidence.confidence_fitting import fit_confidence, observe_proposed
from ..say import Say, silent
from ..trees.ranker import Ranker
from .checkpoint import Checkpoint
from .training_examples import make_teacher
from .training_options import TrainingOptions


def refit_confidence(checkpoint: Checkpoint, data: Data, options: TrainingOptions | None = None,
                     say: Say = silent) -> Checkpoint:
    """Return the checkpoint with a confidence model that is fitted again; `data` and `options` are its training's.

    Raises MisuseError if the validation problems are not those of the training, or are too few.
    """
    options = options or TrainingOptions()
    training = measured_tasks(data, held_out=False)
    fitting, validation = split(training, options.validation, options.seed)
    _check(checkpoint, options, len(validation))
    say("confidence: trees without the validation problems")
    teacher = make_teacher(fitting, options)
    if teacher is None:
        raise MisuseError("these options have no trees; a confidence model needs them")
    unseen = replace(checkpoint, ranker=Ranker.of(teacher), estimator=None)
    known = observe_proposed(unseen.proposer().proposals, validation)
    estimator = fit_confidence(training, replace(options.trees, threads=options.threads), options.seed, say, known)
    if estimator is None:
        raise MisuseError("the data set has too few training problems to estimate a confidence")
    return replace(checkpoint, estimator=estimator)


def _check(checkpoint: Checkpoint, options: TrainingOptions, cases: int) -> None:
    """Check that the training was of the same split: what it has seen tells nothing of what is lost elsewhere."""
    trained = checkpoint.provenance.get("options")
    if not isinstance(trained, Mapping) or trained.get("refit"):
        raise MisuseError("this checkpoint's training kept no validation problems: train it again")
    for name in ("validation", "seed"):
        if trained.get(name) != getattr(options, name):
            raise MisuseError(f"the training's {name} was {trained.get(name)!s:.40}, not {getattr(options, name)}")
    if checkpoint.metrics.get("validation_cases") != cases or not cases:
        raise MisuseError(f"the training had {checkpoint.metrics.get('validation_cases')!s:.40} validation cases, this "
                          f"data set has {cases}: give the data of the training")
