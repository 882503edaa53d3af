"""Proposals: the configurations that a trained model proposes for a task, also for searches to begin with."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.kernels.task import Task
from seqtune.predictor.model import shipped_for
from seqtune.predictor.networks.threads import one_thread

from .errors import CheckpointError
from .inputs import load_checkpoint

if TYPE_CHECKING:
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.task import Task

SEEDS = 8  # configurations of the translator's beam that a search may begin with


def proposed(task: Task, checkpoint: str | Path, top: int) -> dict[Configuration, float | None]:
    """Configurations with their probabilities, most probable first. Raises CheckpointError."""
    model = load_checkpoint(checkpoint)
    model.vocabulary.check(task.kernels)
    if task.device.backend not in model.backends:
        raise CheckpointError(f"the checkpoint {checkpoint} was not trained for {task.device.backend} devices; "
                              "retrain it with records of one")
    with one_thread() if "torch" in sys.modules else contextlib.nullcontext():  # labels are predicted without it
        (candidates,) = model.propose([task], top)
    return {candidate.configuration: candidate.probability for candidate in candidates}


def seeds_for(task: Task, required: bool = False) -> tuple[Configuration, ...]:
    """The shipped translator's proposals for a search to begin with, likeliest first.

    Where it does not know the kernels or the device there are none, or (`required`) CheckpointError is raised.
    """
    if not required and any(kernel.implementation is None for kernel in task.kernels):
        return ()  # kernels of a file or of another tool: no need to load the checkpoint
    try:
        return tuple(proposed(task, shipped_for(task.device.backend), SEEDS))
    except CheckpointError:
        if required:
            raise
        return ()
