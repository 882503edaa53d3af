"""Replay: compare strategies by simulated searches of recorded spaces."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.say import Say, silent
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.answering import seeds_for
from seqtune.tuner.processes import processors

from ..errors import KernelError, MisuseError, shown
from .evaluating import read_measurements
from .listing import kernels

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.kernel import Kernel
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import MeasuredTask
    from seqtune.tuner.measuring.recorded_measurer import RecordedMeasurer
    from seqtune.tuner.run.simulation import Curves, RecordedSpace

STRATEGIES = ("portfolio", "autotvm", "droplet", "random")  # default: ours, the best known ones, chance
BUDGETS = (25, 50, 100, 200)
REPEATS = 30
TRANSFERS = ("leave-device-out", "leave-problem-out")
PREFIX = "recorded:"  # prefix of the name of a recorded device
MAX_LISTED = 8  # names in a message
TARGET_SHARES = (0.95, 0.99)  # shares of the optimum's speed
MAX_REPEATS = 100_000
MAX_TRIALS = 1_000_000


@dataclass(frozen=True)
class Replayed:
    """The curves of every strategy on every space and device, with the requested budgets and transfer."""

    curves: tuple[Curves, ...]
    budgets: tuple[int, ...]
    transfer: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """A row for each space, device, strategy and budget; share_mean is the mean optimum / best of the runs."""
        return [curves.row(budget) for curves in self.curves for budget in self.budgets]

    def medians(self) -> list[dict[str, Any]]:
        """Median evaluations until 95 % and 99 % of the optimum's speed; None if half of the runs never reach it."""
        return [{"space": curves.space, "device": curves.device, "strategy": curves.method,
                 **{f"to_{share * 100:.0f}": curves.evaluations_to(share) for share in TARGET_SHARES}}
                for curves in self.curves]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object with the rows and the medians."""
        return {"transfer": self.transfer, "rows": self.rows(), "medians": self.medians()}


def replay(data: str | Path, *, strategies: str | Sequence[str] = STRATEGIES, budgets: Sequence[int] = BUDGETS,
           repeats: int = REPEATS, transfer: str | None = None, spaces: Sequence[str] = (),
           devices: Sequence[str] = (), complete: bool = False, held_out: bool = False, batch: int = 1, seed: int = 0,
           jobs: int | None = None, progress: Say = silent) -> Replayed:
    """Search recorded spaces by simulation: a data set, or a folder or file of recorded spaces (a spaces.json).

    A search proposes only measured configurations. With `complete`, only completely measured spaces are searched; with
    `held_out`, only problems that the data set keeps out of training, because strategies that begin with the shipped
    translator's proposals would have an unfair advantage on others. `transfer` passes the records of the other devices
    ("leave-device-out") or of the other problems ("leave-problem-out") as history to strategies that learn from it.
    `spaces` and `devices` choose by name; empty: all. One search of the largest budget is evaluated at all budgets.
    `jobs` processes run at the same time (None: one for each core). Raises MisuseError.
    """
    from seqtune.tuner.run.simulation import StrategyMethod, simulate
    from seqtune.tuner.strategies.table import strategy_entry, strategy_factory

    chosen = (strategies,) if isinstance(strategies, str) else tuple(dict.fromkeys(strategies))
    if not chosen:
        raise MisuseError("name at least one strategy")
    for name, value, least, most in (("repeats", repeats, 1, MAX_REPEATS), ("batch", batch, 1, MAX_TRIALS),
                                     ("jobs", 1 if jobs is None else jobs, 1, 4096), ("seed", seed, 0, 2**32 - 1),
                                     *(("budgets", budget, 0, MAX_TRIALS) for budget in budgets)):
        if not isinstance(value, int) or not least <= value <= most:
            raise MisuseError(f"{name}={shown(value)}; it must be a whole number in {least}..{most}")
    if not budgets:
        raise MisuseError("name at least one budget")
    methods = {name: StrategyMethod(strategy_factory(name), batch) for name in chosen}
    progress("reading")
    selected = recorded_spaces(read_measurements(data), transfer, spaces, devices, complete, held_out)
    if any(strategy_entry(name).seeds != "ignored" for name in chosen):
        progress("predicting")
        selected = [replace(recorded, seeds=seeds_for(recorded.task)) for recorded in selected]
    ordered = tuple(sorted(set(budgets)))
    curves = simulate(selected, methods, max(1, *ordered), repeats, seed=seed, jobs=jobs or processors(),
                      progress=progress)
    return Replayed(tuple(curves), ordered, transfer)


def recorded_spaces(data: Dataset, transfer: str | None = None, spaces: Sequence[str] = (),
                    devices: Sequence[str] = (), complete: bool = False,
                    held_out: bool = False) -> list[RecordedSpace]:
    """The spaces of a data set, one for each problem and device, reduced to the measured configurations.

    The options are those of `replay`. Raises MisuseError if no space remains.
    """
    from seqtune.data.machines import device_labels
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.tuner.run.simulation import RecordedSpace

    if transfer not in (None, *TRANSFERS):
        raise MisuseError(f"no transfer {transfer!r:.40}; there are {', '.join(TRANSFERS)}")
    devices = [name.removeprefix(PREFIX) for name in devices]
    wanted = [key for name in devices for key in data.named(name)]
    if wanted and transfer != "leave-device-out":
        data = replace(data, rows=data.rows[data.rows["device"].isin(wanted)])
    others: list[Problem] = []
    if held_out and not transfer and not spaces:  # nobody asks for the others: their spaces need not be built
        kept = data.rows["problem"].isin(data.held_out)
        if kept.any():
            others, data = data.problems(), replace(data, rows=data.rows[kept])
    tasks = [measured for part in (False, True) for measured in measured_tasks(data, part)]
    if not tasks:
        raise MisuseError(f"there is nothing to search: {_why_nothing(data)}")
    names = _names(tasks, [*others, *(measured.problem for measured in tasks)])
    selected = [(measured, space, device) for measured, (space, device) in zip(tasks, names, strict=True)
                if (not spaces or space in spaces) and (not devices or measured.device.key in wanted)]
    if not selected:
        recorded = sorted(map(" on ".join, names))
        more = f" and {len(recorded) - MAX_LISTED} more" if len(recorded) > MAX_LISTED else ""
        raise MisuseError(f"no recorded space has that name; there are {', '.join(recorded[:MAX_LISTED])[:300]}{more}")
    remaining = []
    for measured, space, device in selected:
        if (complete and not measured.known.all()) or (held_out and measured.problem.key not in data.held_out):
            continue
        history = [other for other in tasks if transfer and _is_history(other, measured, transfer)]
        remaining.append(RecordedSpace(space, device, measured.measured_only(), tuple(history)))
    if not remaining:
        conditions = ["was measured completely"] * complete + ["is held out from training"] * held_out
        raise MisuseError(f"of the selected spaces ({len(selected)}), none {' and '.join(conditions)}")
    labels = device_labels(recorded.task.device for recorded in remaining)  # machines can share a device's name
    return [replace(recorded, device=_plain(labels[recorded.task.device.key])) for recorded in remaining]


def _names(tasks: Sequence[MeasuredTask], problems: Sequence[Problem]) -> list[tuple[str, str]]:
    """The names of the space and the device of each task.

    A space of the operation "recorded" has the name of its kernel if no other of the data set's `problems` has that
    kernel; every other space has the problem's key.
    """
    kernels = {problem: dict(problem.features).get("kernel") for problem in problems if problem.type == "recorded"}
    counts = Counter(kernels.values())
    names = []
    for measured in tasks:
        kernel = kernels.get(measured.problem)
        names.append((measured.problem.key if kernel is None or counts[kernel] > 1 else str(kernel),
                      _plain(measured.device.name)))
    return names


def _plain(name: str) -> str:
    """The name of a device in rows: a recorded device's name without its prefix."""
    return name.removeprefix(PREFIX)


