"""The verb `predict`: proposes configurations of one problem, and verifies them by measuring on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, starmap
from pathlib import Path

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import Task
from seqtune.predictor.answering import answering
from seqtune.predictor.candidate import Candidate, doubt_about
from seqtune.tuner.backends import discovery
from seqtune.tuner.measuring.deadline import SECONDS
from seqtune.tuner.remembered import Remembered, remembered_winners

from ..errors import CheckpointError, MisuseError, SeqtuneError, shown
from .inputs import as_device, as_problem, check_positive, check_predictable, check_share
from .results import Answer, Prediction

MOST_VERIFIED = 50  # configurations compared at once, because all of their buffers are in memory


def predict(problem: object, device: Device | str = "llvm:0", top: int = 5, *, verify: bool = False,
            input_shape: Sequence[int] | None = None, seconds: float = SECONDS, cache: bool = True,
            checkpoint: str | Path | None = None, journal: str | Path | None = None, evidence: bool = True,
            min_confidence: float | None = None, explain: bool = False, progress: Say = silent) -> Prediction:
    """Predict the `top` most promising configurations of a problem; with `verify`, measure them and the safe default.

    Without measurements the same checkpoint, problem and device give the same bits in every process of one
    installation, on one thread. `problem` is text, a mapping, a Problem or a PyTorch layer with its `input_shape`.
    `checkpoint` is a folder or a name (None: the shipped one for the device; where that knows no kernel of the problem,
    the analytic model on GPUs and the safe default on CPUs). `seconds` is the time budget of the verification; if it
    cannot suffice, the answer is not verified and says why. With `cache`, an earlier verification in the journal
    answers, unless the machine was loaded then. With `evidence`, the measurements of the device in the journal correct
    the proposals, and the configuration that won a comparison there is the first candidate and answers, unless
    `verify` measures again. If the first proposal is not expected to reach the share `min_confidence` of the best
    speed, the better of it and the safe default answers, by their expected shares; with `verify`, only then is
    measured.
    `explain` adds why the first candidate was proposed. Raises MisuseError for wrong arguments, KernelError where no
    kernel solves the problem, SeqtuneError where nothing runs.
    """
    problem = as_problem(problem, input_shape)
    if not isinstance(top, int) or top < 1:
        raise MisuseError(f"top={shown(top)}; at least one configuration must be asked for")
    if verify:
        check_verifiable(top)
    check_positive("seconds", seconds)
    check_share("min_confidence", min_confidence)
    check_predictable(problem, device)
    device = as_device(device)
    asked = answering(problem, device, checkpoint)
    task, note = asked.task, asked.note
    if verify:
        from seqtune.tuner.task_verdict import check_runnable

        discovery.check_present(device)
        check_runnable(task)
    progress("predicting")
    known = asked.evidence(journal, verified=not verify) if evidence else None
    count = 0 if known is None else known.measurements
    outdated = _outdated(journal, task)
    try:
        proposals = asked.propose(max(top, 2) if explain else top, known)
    except CheckpointError as error:
        raise CheckpointError("; ".join([str(error), *outdated])) from None
    note = "; ".join(filter(None, (note, *outdated)))
    winner = remembered_winners([problem], device, journal).get(problem) if evidence and not verify else None
    order = list(proposals) if winner is None else list(dict.fromkeys([winner.configuration, *proposals]))
    why = asked.explanation(order) if explain else None
    proposals = dict(islice(proposals.items(), top))
    first = next(iter(proposals.values()))
    doubt = "" if min_confidence is None else doubt_about(first, min_confidence)
    if winner is not None:
        prediction = _remembered(task, proposals, winner, top)
    elif verify and (min_confidence is None or doubt):
        prediction = _verify(task, proposals, seconds, cache, journal, progress)
        note = "" if prediction.verified else note
    else:
        prediction = _unverified(task, proposals)
        if doubt:
            prediction, reason = _better(prediction, asked.safe_default(known), doubt)
            note = "; ".join(filter(None, (note, reason)))
        elif verify:
            reached = f"the first proposal is {first.confidence}, which suffices"
            prediction = replace(prediction, unverified=reached)
    return replace(prediction, predictor=str(asked.name), note=note, explanation=why, evidence=count)


def _outdated(journal: str | Path | None, task: Task) -> list[str]:
    """The lines on records of earlier versions of the task's declared kernels in the journal, if there is one."""
    names = [kernel.name for kernel in task.kernels if kernel.parts]
    if not names:
        return []
    from seqtune.data.journal.journal import Journal, default_path

    path = default_path() if journal is None else Path(journal)
    if not path.exists():
        return []
    try:
        with Journal(path) as records:
            return records.outdated(names)
    except SeqtuneError:  # `evidence` has told it
        return []


