"""The verb `tune`: searches problems by measuring, on this machine, in a replay or on a fleet."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import can_run
from seqtune.kernels.task import Task
from seqtune.predictor.answering import seeds_for, slowness_for
from seqtune.tuner.backends import discovery

from ..errors import InterruptedTuning, MisuseError, UnpreparedError, shown
from ..families import check_allowed, kernels
from ..inputs import as_device, as_problems, check_positive
from .tuning_results import Tuned, TuningReport

if TYPE_CHECKING:
    from seqtune.tuner.fleet.progress import FleetProgress
    from seqtune.tuner.search import TuningResult
    from seqtune.tuner.tune import TuningProgress

DEFAULT_TRIALS = 200  # of a search without a budget


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
    journal after the member's next control. Raises MisuseError for wrong arguments, and InterruptedTuning on Ctrl-C or
    SIGTERM; its `report` has the best so far.
    """
    from seqtune.data.journal import Journal
    from seqtune.tuner.campaign import campaign
    from seqtune.tuner.measuring.runner import Measurer, Runner
    from seqtune.tuner.stop_request import interrupted_by_sigterm
    from seqtune.tuner.strategies.table import strategy_entry
    from seqtune.tuner.tune import Budget, TuningOptions, tasks_for, tune_all
    from seqtune.tuner.tuning_options import ignore_progress

    from ..strategy_replay import recorded_measurer

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
    options = TuningOptions(strategy, seed=seed, on_progress=progress or ignore_progress,
                            seeds=partial(seeds_for, required=entry.seeds == "required"), slowness=slowness_for)
    if fleet is not None:
        from seqtune.tuner.fleet.fleet_options import FleetOptions

        from .fleet_tuning import tune_on_fleet

        budget = Budget(trials, seconds) if total is None else Budget()
        return tune_on_fleet(wanted, device, fleet, budget, journal, FleetOptions(
            options, total, retry_failed), fleet_progress)
    replayed = None if replay is None else recorded_measurer(replay, device, wanted)
    if replayed is not None:  # what is not recorded has not failed
        options = replace(options, defaults=lambda task: (task.default,))
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
    results: list[Tuned] = []
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
        unprepared: list[Problem] = []

        def skip(problem: Problem, error: UnpreparedError) -> None:
            skipped.append((problem, str(error)))
            unprepared.append(problem)

        on_skip = skip if len(wanted) > 1 else None
        tasks = tasks_for(wanted, target, families, lambda problem, reason: skipped.append((problem, reason)))

        def tuned(result: TuningResult) -> Tuned:
            return Tuned.of(result, lambda configuration: replayed is None or replayed.has(
                result.problem, configuration))

        def report(interrupted: bool = False) -> TuningReport:
            return TuningReport(target, records.path if replayed is None else None, tuple(results), tuple(skipped),
                                None if replay is None else str(replay), interrupted, len(unprepared),
                                _spent(results, trials, total) if replayed is None else "")

        with interrupted_by_sigterm():
            try:
                for result in (tune_all(tasks, records, measurer, Budget(trials, seconds), options, on_skip)
                               if total is None else campaign(tasks, records, measurer, total, options, on_skip)):
                    results.append(tuned(result))
            except InterruptedTuning as stop:
                results.extend(tuned(result).unfinished() for result in stop.results)
                stop.report = report(interrupted=True)
                raise
        return report()


def _spent(results: Sequence[Tuned], trials: int | None, total: int | None) -> str:
    """The option whose trials were all in the journal, as the command line writes it; empty if there is none."""
    if not results or any(result.measured for result in results):
        return ""
    if total is not None:
        return f"--total {total}" if sum(result.trials for result in results) >= total else ""
    return f"--trials {trials}" if trials is not None and all(result.trials >= trials for result in results) else ""
