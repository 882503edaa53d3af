"""The composition root: what the command line and Python users call, wired from the floors below.

Arguments are checked before anything is written. Heavy floors are imported by the functions that need them.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, starmap
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.data.record import Status
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import network
from seqtune.kernels.registry import can_run
from seqtune.kernels.task import Task
from seqtune.predictor.say import Say, silent
from seqtune.tuner.backends import discovery
from seqtune.tuner.backends.measured_rates import doubt
from seqtune.tuner.measuring.budget import SECONDS

from .bulk import BulkAnswer, predict_many
from .device_evidence import device_evidence
from .errors import FormatError, MisuseError, SeqtuneError, shown
from .exchange import export, import_data
from .families import check_allowed, check_memory, check_runnable, compile_check, kernel_json, kernels, lint_library
from .inputs import as_device, as_problem, as_problems, check_positive, check_predictable, check_share, load_checkpoint
from .learning import calibrate, evaluate, retrain, train
from .library import libraries
from .proposals import answering_predictor, doubt_about, predictor_for, propose, seeds_for, slowness_for
from .results import CompileReport, Demonstration, Devices, Prediction, Proposal, Tuned, TuningReport, duration

if TYPE_CHECKING:
    from seqtune.predictor.candidate import Candidate
    from seqtune.predictor.confidence.explanation import Explanation
    from seqtune.tuner.fleet.progress import FleetProgress
    from seqtune.tuner.measuring.recorded_measurer import RecordedMeasurer
    from seqtune.tuner.tune import TuningProgress

__all__ = [
    "BulkAnswer", "CompileReport", "Demonstration", "Devices", "Prediction", "Proposal", "Tuned", "TuningReport",
    "calibrate", "check_memory", "compile_check", "demo", "devices", "evaluate", "export", "import_data", "kernel_json",
    "kernels", "libraries", "lint_library", "predict", "predict_many", "retrain", "train", "tune",
]

DEFAULT_TRIALS = 200  # of a search without a budget
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

    `problem` is text, a mapping, a Problem or a PyTorch layer with its `input_shape`. `checkpoint` is a folder or a
    name (None: the shipped one for the device, or without one the analytic model). `seconds` is the time budget of the
    verification; if it cannot suffice, the answer is not verified and says why. With `cache`, an earlier verification
    in the journal answers, unless the machine was loaded then. With `evidence`, the measurements of the device in the
    journal correct the proposals. If the first proposal is not expected to reach the share `min_confidence` of the best
    speed, the safe default answers; with `verify`, only then is measured. `explain` adds why the first candidate was
    proposed. Raises MisuseError for wrong arguments, KernelError where no kernel solves the problem, SeqtuneError where
    nothing runs.
    """
    from seqtune.predictor.model import UNTRAINED

    problem = as_problem(problem, input_shape)
    if not isinstance(top, int) or top < 1:
        raise MisuseError(f"top={shown(top)}; at least one configuration must be asked for")
    if verify and top > MOST_VERIFIED:
        raise MisuseError(f"top={shown(top)}; a verification compares at most {MOST_VERIFIED} configurations at once")
    check_positive("seconds", seconds)
    check_share("min_confidence", min_confidence)
    check_predictable(problem, device)
    device = as_device(device)
    name = answering_predictor(problem, device) if checkpoint is None else checkpoint
    predictor = predictor_for(device, name)
    task = predictor.task(problem, device)
    note = UNTRAINED[str(name)].note if name in UNTRAINED else ""
    if verify:
        discovery.check_present(device)
        check_runnable(task.kernels)
    progress("predicting")
    answering = predictor.on(device, task.kernels)
    known = device_evidence(answering, device, journal, verified=not verify) if evidence else None
    count = 0 if known is None else known.measurements
    proposals = propose(task, name, max(top, 2) if explain else top, known)
    why = _explanation(task, name, proposals) if explain else None
    proposals = dict(islice(proposals.items(), top))
    doubt = None if min_confidence is None else doubt_about(next(iter(proposals.values())), min_confidence)
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
    return replace(prediction, predictor=str(name), note=note, explanation=why, evidence=count)


