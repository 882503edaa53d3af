"""Replay: strategies judged on recorded spaces, by simulated searches."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.say import Say, silent

from .errors import KernelError, MisuseError
from .learning import read_measurements
from .proposals import seeds_for

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.device import Device
    from seqtune.kernels.kernel import Kernel
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import MeasuredTask
    from seqtune.tuner.simulation import Curves, RecordedSpace

STRATEGIES = ("portfolio", "autotvm", "droplet", "random")  # where none are named: the default, the best known, chance
BUDGETS = (25, 50, 100, 200)
REPEATS = 30
TRANSFERS = ("leave-device-out", "leave-problem-out")
PREFIX = "recorded:"  # of a device's name
MOST_NAMED = 8  # in a message
LEVELS = (0.95, 0.99)  # shares that are waited for
MOST_REPEATS = 100_000
MOST_TRIALS = 1_000_000


@dataclass(frozen=True)
class Replayed:
    """The curves of every strategy on every space and device, and what of them was asked for."""

    curves: tuple[Curves, ...]
    budgets: tuple[int, ...]
    transfer: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One per space, device, strategy and budget: share_mean is optimum / best found, over `repeats` runs."""
        return [curves.row(budget) for curves in self.curves for budget in self.budgets]

    def medians(self) -> list[dict[str, Any]]:
        """Median evaluations until 95 % and 99 % of the optimum's speed; None where half of the runs end without."""
        return [{"space": one.space, "device": one.device, "strategy": one.method,
                 **{f"to_{level * 100:.0f}": one.evaluations_to(level) for level in LEVELS}} for one in self.curves]

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {"transfer": self.transfer, "rows": self.rows(), "medians": self.medians()}


def replay(data: str | Path, *, strategies: str | Sequence[str] = STRATEGIES, budgets: Sequence[int] = BUDGETS,
           repeats: int = REPEATS, transfer: str | None = None, spaces: Sequence[str] = (),
           devices: Sequence[str] = (), complete: bool = False, held_out: bool = False, batch: int = 1, seed: int = 0,
           jobs: int | None = None, progress: Say = silent) -> Replayed:
    """Search recorded spaces by simulation: a data set, or a folder or file of recorded spaces (a spaces.json).

    Only what was measured can be found; with `complete`, only spaces of which all was measured are searched, with
    `held_out` only problems that the data set keeps from learning: strategies that begin with the shipped translator's
    proposals are judged fairly on no others. `transfer` hands strategies that learn from elsewhere the records of the
    other devices, or of the other problems. `spaces` and `devices` choose some by name. One run serves all budgets.
    `jobs` processes work at once (None: one per core).
    """
    from seqtune.tuner.simulation import StrategyMethod, simulate
    from seqtune.tuner.strategies.table import strategy_entry, strategy_factory

    chosen = (strategies,) if isinstance(strategies, str) else tuple(dict.fromkeys(strategies))
    if not chosen:
        raise MisuseError("name a strategy at least")
    for name, value, least, most in (("repeats", repeats, 1, MOST_REPEATS), ("batch", batch, 1, MOST_TRIALS),
                                     ("jobs", 1 if jobs is None else jobs, 1, 4096), ("seed", seed, 0, 2**32 - 1),
                                     *(("budgets", budget, 0, MOST_TRIALS) for budget in budgets)):
        if not isinstance(value, int) or not least <= value <= most:
            raise MisuseError(f"{name}={value!r:.20}; it must be a whole number in {least}..{most}")
    if not budgets:
        raise MisuseError("name a budget at least")
    methods = {name: StrategyMethod(strategy_factory(name), batch) for name in chosen}
    progress("reading")
    asked = recorded_spaces(read_measurements(data), transfer, spaces, devices, complete, held_out)
    if any(strategy_entry(name).seeds != "ignored" for name in chosen):
        progress("predicting")
        asked = [replace(recorded, seeds=seeds_for(recorded.task)) for recorded in asked]
    ordered = tuple(sorted(set(budgets)))
    found = simulate(asked, methods, max(1, *ordered), repeats, seed=seed, jobs=jobs or _cores(), progress=progress)
    return Replayed(tuple(found), ordered, transfer)


