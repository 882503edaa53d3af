"""The composition root: what the command line and Python users call, wired from the floors below.

Arguments are checked before anything is written. Heavy floors are imported by the functions that need them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, starmap
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.kernels.task import Task
from seqtune.predictor.answering import answering
from seqtune.predictor.model import cached_model
from seqtune.predictor.say import Say, silent
from seqtune.tuner.backends import discovery
from seqtune.tuner.backends.measured_rates import doubt
from seqtune.tuner.measuring.deadline import SECONDS

from .bulk import BulkAnswer, predict_many
from .collecting.results import Collected, CollectedDevice, CollectionProgress
from .collecting.run import collect
from .errors import FormatError, MisuseError, SeqtuneError, shown
from .exchange import export, import_data
from .families import check_memory, compile_check, kernel_json, kernels, lint_library
from .inputs import as_device, as_problem, check_positive, check_predictable, check_share
from .learning import calibrate, evaluate, retrain, train
from .library import libraries
from .results import CompileReport, Demonstration, Devices, Prediction, Proposal
from .tuning.results import Tuned, TuningReport
from .tuning.run import tune

if TYPE_CHECKING:
    from seqtune.predictor.candidate import Candidate

__all__ = [
    "BulkAnswer", "Collected", "CollectedDevice", "CollectionProgress", "CompileReport", "Demonstration", "Devices",
    "Prediction", "Proposal", "Tuned", "TuningReport", "calibrate", "check_memory", "collect", "compile_check", "demo",
    "devices", "evaluate", "export", "import_data", "kernel_json", "kernels", "libraries", "lint_library", "predict",
    "predict_many", "retrain", "train", "tune",
]

MOST_VERIFIED = 50  # configurations compared at once, because all of their buffers are in memory


def devices(described: bool = False) -> Devices:
    """Every device of this machine, and why backends are unavailable; with `described`, also the table's GPUs."""
    from seqtune.data.shipped_machines import is_new_cpu

    seen: dict[str, int] = {}
    listed = []
    for device in discovery.devices():
        number = seen.get(device.backend, 0)
        seen[device.backend] = number + 1
        listed.append((f"{device.backend}:{number}", device))
    return Devices(tuple(listed), discovery.why_unavailable(), tuple(discovery.described()) if described else (),
                   is_new_cpu(device for _, device in listed), doubt())


def predict(problem: object, device: Device | str = "llvm:0", top: int = 5, *, verify: bool = False,
            input_shape: Sequence[int] | None = None, seconds: float = SECONDS, cache: bool = True,
            checkpoint: str | Path | None = None, journal: str | Path | None = None, evidence: bool = True,
            min_confidence: float | None = None, explain: bool = False, progress: Say = silent) -> Prediction:
    """Predict the `top` most promising configurations of a problem; with `verify`, measure them and the safe default.

    Without measurements the same checkpoint, problem and device give the same bits in every process of one
    installation, on one thread. `problem` is text, a mapping, a Problem or a PyTorch layer with its `input_shape`.
    `checkpoint` is a folder or a name (None: the shipped one for the device, or without one the analytic model).
    `seconds` is the time budget of the verification; if it cannot suffice, the answer is not verified and says why.
    With `cache`, an earlier verification in the journal answers, unless the machine was loaded then. With `evidence`,
    the measurements of the device in the journal correct the proposals. If the first proposal is not expected to reach
    the share `min_confidence` of the best speed, the safe default answers; with `verify`, only then is measured.
    `explain` adds why the first candidate was proposed. Raises MisuseError for wrong arguments, KernelError where no
    kernel solves the problem, SeqtuneError where nothing runs.
    """
    problem = as_problem(problem, input_shape)
    if not isinstance(top, int) or top < 1:
        raise MisuseError(f"top={shown(top)}; at least one configuration must be asked for")
    if verify and top > MOST_VERIFIED:
        raise MisuseError(f"top={shown(top)}; a verification compares at most {MOST_VERIFIED} configurations at once")
    check_positive("seconds", seconds)
    check_share("min_confidence", min_confidence)
    check_predictable(problem, device)
    device = as_device(device)
    asked = answering(problem, device, checkpoint)
    task, note = asked.task, asked.note
    if verify:
        from seqtune.tuner.task_verdict import check_runnable

        discovery.check_present(device)
        check_runnable(task.kernels)
    progress("predicting")
    known = asked.evidence(journal, verified=not verify) if evidence else None
    count = 0 if known is None else known.measurements
    proposals = asked.propose(max(top, 2) if explain else top, known)
    why = asked.explanation(list(proposals)) if explain else None
    proposals = dict(islice(proposals.items(), top))
    doubt = None if min_confidence is None else _doubt_about(next(iter(proposals.values())), min_confidence)
    if verify and (min_confidence is None or doubt is not None):
        prediction = _verify(task, proposals, seconds, cache, journal, progress)
        note = "" if prediction.verified else note
    else:
        prediction = _unverified(task, proposals)
        if doubt is not None:
            prediction = replace(prediction, winner=prediction.default, fell_back=True)
            note = "; ".join(filter(None, (note, doubt)))
        elif verify:
            reached = f"the first proposal is {prediction.confidence}, which suffices"
            prediction = replace(prediction, unverified=reached)
    return replace(prediction, predictor=str(asked.name), note=note, explanation=why, evidence=count)


