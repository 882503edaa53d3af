"""Proposals: the configurations that a predictor proposes for a task, also as the seeds of a search."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.kernels.libraries.table import ALWAYS, libraries_in_use
from seqtune.predictor.model import SAFE_DEFAULT, SHIPPED, UNTRAINED, answers_for, untrained_predictor
from seqtune.predictor.networks.threads import one_thread

from .device_evidence import Correctable, DeviceEvidence
from .errors import CheckpointError
from .inputs import load_checkpoint

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import Task
    from seqtune.predictor.candidate import Candidate
    from seqtune.predictor.model import TaskPredictor

SEEDS = 8  # proposals of the predictor with which a search begins
MOST_PREDICTED = 24_000  # configurations whose time is predicted for a search: half a second


def checkpoint_for(problem: Problem, device: Device) -> str:
    """The name or folder of the predictor that answers for a problem on a device where none is named.

    It is the checkpoint of the library in use that was named last, if it has one and a kernel that solves the problem;
    otherwise the predictor of the device's backend. Raises CheckpointError if there is none.
    """
    for library in reversed([library for library in libraries_in_use() if library.name not in ALWAYS]):
        if not library.may_run_on(device.backend):
            continue
        solving = [name for name in library.table if library.kernel(name).why_not(problem, device) is None]
        if solving and library.checkpoint is not None:
            return library.checkpoint
        if solving and problem.type in library.operations:
            raise CheckpointError(f"no checkpoint knows {solving[0]}; train one (seqtune train) and name it "
                                  "(--checkpoint)")
    return answers_for(device.backend)


def answering_predictor(problem: Problem, device: Device) -> str:
    """The predictor of `checkpoint_for`, or SAFE_DEFAULT where that one knows no kernel of the problem's operation.

    Raises CheckpointError, and KernelError if no kernel solves the problem.
    """
    name = checkpoint_for(problem, device)
    if name not in SHIPPED or device.backend not in untrained_predictor(SAFE_DEFAULT).backends:
        return name
    from seqtune.predictor.times.model import TimesModel

    model = load_checkpoint(name)
    if not isinstance(model, TimesModel):
        return name
    known = {kernel.name for layer in model.layers for kernel in layer.vocabulary.kernels}
    solving = {kernel.name for kernel in model.task(problem, device).kernels}
    return name if known & solving else SAFE_DEFAULT


def predictor_for(device: Device, name: str | Path) -> TaskPredictor:
    """The predictor of a name in UNTRAINED, or a checkpoint's model.

    Raises CheckpointError if it does not answer for the device's backend.
    """
    if name in UNTRAINED:
        predictor = untrained_predictor(str(name))
        if device.backend not in predictor.backends:
            backends = " and ".join(predictor.backends)
            raise CheckpointError(f"the {name} predictor answers for {backends} devices, not for {device.backend}")
        return predictor
    model = load_checkpoint(name)
    if device.backend not in model.backends:
        raise CheckpointError(f"the checkpoint {name} was not trained for {device.backend} devices; name "
                              "another, or retrain it with records of one")
    return model


def propose(task: Task, name: str | Path, top: int,
            evidence: DeviceEvidence | None = None) -> dict[Configuration, Candidate]:
    """Propose up to `top` configurations as candidates, the most probable first.

    `name` is that of a checkpoint or of an untrained predictor; `evidence` is that of the task's device, for the same
    checkpoint. Raises CheckpointError if it does not fit the task's kernels or backend.
    """
    predictor = predictor_for(task.device, name)
    predictor.check_kernels(task.kernels)
    with one_thread() if "torch" in sys.modules else contextlib.nullcontext():  # others do not need torch
        if evidence is None or not isinstance(predictor, Correctable):
            (candidates,) = predictor.propose([task], top)
        else:
            (candidates,) = predictor.propose([task], top, evidence.correction)
    return {candidate.configuration: candidate for candidate in candidates}


def doubt_about(candidate: Candidate, least: float) -> str | None:
    """The reason why a candidate is not expected to reach the share `least` of the best speed; None if it is."""
    confidence = candidate.confidence
    if confidence is None:
        return "the predictor does not estimate its confidence, so the safe default answers (--verify measures)"
    if confidence.share >= least:
        return None
    return (f"the first proposal is {confidence}, less than {100 * least:g} %, so the safe default answers (--verify "
            "measures)")


def slowness_for(task: Task) -> Sequence[float]:
    """The log(time / best time) that the device's predictor expects of every configuration of a task, by number.

    It is empty if no predictor has trees for these kernels, or if the task is too large to predict every time.
    """
    if len(task) > MOST_PREDICTED or any(kernel.implementation is None for kernel in task.kernels):
        return ()
    try:
        name = checkpoint_for(task.problem, task.device)
        if name in UNTRAINED:
            return ()
        import numpy as np

        from seqtune.predictor.times.model import TimesModel

        model = predictor_for(task.device, name).on(task.device, task.kernels)
        if not isinstance(model, TimesModel) or model.ranker is None:
            return ()
        slowness = model.ranker.slowness(task, np.arange(len(task)))
    except CheckpointError:
        return ()
    return () if np.isnan(slowness).any() else slowness.tolist()


def seeds_for(task: Task, required: bool = False) -> tuple[Configuration, ...]:
    """The proposals of the device's predictor for a task, likeliest first, as seeds of a search.

    If it does not know the kernels or the device, the result is empty, or with `required` CheckpointError is raised.
    """
    if not required and any(kernel.implementation is None for kernel in task.kernels):
        return ()  # kernels of a file or another tool, which no predictor knows
    try:
        return tuple(propose(task, checkpoint_for(task.problem, task.device), SEEDS))
    except CheckpointError:
        if required:
            raise
        return ()