def _cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def recorded_spaces(data: Dataset, transfer: str | None = None, spaces: Sequence[str] = (),
                    devices: Sequence[str] = (), complete: bool = False,
                    held_out: bool = False) -> list[RecordedSpace]:
    """What a data set has to search, by space and device, cut down to what was measured. Raises MisuseError."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.tuner.simulation import RecordedSpace

    if transfer not in (None, *TRANSFERS):
        raise MisuseError(f"no transfer {transfer!r:.40}; there are {', '.join(TRANSFERS)}")
    devices = [name.removeprefix(PREFIX) for name in devices]
    wanted = [key for key, device in data.devices.items() if _device(device) in devices]
    if wanted and transfer != "leave-device-out":
        data = replace(data, rows=data.rows[data.rows["device"].isin(wanted)])
    declared = tuple(data.kernels.values())
    known = [measured for part in (False, True) for measured in measured_tasks(data, part, declared)]
    if not known:
        raise MisuseError(f"there is nothing to search: {_why_nothing(data)}")
    found = []
    called = _named(known)
    named = [(measured, space, device) for measured, (space, device) in zip(known, called, strict=True)
             if (not spaces or space in spaces) and (not devices or device in devices)]
    if not named:
        there = sorted(map(" on ".join, called))
        more = f" and {len(there) - MOST_NAMED} more" if len(there) > MOST_NAMED else ""
        raise MisuseError(f"nothing of that name was recorded; there are {', '.join(there[:MOST_NAMED])[:300]}{more}")
    for measured, space, device in named:
        if (complete and not measured.known.all()) or (held_out and measured.problem.key not in data.held_out):
            continue
        others = [other for other in known if transfer and _teaches(other, measured, transfer)]
        found.append(RecordedSpace(space, device, measured.measured_only(), tuple(others)))
    if not found:
        what = " and ".join(["was measured completely"] * complete + ["is held out from learning"] * held_out)
        raise MisuseError(f"of the spaces asked for ({len(named)}), none {what}")
    return found


def _named(known: Sequence[MeasuredTask]) -> list[tuple[str, str]]:
    """Of their spaces and devices: recorded ones are called by kernel, where that tells them apart, else by problem."""
    kernels = {measured.problem: dict(measured.problem.features).get("kernel") for measured in known
               if measured.problem.type == "recorded"}
    alike = Counter(kernels.values())
    found = []
    for measured in known:
        kernel = kernels.get(measured.problem)
        found.append((measured.problem.key if kernel is None or alike[kernel] > 1 else str(kernel),
                      _device(measured.device)))
    return found


def _device(device: Device) -> str:
    """What it is called in rows, where those that were recorded go without their prefix."""
    return device.name.removeprefix(PREFIX)


def _teaches(other: MeasuredTask, measured: MeasuredTask, transfer: str) -> bool:
    if transfer == "leave-device-out":
        return other.problem == measured.problem and other.device.key != measured.device.key
    return (other.device.key == measured.device.key and other.problem != measured.problem
            and not near(other.problem, measured.problem))  # who knows a near one knows this one


def _why_nothing(data: Dataset) -> str:
    """The reason of the first problem's kernels."""
    for problem in data.problems():
        for device in data.devices.values():
            solving = [kernel for kernel in data.kernels.values() if kernel.why_not(problem, device) is None]
            try:
                Task.of(problem, device, solving)
            except KernelError as error:
                excluding = (_excluding(kernel, problem, device) for kernel in solving)
                return next(filter(None, excluding), str(error))
    return "no record is of a kernel as it is today, or within its restrictions, or none of them ran"


def _excluding(kernel: Kernel, problem: Problem, device: Device) -> str | None:
    """The restriction that alone leaves nothing of a declared kernel's space, in words."""
    for one in kernel.constraints:
        parameters = tuple(kernel.by_name[name] for name in one.expression.names if name in kernel.by_name)
        alone = replace(kernel, parameters=parameters, constraints=(one,), derived=())
        if math.prod(len(parameter.values) for parameter in parameters) > MOST_TRIALS:
            continue
        if parameters and alone.why_not(problem, device) is None and not len(SearchSpace(alone, problem, device)):
            return f"{kernel.name} has no configuration within {one.expression.text!r:.80}"
    return None