def _explanation(task: Task, name: str | Path, proposals: Mapping[Configuration, Candidate]) -> Explanation:
    from .explaining import explanation_of

    return explanation_of(predictor_for(task.device, name), task, list(proposals))


def _unverified(task: Task, proposals: Mapping[Configuration, Candidate]) -> Prediction:
    candidates = tuple(starmap(Proposal.of, proposals.items()))
    default = Proposal.of(task.default, proposals.get(task.default))
    return Prediction(task.problem, task.device, candidates, default, candidates[0])


def _verify(task: Task, proposals: Mapping[Configuration, Candidate], seconds: float, cache: bool,
            journal: str | Path | None, progress: Say) -> Prediction:
    from seqtune.data.journal import Journal
    from seqtune.tuner.measuring.runner import Runner
    from seqtune.tuner.measuring.verdicts import find_verdict, store_verdict
    from seqtune.tuner.measuring.verification import OverBudget, verify

    problem, device, default = task.problem, task.device, task.default
    versions = {kernel.name: kernel.version for kernel in task.kernels}
    with Journal(journal) as records:
        earlier = find_verdict(records, problem, device, versions, proposals, default, seconds) if cache else None
        began = time.monotonic()
        if earlier is None:
            try:
                with Runner(device) as runner:
                    verdict = verify(runner, problem, list(proposals), default, seconds, progress)
            except OverBudget as over:
                return replace(_unverified(task, proposals), unverified=(
                    f"the fewest measurements take about {duration(over.seconds)} here, the budget is "
                    f"{duration(seconds)} (--seconds)"))
            store_verdict(records, problem, device, versions, verdict, seconds)
        else:
            verdict = earlier
    elapsed = None if earlier is not None else time.monotonic() - began
    if verdict.winner is None:
        failed = verdict.measurements[default]
        raise SeqtuneError(f"nothing ran on {device.name}: not even the safe default ({failed.status}: "
                           f"{failed.message})")
    measured = {configuration: Proposal.of(configuration, proposals.get(configuration),
                                           verdict.measurements.get(configuration))
                for configuration in (*proposals, default)}
    return Prediction(
        problem, device, tuple(measured[configuration] for configuration in proposals), measured[default],
        measured[verdict.winner], True, verdict.speedup, verdict.significant, earlier is not None, seconds, elapsed,
        loaded=verdict.loaded)


