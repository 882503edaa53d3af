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
    from seqtune.kernels.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.task import Task
    from seqtune.predictor.model import Model

SEEDS = 8  # configurations of the translator's beam that a search may begin with


def model_for(device: Device, checkpoint: str | Path) -> Model:
    """The model of a checkpoint that was trained for such devices. Raises CheckpointError."""
    model = load_checkpoint(checkpoint)
    if device.backend not in model.backends:
        raise CheckpointError(f"the checkpoint {checkpoint} was not trained for {device.backend} devices; name "
                              "another, or retrain it with records of one")
    return model


def proposed(task: Task, checkpoint: str | Path, top: int) -> dict[Configuration, float | None]:
    """Configurations with their probabilities, most probable first. Raises CheckpointError."""
    model = model_for(task.device, checkpoint)
    model.vocabulary.check(task.kernels)
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