def _is_history(other: MeasuredTask, measured: MeasuredTask, transfer: str) -> bool:
    """Whether another task belongs to the history of this one."""
    if transfer == "leave-device-out":
        return other.problem == measured.problem and other.device.key != measured.device.key
    return (other.device.key == measured.device.key and other.problem != measured.problem
            and not near(other.problem, measured.problem))  # a near problem has nearly the same times


def _why_nothing(data: Dataset) -> str:
    """The reason why a data set has no space to search, for the first problem without one."""
    for problem in data.problems():
        for device in data.devices.values():
            solving = [kernel for kernel in data.kernels.values() if kernel.why_not(problem, device) is None]
            try:
                Task.of(problem, device, solving)
            except KernelError as error:
                excluding = (_excluding(kernel, problem, device) for kernel in solving)
                return next(filter(None, excluding), str(error))
    return "every record is of another version of its kernel, violates its constraints or failed"


def _excluding(kernel: Kernel, problem: Problem, device: Device) -> str | None:
    """Describe the constraint that no configuration of a declared kernel satisfies; None if there is no such one."""
    for constraint in kernel.constraints:
        parameters = tuple(kernel.by_name[name] for name in constraint.expression.names if name in kernel.by_name)
        alone = replace(kernel, parameters=parameters, constraints=(constraint,), derived=())
        if math.prod(len(parameter.values) for parameter in parameters) > MAX_TRIALS:
            continue
        if parameters and alone.why_not(problem, device) is None and not len(SearchSpace(alone, problem, device)):
            return f"{kernel.name} has no configuration that satisfies {constraint.expression.text!r:.80}"
    return None


def recorded_measurer(data: str | Path, device: Device | str | None, problems: Sequence[Problem]) -> RecordedMeasurer:
    """The records of the problems on a device of a data set. Raises DeviceError, MisuseError where there are none."""
    from seqtune.tuner.measuring.recorded_measurer import RecordedMeasurer

    dataset = read_measurements(data)
    recorded = dataset.device(device.key if isinstance(device, Device) else device)
    wanted = dataset.rows["problem"].isin([problem.key for problem in problems])
    measurer = RecordedMeasurer(recorded, replace(dataset, rows=dataset.rows[wanted]).on(recorded.key).records(),
                                (*kernels(), *dataset.kernels.values()))
    if not any(problem in measurer for problem in problems):
        raise MisuseError(f"{data} has no record of {problems[0].brief()} on {recorded.name} with today's kernels")
    return measurer
