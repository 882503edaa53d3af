"""The verb `tune`: searches problems by measuring, on this machine, in a replay or on a fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import can_run, families
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import Task
from seqtune.predictor.answering import seeds_for, slowness_for
from seqtune.tuner.backends import discovery

from ...errors import InterruptedTuning, MisuseError, shown, warned
from ..checking import check_allowed
from ..inputs import as_device, as_problems, check_positive
from .results import Tuned, TuningReport

if TYPE_CHECKING:
    from seqtune.tuner.fleet.member_state import FleetProgress
    from seqtune.tuner.load import LoadMeter
    from seqtune.tuner.run.local_run import Run
    from seqtune.tuner.run.plan import Budget, Plan, TuningProgress

DEFAULT_TRIALS = 200  # trials of a search without a budget

Opened = tuple["Run", TuningReport]  # a run, and the report of its results, which has none yet


def tune(problems: object, device: Device | str | None = None, *, strategy: str = "portfolio",
         trials: int | None = None, seconds: float | None = None, seed: int = 0,
         journal: str | Path | None = None, retry_failed: bool = False, replay: str | Path | None = None,
         fleet: str | None = None, progress: Callable[[TuningProgress], None] = silent,
         fleet_progress: Callable[[FleetProgress], None] = silent, note: Say = warned) -> TuningReport:
    """Search the best configurations of one problem, several, or a named set by measuring.

    `trials` and `seconds` are budgets for each problem. Every measurement is in the journal as soon as it is made; the
    same call again resumes where this one stopped. `retry_failed` repeats measurements that timed out or crashed. With
    `replay`, the records of a data set answer instead: nothing is measured and no journal is kept. `device` is a device
    of that data set then (None: its only one); otherwise None means llvm:0. With `fleet` (`local:2`, `auto`,
    `ray://HOST:PORT`), all its members that have the device measure, `fleet_progress` is called about once a second,
    and measurements are in the journal after the member's next control. `progress` receives a TuningProgress after
    every trial, and `note` what the user should notice: on this machine, if other work has much of it now; the report
    tells whether it had meanwhile. Raises MisuseError for wrong arguments, and InterruptedTuning on Ctrl-C or SIGTERM;
    its `report` has the best so far.
    """
    from seqtune.tuner.run.plan import Budget
    from seqtune.tuner.stop_request import interrupted_by_sigterm

    wanted, budget = as_problems(problems), Budget(trials, seconds)
    _check(budget, seed, strategy, journal, replay, fleet)
    plan = make_plan(wanted, budget, strategy, seed, retry_failed, progress)
    with interrupted_by_sigterm(), _opened(plan, device, journal, replay, fleet, fleet_progress, note) as (run, report):
        return _completed(report, run, plan.budget, _open_meter(note) if fleet is None and replay is None else None)


def _check(budget: Budget, seed: int, strategy: str, journal: str | Path | None, replay: str | Path | None,
           fleet: str | None) -> None:
    """Raise MisuseError for wrong arguments, and for those that cannot be combined."""
    from seqtune.tuner.strategies.table import strategy_entry

    if budget.trials is not None and budget.trials < 1:
        raise MisuseError(f"trials={shown(budget.trials)}; at least one is needed")
    if budget.seconds is not None:
        check_positive("seconds", budget.seconds)
    if seed < 0:
        raise MisuseError(f"seed={shown(seed)}; it must not be negative")
    strategy_entry(strategy)
    if fleet is not None and replay is not None:
        raise MisuseError("`fleet` cannot be combined with `replay`, which measures nothing")
    if replay is not None and journal is not None:
        raise MisuseError("`replay` keeps no journal; leave out --journal or --replay")


def make_plan(problems: Sequence[Problem], budget: Budget, strategy: str, seed: int, retry_failed: bool,
              progress: Callable[[TuningProgress], None] = silent) -> Plan:
    """The plan of a run. A search that does not end by itself gets DEFAULT_TRIALS if it has no budget."""
    from seqtune.tuner.run.plan import Plan, TuningOptions
    from seqtune.tuner.strategies.table import strategy_entry

    entry = strategy_entry(strategy)
    if budget.trials is budget.seconds is None and not entry.ends:
        budget = replace(budget, trials=DEFAULT_TRIALS)
    options = TuningOptions(strategy, seed=seed, progress=progress,
                            seeds=partial(seeds_for, required=entry.seeds == "required"), slowness=slowness_for)
    return Plan(problems, budget, options, retry_failed=retry_failed)


def _opened(plan: Plan, device: Device | str | None, journal: str | Path | None, replay: str | Path | None,
            fleet: str | None, fleet_progress: Callable[[FleetProgress], None], note: Say
            ) -> AbstractContextManager[Opened]:
    """The context in which the plan is measured. Entering it raises what is wrong before anything is written."""
    if fleet is not None:
        from .fleet import on_fleet

        return on_fleet(plan, device, fleet, journal, fleet_progress)
    if replay is not None:
        return _in_replay(plan, device, replay)
    return _on_this_machine(plan, as_device("llvm:0" if device is None else device), journal, device is None, note)


@contextmanager
def _on_this_machine(plan: Plan, device: Device, journal: str | Path | None, is_default: bool,
                     note: Say) -> Iterator[Opened]:
    from seqtune.tuner.measuring.tensor_limit import check_measurable
    from seqtune.tuner.run.local_run import this_machine

    if not can_run(device.backend):
        raise MisuseError(f"kernels of {device.backend} cannot be run here, so there is nothing to measure; "
                          "`seqtune predict` proposes configurations for them")
    discovery.check_present(device)
    check_allowed(device.backend, {problem.type for problem in plan.problems})
    _check_solvable(plan, device)
    if len(plan.problems) == 1:
        check_measurable(plan.problems[0])  # of several problems, such a one is skipped
    if is_default:
        _check_operations(plan, device)
    with this_machine(plan, device, journal) as run:
        types = {problem.type for problem in plan.problems}
        for line in run.journal.outdated([family.name for family in families(device.backend)
                                          if family.operation in types]):
            note(line)
        yield run, TuningReport(device, run.journal.path)


@contextmanager
def _in_replay(plan: Plan, device: Device | str | None, data: str | Path) -> Iterator[Opened]:
    from seqtune.tuner.run.local_run import replay

    from ..replaying import recorded_measurer

    recorded = recorded_measurer(data, device, plan.problems)
    device = recorded.device
    skipped = [(problem, f"not recorded on {device.name}") for problem in plan.problems if problem not in recorded]
    plan = replace(plan, problems=[problem for problem in plan.problems if problem in recorded],
                   task_of=partial(Task.of, kernels=recorded.kernels))
    _check_solvable(plan, device)
    with replay(plan, recorded) as run:
        yield run, TuningReport(device, None, skipped=tuple(skipped), replayed=str(data))


def _check_solvable(plan: Plan, device: Device) -> None:
    """Raise the reason why no kernel solves the only problem. Of several problems, such a one is skipped."""
    if len(plan.problems) == 1:
        plan.task_of(plan.problems[0], device)


def _check_operations(plan: Plan, device: Device) -> None:
    """Raise KernelError, which names the right devices, if no kernel of a device that nobody named is for a problem."""
    if {problem.type for problem in plan.problems}.isdisjoint(family.operation for family in families(device.backend)):
        plan.task_of(plan.problems[0], device)


def _open_meter(note: Say) -> LoadMeter:
    """Begin to measure the load of this machine; before, wait half a second and note if other work has much of it."""
    from seqtune.tuner.load import LoadMeter

    load = LoadMeter().well_known_load()  # the worker, which has been started, opens its backend meanwhile
    if load.heavy:
        note(f"{load}: the times of trials will be doubtful, and the fastest may be missed; Ctrl-C stops, and the same "
             "command goes on when the machine is quiet")
    return LoadMeter()


def _completed(report: TuningReport, run: Run, budget: Budget, meter: LoadMeter | None) -> TuningReport:
    """Run to the end, and return the report with all results. InterruptedTuning gets the report of those so far.

    `meter` measures the load of this machine; None if others measure, or nothing does.
    """
    def finished() -> TuningReport:
        winners = remembered_winners(compared, report.device, report.journal) if compared else {}
        complete = report.with_results([tuned.with_winner(winners.get(tuned.problem)) for tuned in results],
                                       run.skipped, budget)
        loaded = meter is not None and any(result.measured for result in results) and meter.load().heavy
        return replace(complete, loaded=loaded)

    from seqtune.tuner.remembered import remembered_winners

    results: list[Tuned] = []
    compared: list[Problem] = []  # those with finals that were measured here
    try:
        for result in run.results():
            results.append(Tuned.of(result))  # one by one: those before an interruption count
            if meter is not None and result.paired:
                compared.append(result.problem)
    except InterruptedTuning as stop:
        results.extend(Tuned.of(result).unfinished() for result in stop.results)
        stop.report = replace(finished(), interrupted=True)
        raise
    return finished()
