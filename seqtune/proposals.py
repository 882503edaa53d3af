"""Proposals: the configurations that a trained model proposes for a task, also as the seeds of a search."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.predictor.model import shipped_for
from seqtune.predictor.networks.threads import one_thread

from .errors import CheckpointError
from .inputs import load_checkpoint

if TYPE_CHECKING:
    from seqtune.kernels.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.task import Task
    from seqtune.predictor.model import Model

SEEDS = 8  # proposals of the translator with which a search begins


def model_for(device: Device, checkpoint: str | Path) -> Model:
    """Load a checkpoint's model. Raises CheckpointError if it was not trained for the device's backend."""
    model = load_checkpoint(checkpoint)
    if device.backend not in model.backends:
        raise CheckpointError(f"the checkpoint {checkpoint} was not trained for {device.backend} devices; name "
                              "another, or retrain it with records of one")
    return model


def propose(task: Task, checkpoint: str | Path, top: int) -> dict[Configuration, float | None]:
    """Propose up to `top` configurations with their probabilities, the most probable first.

    Raises CheckpointError if the checkpoint does not fit the task's kernels or backend.
    """
    model = model_for(task.device, checkpoint)
    model.vocabulary.check(task.kernels)
    with one_thread() if "torch" in sys.modules else contextlib.nullcontext():  # models of labels do not need torch
        (candidates,) = model.propose([task], top)
    return {candidate.configuration: candidate.probability for candidate in candidates}


def seeds_for(task: Task, required: bool = False) -> tuple[Configuration, ...]:
    """The shipped translator's proposals for a task, likeliest first, as seeds of a search.

    If the translator does not know the kernels or the device, the result is empty, or with `required` CheckpointError
    is raised.
    """
    if not required and any(kernel.implementation is None for kernel in task.kernels):
        return ()  # kernels of a file or another tool, which the translator does not know
    try:
        return tuple(propose(task, shipped_for(task.device.backend), SEEDS))
    except CheckpointError:
        if required:
            raise
        return ()