def _doubt_about(candidate: Candidate, least: float) -> str | None:
    """The reason why a candidate is not expected to reach the share `least` of the best speed; None if it is."""
    confidence = candidate.confidence
    if confidence is None:
        return "the predictor does not estimate its confidence, so the safe default answers (--verify measures)"
    if confidence.share >= least:
        return None
    return (f"the first proposal is {confidence}, less than {100 * least:g} %, so the safe default answers (--verify "
            "measures)")


def _unverified(task: Task, proposals: Mapping[Configuration, Candidate]) -> Prediction:
    candidates = tuple(starmap(Proposal.of, proposals.items()))
    default = Proposal.of(task.default, proposals.get(task.default))
    return Prediction(task.problem, task.device, candidates, default, candidates[0])


def _verify(task: Task, proposals: Mapping[Configuration, Candidate], seconds: float, cache: bool,
            journal: str | Path | None, progress: Say) -> Prediction:
    from seqtune.tuner.task_verdict import UnverifiedError, verdict_on

    try:
        found = verdict_on(task, list(proposals), seconds, journal, cache, progress)
    except UnverifiedError as reason:
        return replace(_unverified(task, proposals), unverified=str(reason))
    verdict = found.verdict
    measured = {configuration: Proposal.of(configuration, proposals.get(configuration),
                                           verdict.measurements.get(configuration))
                for configuration in (*proposals, verdict.default)}
    return Prediction(
        task.problem, task.device, tuple(measured[configuration] for configuration in proposals),
        measured[verdict.default], measured[found.winner], True, verdict.speedup, verdict.significant,
        found.elapsed is None, seconds, found.elapsed, loaded=verdict.loaded, failed_default=found.failed_default)


def demo(seconds: float = SECONDS, *, checkpoint: str | Path | None = None, journal: str | Path | None = None,
         progress: Say = silent) -> Demonstration:
    """Predict and verify two ResNet-18 layers on every device found."""
    check_positive("seconds", seconds)
    if checkpoint is not None:
        cached_model(checkpoint)
    here = devices()
    unavailable = dict(here.unavailable)
    predictions = []
    layers = network("resnet18")
    for problem in (layers[1], layers[8]):  # 3x3 filters on 64 channels of 56x56, and on 256 of 14x14
        for _, device in here.listed:
            def say(step: str, problem: Problem = problem, device: Device = device) -> None:
                progress(f"{problem.brief()} on {device.name}: {step}")

            try:
                predictions.append(predict(problem, device, verify=True, seconds=seconds, checkpoint=checkpoint,
                                           journal=journal, progress=say))
            except FormatError:  # of the journal, so it concerns every device
                raise
            except SeqtuneError as error:
                unavailable[device.name] = str(error)
    if not predictions:
        reasons = "; ".join(f"{name}: {why}" for name, why in unavailable.items())
        raise SeqtuneError(f"nothing could be shown: {reasons}")
    return Demonstration(tuple(predictions), unavailable)