def tune(problems: object, device: Device | str | None = None, *, strategy: str = "portfolio",
         trials: int | None = None, seconds: float | None = None, total: int | None = None, seed: int = 0,
         journal: str | Path | None = None, retry_failed: bool = False, replay: str | Path | None = None,
         fleet: str | None = None, progress: Callable[[TuningProgress], None] | None = None,
         fleet_progress: Callable[[FleetProgress], None] | None = None) -> TuningReport:
    """Search the best configurations of one problem, several, or a named set by measuring.

    `trials` and `seconds` are budgets for each problem. A budget of `total` trials is shared by all problems and spent
    where it improves most. Every measurement is in the journal as soon as it is made; the same call again resumes where
    this one stopped. `retry_failed` repeats measurements that timed out or crashed. With `replay`, the records of a
    data set answer instead: nothing is measured and no journal is kept. `device` is a device of that data set then
    (None: its only one); otherwise None means llvm:0. With `fleet` (`local:2`, `auto`, `ray://HOST:PORT`), all its
    members that have the device measure, `fleet_progress` is called about once a second, and measurements are in the
    journal after the member's next control. Raises MisuseError for wrong arguments, InterruptedTuning on Ctrl-C.
    """
    from seqtune.data.journal import Journal
    from seqtune.tuner.campaign import campaign
    from seqtune.tuner.measuring.runner import Measurer, Runner
    from seqtune.tuner.strategies.table import strategy_entry
    from seqtune.tuner.tune import Budget, TuningOptions, tasks_for, tune_all

    from .strategy_replay import recorded_measurer

    wanted = as_problems(problems)
    for name, count in (("trials", trials), ("total", total)):
        if count is not None and count < 1:
            raise MisuseError(f"{name}={shown(count)}; at least one is needed")
    if total is not None and (trials is not None or seconds is not None):
        raise MisuseError("`total` cannot be combined with `trials` or `seconds`")
    if seconds is not None:
        check_positive("seconds", seconds)
    if seed < 0:
        raise MisuseError(f"seed={shown(seed)}; it must not be negative")
    entry = strategy_entry(strategy)
    if trials is None and seconds is None and not entry.ends:
        trials = DEFAULT_TRIALS
    if fleet is not None and replay is not None:
        raise MisuseError("`fleet` cannot be combined with `replay`, which measures nothing")
    if replay is not None and journal is not None:
        raise MisuseError("`replay` keeps no journal; leave out --journal or --replay")
    failures = {problem: Counter[str]() for problem in wanted}

    def note(step: TuningProgress) -> None:
        measurement = step.measurement
        if measurement.status is not Status.CORRECT and (
                replayed is None or replayed.has(step.problem, step.configuration)):
            failures[step.problem][f"{measurement.status}: {measurement.message}"] += 1
        if progress is not None:
            progress(step)

    replayed: RecordedMeasurer | None = None
    options = TuningOptions(strategy, seed=seed, on_progress=note,
                            seeds=partial(seeds_for, required=entry.seeds == "required"), slowness=slowness_for)
    if fleet is not None:
        from seqtune.tuner.fleet.fleet_options import FleetOptions

        from .fleet_tuning import tune_on_fleet

        budget = Budget(trials, seconds) if total is None else Budget()
        return tune_on_fleet(wanted, device, fleet, budget, journal, FleetOptions(
            options, total, retry_failed), failures, fleet_progress)
    replayed = None if replay is None else recorded_measurer(replay, device, wanted)
    families = None if replayed is None else replayed.kernels
    target = as_device("llvm:0" if device is None else device) if replayed is None else replayed.device
    if replayed is None and not can_run(target.backend):
        raise MisuseError(f"kernels of {target.backend} cannot be run here, so there is nothing to measure; "
                          "`seqtune predict` proposes configurations for them")
    if replayed is None:
        discovery.check_present(target)
        check_allowed(target.backend, {problem.type for problem in wanted})
    skipped: list[tuple[Problem, str]] = []
    if replayed is not None:
        skipped = [(problem, f"not recorded on {target.name}") for problem in wanted if problem not in replayed]
        wanted = [problem for problem in wanted if problem in replayed]
    if len(wanted) == 1:
        Task.of(wanted[0], target, families)  # raises with the reason
    results = []
    with contextlib.ExitStack() as stack:
        measurer: Measurer
        if replayed is None:
            records = stack.enter_context(Journal(journal))
            measurer = runner = stack.enter_context(Runner(target))
            runner.start()
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="seqtune-"))
            records, measurer = stack.enter_context(Journal(Path(folder) / "replay.sqlite")), replayed
        if retry_failed:
            for problem in wanted:
                records.forget_failed(problem, target, kernels())
        tasks = tasks_for(wanted, target, families, lambda problem, reason: skipped.append((problem, reason)))
        for result in (tune_all(tasks, records, measurer, Budget(trials, seconds), options) if total is None
                       else campaign(tasks, records, measurer, total, options)):
            results.append(Tuned.of(result, failures[result.problem]))
        return TuningReport(target, records.path if replayed is None else None, tuple(results), tuple(skipped),
                            None if replay is None else str(replay))


def demo(seconds: float = SECONDS, *, checkpoint: str | Path | None = None, journal: str | Path | None = None,
         progress: Say = silent) -> Demonstration:
    """Predict and verify two ResNet-18 layers on every device found."""
    check_positive("seconds", seconds)
    if checkpoint is not None:
        load_checkpoint(checkpoint)
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
