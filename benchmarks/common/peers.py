"""Peers: Kernel Tuner's strategies as methods of a simulation, through its own simulation mode.

Each task is written as one of its cache files, and `tune_kernel` searches it as its users would. The parameters' values
are those that were recorded, so that its space is ours; a recording that its restrictions cannot tell is left out.
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
from seqtune.tuner.simulation import RecordedSpace

STRATEGIES = ("adaptive_tabu_greywolf", "nsga2", "genetic_algorithm", "pso", "bayes_opt", "hybrid_vndx")
PREFIX = "kt:"  # of a method's name: what is Kernel Tuner's
_SOURCE = "__global__ void recorded() {}"  # never compiled


def check_installed() -> None:
    """Raises UnavailableError where Kernel Tuner is not."""
    if importlib.util.find_spec("kernel_tuner") is None:
        raise UnavailableError("Kernel Tuner is not installed: pip install kernel_tuner; or leave it out: --peers ''")


@dataclass(frozen=True)
class Peer:
    """One of its strategies. The caches of all tasks lie in `folder` (see `write_cache`)."""

    strategy: str
    folder: Path

    def __call__(self, recorded: RecordedSpace, trials: int, seed: int) -> Sequence[int]:
        from kernel_tuner import tune_kernel

        space = recorded_values(recorded.task.spaces[0])
        parameters = {one.name: list(one.values) for one in space.kernel.parameters}
        random.seed(seed)
        np.random.seed(seed)  # what most of its strategies draw from; nsga2 and bayes_opt vary from run to run
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results, _ = tune_kernel(
                recorded.space, _SOURCE, 1, [], parameters, lang="CUDA", quiet=True, verbose=False,
                restrictions=[one.expression.text for one in space.kernel.constraints], strategy=self.strategy,
                strategy_options={"max_fevals": trials}, cache=str(cache_path(self.folder, recorded)),
                simulation_mode=True)
        numbers = {tuple(row): number for number, row in enumerate(values_of(space))}
        return list(dict.fromkeys(numbers[tuple(result[name] for name in parameters)] for result in results))


def searchable(recorded: RecordedSpace) -> str | None:
    """Why Kernel Tuner cannot search this task, or None where it can."""
    if len(recorded.task.spaces) > 1:
        return "several kernel families compete"
    space = recorded.task.spaces[0]
    if any(name not in space.kernel.by_name for one in space.kernel.constraints for name in one.expression.names):
        return "its constraints read more than parameters"
    if len(recorded_values(space)) != len(space):
        return "only a part of the space was recorded"
    return None


def recorded_values(space: SearchSpace) -> SearchSpace:
    """The space that the constraints allow of the values that occur in it."""
    parameters = []
    for column, parameter in enumerate(space.kernel.parameters):
        there = np.unique(space.rows[:, column]).tolist()
        parameters.append(Parameter(parameter.name, tuple(parameter.values[place] for place in there)))
    return SearchSpace(replace(space.kernel, parameters=tuple(parameters)), space.problem, space.device)


def values_of(space: SearchSpace) -> list[list[Any]]:
    """The settings of every configuration, in order."""
    return [[value for _, value in configuration.settings] for configuration in space]


def cache_path(folder: Path, recorded: RecordedSpace) -> Path:
    """Where the cache of a task lies."""
    return folder / (re.sub(r"[^A-Za-z0-9]+", "-", f"{recorded.space} {recorded.device}") + ".json")


def write_cache(folder: Path, recorded: RecordedSpace) -> None:
    """The task as a cache of Kernel Tuner's, all times in it; building and checking take none."""
    space = recorded_values(recorded.task.spaces[0])
    names = [parameter.name for parameter in space.kernel.parameters]
    nothing = dict.fromkeys(("compile_time", "verification_time", "benchmark_time", "strategy_time",
                             "framework_time"), 0)
    entries = {}
    for values, seconds in zip(values_of(space), recorded.seconds.tolist(), strict=True):
        time = seconds * 1e3 if np.isfinite(seconds) else "RuntimeFailedConfig"
        entries[",".join(map(str, values))] = {
            **dict(zip(names, values, strict=True)), "time": time, "times": [time], **nothing,
            "timestamp": "2026-01-01 00:00:00+00:00"}
    content = {"device_name": recorded.device, "kernel_name": recorded.space, "problem_size": 1,
               "tune_params_keys": names,
               "tune_params": {one.name: list(one.values) for one in space.kernel.parameters}, "objective": "time",
               "cache": entries}  # last: its readers look at the closing brackets
    cache_path(folder, recorded).write_text(json.dumps(content))