def check_verifiable(top: int) -> None:
    """Check that so many configurations can be compared at once. Raises MisuseError."""
    if top > MOST_VERIFIED:
        raise MisuseError(f"top={shown(top)}; a verification compares at most {MOST_VERIFIED} configurations at once")


def _better(prediction: Prediction, default: Candidate, doubt: str) -> tuple[Prediction, str]:
    """The answer with the better of the first proposal and the safe default, by expected share, and the reason.

    There is a `doubt` about the first proposal.
    """
    prediction = replace(prediction, default=Answer.of(default.configuration, default))
    first, other = prediction.candidates[0].confidence, default.confidence
    if first is not None and prediction.candidates[0].configuration == default.configuration:
        return prediction, f"{doubt}, and it is the safe default (--verify measures)"
    fell_back = first is None or (other is not None and other.share > first.share)
    answers = "the safe default answers" if fell_back else "the first proposal answers"
    if first is not None and other is not None:
        doubt += f", and the safe default is {other}"
    if fell_back:
        prediction = replace(prediction, winner=prediction.default, fell_back=True)
    return prediction, f"{doubt}, so {answers} (--verify measures)"


def _unverified(task: Task, proposals: Mapping[Configuration, Candidate]) -> Prediction:
    candidates = tuple(starmap(Answer.of, proposals.items()))
    default = Answer.of(task.default, proposals.get(task.default))
    return Prediction(task.problem, task.device, candidates, default, candidates[0])


def _remembered(task: Task, proposals: Mapping[Configuration, Candidate], winner: Remembered, top: int) -> Prediction:
    """The answer with the journal's winner as the first candidate."""
    verdict = winner.verdict
    first = remembered_answer(winner, proposals.get(winner.configuration))
    default = first if winner.configuration == task.default else Answer.of(
        task.default, proposals.get(task.default), verdict.measurements.get(task.default),
        verdict.typical.get(task.default))
    others = starmap(Answer.of, ((configuration, candidate) for configuration, candidate in proposals.items()
                                   if configuration != winner.configuration))
    return Prediction(task.problem, task.device, (first, *others)[:top], default, first, speedup=verdict.speedup,
                      significant=verdict.significant, loaded=verdict.loaded, remembered=winner)


def remembered_answer(winner: Remembered, candidate: Candidate | None) -> Answer:
    """The journal's winner as an answer; the probability is 0 if the predictor has not proposed it, too."""
    answer = Answer.of(winner.configuration, candidate, winner.measurement,
                       winner.verdict.typical.get(winner.configuration))
    return answer if candidate is not None else replace(answer, probability=0.0)


def _verify(task: Task, proposals: Mapping[Configuration, Candidate], seconds: float, cache: bool,
            journal: str | Path | None, progress: Say) -> Prediction:
    from seqtune.tuner.task_verdict import UnverifiedError, verdict_on

    try:
        verification = verdict_on(task, list(proposals), seconds, journal, cache, progress)
    except UnverifiedError as reason:
        return replace(_unverified(task, proposals), unverified=str(reason))
    verdict, second = verification.verdict, verification.verdict.second
    seconds_of = verdict.typical
    measured = {configuration: Answer.of(configuration, proposals.get(configuration),
                                           verdict.measurements.get(configuration), seconds_of.get(configuration))
                for configuration in (*proposals, verdict.default)}
    return Prediction(
        task.problem, task.device, tuple(measured[configuration] for configuration in proposals),
        measured[verdict.default], measured[verification.winner], True, verdict.speedup, verdict.significant,
        verification.elapsed is None, seconds, verification.elapsed, loaded=verdict.loaded,
        failed_default=verification.failed_default, second=None if second is None else measured[second],
        leads_second=None if second is None else verdict.leads_second)
