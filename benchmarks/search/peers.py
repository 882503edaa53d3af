"""Peers: Kernel Tuner's strategies search a task with our measurements, so a trial costs all methods the same.

A strategy of Kernel Tuner gets a search space, a runner and the options of a search. Here the space holds exactly the
valid configurations of the task, and the runner asks our measurer, or looks recorded times up. If several kernel
families compete, the parameters of all are joined, with one more that chooses the family; a parameter that a family
does not have keeps its first value. A configuration that a strategy visits again is answered from memory and is no new
trial.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from seqtune.data.record import Measurement
from seqtune.errors import UnavailableError
from seqtune.kernels.kernel import Setting
from seqtune.kernels.task import Task
from seqtune.tuner.run.simulation import RecordedSpace

STRATEGIES = ("adaptive_tabu_greywolf", "nsga2", "genetic_algorithm", "pso", "bayes_opt", "hybrid_vndx")
LIVE_STRATEGIES = ("adaptive_tabu_greywolf", "hybrid_vndx", "bayes_opt", "genetic_algorithm", "pso",
                   "simulated_annealing")
PREFIX = "kt:"  # begins the names of Kernel Tuner's methods
FAMILY = "kernel_family"  # the parameter that chooses among kernel families
MOST_VISITS = 50  # evaluations for each trial: some strategies go on visiting configurations that they know
Values = tuple[float, ...]
Measure = Callable[[Sequence[int], float], Iterable[Measurement]]  # of numbers, where the best time is known


def check_installed() -> None:
    """Check that Kernel Tuner is installed. Raises UnavailableError if not."""
    if importlib.util.find_spec("kernel_tuner") is None:
        raise UnavailableError("Kernel Tuner is not installed: pip install kernel_tuner; or leave it out: --peers ''")


@dataclass(frozen=True)
class Peer:
    """One strategy of Kernel Tuner as the search method of recorded spaces."""

    strategy: str

    def __call__(self, recorded: RecordedSpace, trials: int, seed: int) -> Sequence[int]:
        numbers: list[int] = []
        search_as_peer(recorded.task, self.strategy, trials, seed,
                       lambda wanted, best: map(recorded.measurement, wanted),
                       lambda number, measurement: numbers.append(number))
        return numbers


def search_as_peer(task: Task, strategy: str, trials: int, seed: int, measure: Measure,
                   note: Callable[[int, Measurement], None]) -> None:
    """Search a task with a strategy of Kernel Tuner; `note` is called with the number and measurement of each trial.

    The strategy may end before it made all trials.
    """
    from kernel_tuner.interface import Options, strategy_map
    from kernel_tuner.searchspace import Searchspace
    from kernel_tuner.util import StopCriterionReached, TuningBudget

    numbers = joined_values(task)
    columns = list(zip(*numbers, strict=True))
    parameters = {name: sorted(set(column)) for name, column in zip(joined_names(task), columns, strict=True)}
    entries = {str(number): dict(zip(parameters, values, strict=True)) for values, number in numbers.items()}
    space = Searchspace(None, None, None, from_cache={"tune_params": parameters, "cache": entries})
    limit = min(trials, len(task))
    options = Options({
        "strategy_options": Options({"max_fevals": limit}), "objective": ["time"],
        "objective_higher_is_better": [False], "budget": TuningBudget(None, limit), "tune_params": parameters,
        "restrictions": [], "verbose": False, "cache": {}, "cachefile": None, "metrics": None,
        "strategy": strategy, "seed": seed, "simulation_mode": False})  # nsga2 reads these
    random.seed(seed)
    np.random.seed(seed)
    runner = MeasuringRunner(numbers, measure, limit * MOST_VISITS, note)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), \
            contextlib.suppress(StopCriterionReached):
        warnings.simplefilter("ignore")
        strategy_map[strategy].tune(space, runner, options)


class MeasuringRunner:
    """A runner of Kernel Tuner (its class Runner) with our measurements."""

    def __init__(self, numbers: Mapping[Values, int], measure: Measure, visits: int,
                 note: Callable[[int, Measurement], None]) -> None:
        self.numbers, self.measure, self.note = numbers, measure, note
        self.visits = visits  # evaluations that are left
        self.dev = SimpleNamespace(max_threads=sys.maxsize)  # bayes_opt reads it; our constraints hold the limits
        self.best = math.inf
        self.results: dict[int, dict[str, Any]] = {}

    def add_strategy_time(self, seconds: float) -> None:
        """Ignore the seconds that the strategy took: they are part of the elapsed time."""

    def available_parallelism(self) -> int:
        """The number of configurations that are measured at once."""
        return 1

    def shutdown(self) -> None:
        """Do nothing: what measures belongs to the caller."""

    def run(self, configurations: Sequence[Sequence[float]], options: Any) -> list[dict[str, Any] | None]:
        """Measure configurations; the result of each, or None for those beyond the budget."""
        wanted = [self.numbers[tuple(configuration)] for configuration in configurations]
        self.visits -= len(wanted)
        left = options.budget.get_evaluations_remaining() if self.visits > 0 else 0
        new = [number for number in dict.fromkeys(wanted) if number not in self.results][:left]
        options.budget.add_evaluations(len(new) if self.visits > 0 else options.budget.max_fevals)
        for number, measurement in zip(new, self.measure(new, self.best), strict=True):
            self.best = min(self.best, measurement.seconds)
            self.results[number] = _result(measurement)
            self.note(number, measurement)
        names = options.tune_params
        return [{**dict(zip(names, configuration, strict=True)), **self.results[number]}
                if number in self.results else None
                for number, configuration in zip(wanted, configurations, strict=True)]


def joined_names(task: Task) -> list[str]:
    """The names of the joined parameters, the choice of the family first if there are several."""
    names = dict.fromkeys(parameter.name for kernel in task.kernels for parameter in kernel.parameters)
    return [FAMILY, *names] if len(task.kernels) > 1 else list(names)


def joined_values(task: Task) -> dict[Values, int]:
    """The joined parameters' values of each configuration -> its number in the task.

    Words are replaced by their index, because some strategies compute with values.
    """
    names = joined_names(task)
    first: dict[str, Setting] = {}
    words: dict[str, dict[Setting, int]] = {name: {} for name in names}
    for kernel in task.kernels:
        for parameter in kernel.parameters:
            first.setdefault(parameter.name, parameter.values[0])
            if not parameter.is_numeric:
                for value in parameter.values:
                    words[parameter.name].setdefault(value, len(words[parameter.name]))
    family = {kernel.name: index for index, kernel in enumerate(task.kernels)}

    def number_of(name: str, value: Setting) -> float:
        known = words[name].get(value)
        if known is not None:
            return known
        assert not isinstance(value, str)
        return value

    numbers: dict[Values, int] = {}
    for number, configuration in enumerate(task):
        settings = {**first, **dict(configuration.settings)}
        numbers[tuple(family[configuration.kernel] if name == FAMILY else number_of(name, settings[name])
                      for name in names)] = number
    return numbers


def _result(measurement: Measurement) -> dict[str, Any]:
    """The result of a measurement, as Kernel Tuner's runners return it: milliseconds, or an error."""
    from kernel_tuner.util import RuntimeFailedConfig

    if math.isfinite(measurement.seconds):
        return {"time": measurement.seconds * 1e3}
    return {"time": sys.float_info.max, "__error__": RuntimeFailedConfig()}
