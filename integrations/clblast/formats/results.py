"""Measured times of CLBlast's kernels, for one product or for all products, as CLBlast's own tuners write them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from seqtune.data.record import Record, Status
from seqtune.errors import MisuseError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

XGEMM, DIRECT = "clblast.xgemm", "clblast.xgemm_direct"
SWITCH = "XGEMM_MIN_INDIRECT_SIZE"
SWITCH_STEP, LARGEST_SWITCH = 64, 2048  # the sizes that CLBlast's tuner of the switch tries
LEAST_SHARE = 0.9  # share of the products on which a configuration must be measured to be compared over all products

Times = Mapping[Problem, Mapping[Configuration, float]]  # seconds


@dataclass(frozen=True)
class KernelResults:
    """The results of one kernel of CLBlast: the seconds of its parameters, the best ones first."""

    family: str  # CLBlast's name: xgemm, xgemm_direct, gemm_routine
    kernel: str  # Xgemm, XgemmDirect, GemmRoutine
    sizes: tuple[int, int, int] | None  # (m, n, k); None for results over all products
    results: tuple[tuple[dict[str, int], float], ...]

    @property
    def best(self) -> dict[str, int]:
        """The fastest parameters by name."""
        return self.results[0][0]


def times_of(records: Iterable[Record]) -> dict[Problem, dict[Configuration, float]]:
    """The shortest time of each of CLBlast's configurations that ran correctly, by product."""
    times: dict[Problem, dict[Configuration, float]] = defaultdict(dict)
    for record in records:
        measurement = record.measurement
        if record.configuration.kernel in (XGEMM, DIRECT) and measurement.status is Status.CORRECT:
            known = times[record.problem]
            known[record.configuration] = min(measurement.seconds, known.get(record.configuration, math.inf))
    return times


def results_of_one(times: Mapping[Configuration, float], problem: Problem) -> list[KernelResults]:
    """The results of both kernels for one product, and the switch that chooses the faster kernel for it."""
    sizes = problem.size("m"), problem.size("n"), problem.size("k")
    results = [_results(name, sizes, {configuration: seconds for configuration, seconds in times.items()
                                      if configuration.kernel == name}) for name in (XGEMM, DIRECT)]
    measured = [result for result in results if result.results]
    best = min(measured, key=lambda result: result.results[0][1])
    cube = math.ceil(math.prod(sizes) ** (1 / 3))
    above = math.ceil((cube + 1) / SWITCH_STEP) * SWITCH_STEP
    below = cube // (2 * SWITCH_STEP) * SWITCH_STEP
    switch = above if best.kernel == "XgemmDirect" else below
    return [*measured, _routine({switch: best.results[0][1]})]


def results_of_all(times: Times) -> list[KernelResults]:
    """The results of both kernels over all products, as the geometric mean of the seconds, and the best switch.

    Only configurations that were measured on nearly all products are compared. Raises MisuseError if there is none.
    """
    logs: dict[str, dict[Configuration, float]] = {}
    for name in (XGEMM, DIRECT):
        by_configuration: dict[Configuration, list[float]] = defaultdict(list)
        products = [known for known in times.values() if any(configuration.kernel == name for configuration in known)]
        for known in products:
            for configuration, seconds in known.items():
                if configuration.kernel == name:
                    by_configuration[configuration].append(math.log(seconds))
        least = LEAST_SHARE * len(products)
        logs[name] = {configuration: float(np.mean(values)) for configuration, values in by_configuration.items()
                      if len(values) >= least}
    if not any(logs.values()):
        raise MisuseError("no configuration was measured on nearly all products; name one of them with --problem")
    results = [_results(name, None, {configuration: math.exp(value) for configuration, value in means.items()})
               for name, means in logs.items() if means]
    return [*results, _routine(_switch_times(times, logs))]


def _switch_times(times: Times, logs: Mapping[str, Mapping[Configuration, float]]) -> dict[int, float]:
    """The geometric mean of all products' seconds, by the switch, where both kernels have their best parameters."""
    best = {name: min(means, key=means.__getitem__) for name, means in logs.items() if means}
    pairs = [(math.prod(problem.size(name) for name in "mnk"), known.get(best.get(DIRECT, next(iter(best.values())))),
              known.get(best.get(XGEMM, next(iter(best.values()))))) for problem, known in times.items()]
    usable = [(volume, direct, indirect) for volume, direct, indirect in pairs if direct and indirect]
    return {switch: math.exp(sum(math.log(direct if volume < switch**3 else indirect)
                                 for volume, direct, indirect in usable) / max(1, len(usable)))
            for switch in range(SWITCH_STEP, LARGEST_SWITCH + 1, SWITCH_STEP)}


def _results(name: str, sizes: tuple[int, int, int] | None, times: Mapping[Configuration, float]) -> KernelResults:
    family, kernel = ("xgemm_direct", "XgemmDirect") if name == DIRECT else ("xgemm", "Xgemm")
    order = sorted(times, key=times.__getitem__)
    return KernelResults(family, kernel, sizes, tuple(
        (dict(sorted((key, int(value)) for key, value in configuration.settings)), times[configuration])
        for configuration in order))


def _routine(times: Mapping[int, float]) -> KernelResults:
    order = sorted(times, key=lambda switch: (times[switch], switch))
    results = tuple(({SWITCH: switch}, times[switch]) for switch in order)
    return KernelResults("gemm_routine", "GemmRoutine", None, results)
