"""Peers: Kernel Tuner's strategies as search methods of a simulation, through Kernel Tuner's own simulation mode.

Each recorded task is written as a Kernel Tuner cache file, and `tune_kernel` searches it as a user would. Only the
recorded parameter values are declared, so that both sides search the same space; a recorded space that Kernel Tuner's
restrictions cannot describe is left out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import random
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from seqtune.errors import UnavailableError
from seqtune.kernels.kernel import Parameter
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.run.simulation import RecordedSpace

STRATEGIES = ("adaptive_tabu_greywolf", "nsga2", "genetic_algorithm", "pso", "bayes_opt", "hybrid_vndx")
LIVE_STRATEGIES = ("adaptive_tabu_greywolf", "hybrid_vndx", "bayes_opt", "genetic_algorithm", "pso",
                   "simulated_annealing")
PREFIX = "kt:"  # begins the names of Kernel Tuner's methods
_SOURCE = "__global__ void recorded() {}"  # never compiled


def check_installed() -> None:
    """Check that Kernel Tuner is installed. Raises UnavailableError if not."""
    if importlib.util.find_spec("kernel_tuner") is None:
        raise UnavailableError("Kernel Tuner is not installed: pip install kernel_tuner; or leave it out: --peers ''")


@dataclass(frozen=True)
class Peer:
    """One strategy of Kernel Tuner. `folder` holds the cache files of all tasks (see `write_cache`)."""

    strategy: str
    folder: Path

    def __call__(self, recorded: RecordedSpace, trials: int, seed: int) -> Sequence[int]:
        from kernel_tuner import tune_kernel

        space = recorded_values(recorded.task.spaces[0])
        parameters = {parameter.name: list(parameter.values) for parameter in space.kernel.parameters}
        random.seed(seed)
        np.random.seed(seed)  # most strategies draw from it; nsga2 and bayes_opt vary from run to run
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results, _ = tune_kernel(
                recorded.space, _SOURCE, 1, [], parameters, lang="CUDA", quiet=True, verbose=False,
                restrictions=[constraint.expression.text for constraint in space.kernel.constraints],
                strategy=self.strategy,
                strategy_options={"max_fevals": trials}, cache=str(cache_path(self.folder, recorded)),
                simulation_mode=True)
        numbers = {tuple(row): number for number, row in enumerate(values_of(space))}
        return list(dict.fromkeys(numbers[tuple(result[name] for name in parameters)] for result in results))


def searchable(recorded: RecordedSpace) -> str | None:
    """The reason why Kernel Tuner cannot search a task, or None if it can."""
    if len(recorded.task.spaces) > 1:
        return "several kernel families compete"
    space = recorded.task.spaces[0]
    if any(name not in space.kernel.by_name for constraint in space.kernel.constraints
           for name in constraint.expression.names):
        return "its constraints read more than parameters"
    if len(recorded_values(space)) != len(space):
        return "only a part of the space was recorded"
    return None


def recorded_values(space: SearchSpace) -> SearchSpace:
    """Restrict the parameters of a space to the values that occur in it."""
    parameters = []
    for column, parameter in enumerate(space.kernel.parameters):
        indices = np.unique(space.rows[:, column]).tolist()
        parameters.append(Parameter(parameter.name, tuple(parameter.values[index] for index in indices)))
    return SearchSpace(replace(space.kernel, parameters=tuple(parameters)), space.problem, space.device)


def values_of(space: SearchSpace) -> list[list[Any]]:
    """The parameter values of every configuration, in the order of the space."""
    return [[value for _, value in configuration.settings] for configuration in space]


def cache_path(folder: Path, recorded: RecordedSpace) -> Path:
    """The path of a task's cache file."""
    return folder / (re.sub(r"[^A-Za-z0-9]+", "-", f"{recorded.space} {recorded.device}") + ".json")


def write_cache(folder: Path, recorded: RecordedSpace) -> None:
    """Write a task as a Kernel Tuner cache file with all its times; building and checking take no time in it."""
    space = recorded_values(recorded.task.spaces[0])
    names = [parameter.name for parameter in space.kernel.parameters]
    no_overhead = dict.fromkeys(("compile_time", "verification_time", "benchmark_time", "strategy_time",
                             "framework_time"), 0)
    entries = {}
    for values, seconds in zip(values_of(space), recorded.seconds.tolist(), strict=True):
        time = seconds * 1e3 if np.isfinite(seconds) else "RuntimeFailedConfig"
        entries[",".join(map(str, values))] = {
            **dict(zip(names, values, strict=True)), "time": time, "times": [time], **no_overhead,
            "timestamp": "2026-01-01 00:00:00+00:00"}
    content = {"device_name": recorded.device, "kernel_name": recorded.space, "problem_size": 1,
               "tune_params_keys": names,
               "tune_params": {parameter.name: list(parameter.values) for parameter in space.kernel.parameters},
               "objective": "time",
               "cache": entries}  # last: its readers look at the closing brackets
    cache_path(folder, recorded).write_text(json.dumps(content))
