"""The argument `strategy` of Kernel Tuner's `tune_kernel`. Users know this module as `seqtune.kerneltuner`.

    >>> from kernel_tuner import tune_kernel  # doctest: +SKIP
    >>> from seqtune.kerneltuner import strategy
    >>> tune_kernel(..., strategy=strategy(), strategy_options={"max_fevals": 100})  # doctest: +SKIP
    >>> tune_kernel(..., strategy=strategy(checkpoint="mine"))  # doctest: +SKIP

Kernel Tuner compiles, runs and checks; our strategy proposes the configurations. With a checkpoint that was trained on
caches of the kernel, the checkpoint's proposals for the problem come first. Kernel Tuner's hook is the class `OptAlg`
(kernel_tuner/strategies/wrapper.py): its cost function is called with one configuration after the other and raises an
exception when the budget ends.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqtune.data.formats.foreign_records import as_listed
from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError, UnavailableError, shown
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.tuner.strategies.strategy import SearchContext, StrategyFactory
from seqtune.tuner.strategies.table import strategy_entry, strategy_factory

from .warm_start import PROPOSALS, Settings, WarmStart, plain_setting

__all__ = ["strategy"]

_DEVICE = Device("kernel-tuner", "recorded", "unknown", "none")
_PROBLEM = Problem.make("recorded")


def strategy(name: str = "portfolio", seed: int = 0, *, checkpoint: str | Path | None = None,
             problem: Mapping[str, Any] | str | None = None, kernel: str | None = None, device: str | None = None,
             proposals: int = PROPOSALS) -> Any:
    """Make an object for the argument `strategy` of `tune_kernel`, from a strategy's name and its seed.

    The first `proposals` configurations are those of the `checkpoint`, trained on caches of this kernel (see
    `WarmStart`, which explains `problem`, `kernel` and `device`). Raises MisuseError for wrong arguments,
    CheckpointError, and UnavailableError without Kernel Tuner.
    """
    factory = strategy_factory(name)
    if seed < 0:
        raise MisuseError(f"seed={shown(seed)}; it must not be negative")
    warm = warm_start(name, checkpoint, problem, kernel, device, proposals)
    try:
        from kernel_tuner.strategies.wrapper import OptAlg, OptAlgWrapper
    except ImportError:
        raise UnavailableError("Kernel Tuner is not installed: pip install kernel_tuner") from None

    class Optimizer(OptAlg):  # type: ignore[misc]
        """Runs a search with one of our strategies."""

        def __init__(self) -> None:
            super().__init__()
            self.costfunc_kwargs = {"scaling": False, "snap": False}  # it gets configurations unchanged
            self.constraint_aware = False

        def __call__(self, func: Any, searchspace: Any) -> tuple[tuple[Any, ...], float]:
            return search(func, searchspace, factory, seed, warm)

    return OptAlgWrapper(Optimizer())


def warm_start(name: str, checkpoint: str | Path | None, problem: Mapping[str, Any] | str | None = None,
               kernel: str | None = None, device: str | None = None, proposals: int = PROPOSALS) -> WarmStart | None:
    """The warm start of a strategy with this name; None without a checkpoint. Raises MisuseError, CheckpointError."""
    if checkpoint is None:
        if (problem, kernel, device) != (None, None, None):
            raise MisuseError("problem, kernel and device describe a search to a checkpoint; name one (checkpoint=)")
        return None
    if strategy_entry(name).seeds == "ignored":
        raise MisuseError(f"the strategy {name} ignores a checkpoint's proposals; choose portfolio or predictor")
    if proposals < 1:
        raise MisuseError(f"proposals={proposals}; at least 1 is needed")
    return WarmStart(checkpoint, problem, kernel, device, proposals)


def search(func: Any, searchspace: Any, factory: StrategyFactory, seed: int = 0,
           warm: WarmStart | None = None) -> tuple[tuple[Any, ...], float]:
    """Search until the strategy ends; return the best configuration and its cost.

    `func` and `searchspace` are Kernel Tuner's CostFunc and Searchspace. `func` raises an exception when the budget
    ends, which is passed on. Raises MisuseError and CheckpointError before the first call of `func`.
    """
    values: Mapping[str, Sequence[Any]] = searchspace.tune_params
    space = space_of(values, searchspace.list)
    proposed = [] if warm is None else warm.proposals(values, searchspace.list, getattr(func, "runner", None))
    limit = getattr(func, "tuning_options", {}).get("max_fevals")
    trials = int(limit) if isinstance(limit, int | float) and math.isfinite(limit) else None
    seeds = [_configuration(space, settings) for settings in proposed]
    searching = factory(SearchContext(Task(_PROBLEM, _DEVICE, (space,)), seed, trials, seeds=seeds))
    best: tuple[tuple[Any, ...], float] = ((), sys.float_info.max)
    while configurations := searching.ask(1):
        for configuration in configurations:
            indices = space.rows[space.row(configuration)]
            settings = tuple(column[index] for column, index in zip(values.values(), indices, strict=True))
            cost = func(settings)
            if isinstance(cost, int | float) and cost < best[1]:
                best = settings, float(cost)
            searching.tell(configuration, _measurement(cost))
    return best


def space_of(values: Mapping[str, Sequence[Any]], listed: Sequence[Sequence[Any]]) -> SearchSpace:
    """Make a SearchSpace from Kernel Tuner's: the values of every parameter, and the list of valid configurations."""
    parameters = [Parameter(name, tuple(map(plain_setting, column))) for name, column in values.items()]
    kernel = Kernel("recorded.kernel-tuner", "recorded", ("recorded",), tuple(parameters), (), ())
    rows = np.array([[parameter.index(plain_setting(value)) for parameter, value in zip(
        parameters, configuration, strict=True)] for configuration in listed], np.int16)
    return SearchSpace.of_rows(kernel, _PROBLEM, _DEVICE, rows.reshape(len(listed), len(parameters)))


def _configuration(space: SearchSpace, settings: Settings) -> Configuration:
    """The configuration with these settings; a parameter that they lack has a single value."""
    return Configuration(space.kernel.name, tuple(
        (parameter.name, as_listed(parameter.values)(settings.get(parameter.name, parameter.values[0])))
        for parameter in space.kernel.parameters))


def _measurement(cost: object) -> Measurement:
    """Convert a cost in milliseconds; a negative cost is an objective to maximise, whose inverse is used instead."""
    value = float(cost) if isinstance(cost, int | float) else math.inf
    if not math.isfinite(value) or value == 0 or value >= sys.float_info.max:
        return Measurement(Status.RUNTIME, message="Kernel Tuner could not measure it")
    return Measurement(Status.CORRECT, (value * 1e-3 if value > 0 else -1 / value,))
