"""The demonstration behind `seqtune demo`: verified predictions of two layers on every device, and a built kernel."""

from __future__ import annotations

from pathlib import Path

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.kernels.say import Say, silent
from seqtune.predictor.predictors import named_predictor
from seqtune.tuner.building.chosen import check_free
from seqtune.tuner.measuring.deadline import SECONDS

from ..errors import FormatError, SeqtuneError
from .building import build_folder
from .inputs import check_positive
from .listing import devices
from .predicting import predict
from .results import Demonstration


def demo(seconds: float = SECONDS, *, out: str | Path | None = None, checkpoint: str | Path | None = None,
         journal: str | Path | None = None, progress: Say = silent) -> Demonstration:
    """Predict and verify two ResNet-18 layers on every device found, and build the first one to a new folder `out`."""
    check_positive("seconds", seconds)
    if out is not None:
        check_free(Path(out))
    if checkpoint is not None:
        named_predictor(checkpoint)
    listing = devices()
    unavailable = dict(listing.unavailable)
    predictions = []
    layers = network("resnet18")
    for problem in (layers[1], layers[8]):  # 3x3 filters on 64 channels of 56x56, and on 256 of 14x14
        for _, device in listing.listed:
            def say(step: str, problem: Problem = problem, device: Device = device) -> None:
                progress(f"{problem.brief()} on {device.name}: {step}")

            try:
                predictions.append(predict(problem, device, verify=True, seconds=seconds, checkpoint=checkpoint,
                                           journal=journal, progress=say))
            except FormatError:  # the journal is damaged, which concerns every device
                raise
            except SeqtuneError as error:
                unavailable[device.name] = str(error)
    if not predictions:
        reasons = "; ".join(f"{name}: {why}" for name, why in unavailable.items())
        raise SeqtuneError(f"nothing could be shown: {reasons}")
    first = predictions[0]
    folder = None if out is None else build_folder(first.problem, first.device, out, checkpoint=checkpoint,
                                                   journal=journal, progress=progress)
    return Demonstration(tuple(predictions), unavailable, folder)
