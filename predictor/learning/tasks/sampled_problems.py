"""SampledProblems: endless random problems with the kinds, forms and devices of measured ones, or on drawn GPUs.

Problem i is a function of the seed and i alone. So a training draws each when it needs it and keeps none, and a resumed
one meets the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from seqtune.errors import KernelError, ProblemError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.sampler import draw_problem
from seqtune.kernels.problem_sets.similarity import SimilarityIndex
from seqtune.kernels.task import Task

FORM = ("layout", "dtype", "bias", "activation", "tolerance")  # what samplers of operations do not, or rarely, vary
DRAWS = 200  # for the form of one measured problem, before another one is taken
FORMS = 50  # measured problems whose form is tried


class SampledProblems:
    """Problems on devices, each as a task, numbered from 0.

    Each takes the operation, the form (FORM) and the device of one of the `models`, or a GPU drawn around that device.
    Where an operation has no sampler, a GPU is drawn for the problem of the model itself. No sampled problem is near
    one of `avoid`, and each is solved by the named `kernels` alone.
    """

    def __init__(self, models: Sequence[tuple[Problem, Device]], avoid: Sequence[Problem], kernels: Collection[str],
                 seed: int) -> None:
        self._models, self._kernels, self.seed = models, frozenset(kernels), seed
        self._avoid, self._avoided = avoid, SimilarityIndex(avoid)

    def task(self, number: int) -> Task:
        """The task with this number. Raises ProblemError if none was found, as where no operation has a sampler."""
        generator = np.random.default_rng([self.seed, 1, number])
        for _ in range(FORMS):
            model, own = self._models[int(generator.integers(len(self._models)))]
            device = drawn_gpu(own, generator)
            for _ in range(DRAWS):
                try:
                    task = self._drawn(model, device, generator)
                except ProblemError:  # an operation without a sampler
                    task = None if device is own else self._solved(model, device)
                    if task is None:
                        break
                if task is not None:
                    return task
        raise ProblemError("found no random problem with the form of a measured one; train without further problems "
                           "(--extra 0)")

    def _drawn(self, model: Problem, device: Device, generator: np.random.Generator) -> Task | None:
        """The task of a random problem, or None if it is one of those that are left out."""
        drawn = draw_problem(model.type, generator)
        if drawn is None:
            return None
        try:
            problem = _in_form_of(drawn, model)
            if self._avoided.has_near(drawn) or self._avoided.has_near(problem):
                return None
        except ProblemError:
            return None
        return self._solved(problem, device)

    def _solved(self, problem: Problem, device: Device) -> Task | None:
        """The task of a problem on a device; None if other kernels solve it, too, or none."""
        try:
            task = Task.of(problem, device)
        except KernelError:
            return None
        return task if all(kernel.name in self._kernels for kernel in task.kernels) else None

    def identity(self) -> str:
        """A text that differs where a problem does."""
        return repr((self.seed, [(problem.key, device.key) for problem, device in self._models],
                     [problem.key for problem in self._avoid], sorted(self._kernels)))


def _in_form_of(problem: Problem, model: Problem) -> Problem:
    """The problem with the form of another one of its operation. Raises ProblemError if there is no such problem."""
    features = dict(problem)
    form = {name: value for name, value in dict(model).items() if name in FORM and name in features}
    return Problem.make(problem.type, **{**features, **form})


SPREAD = 0.3  # standard deviation of the log of a drawn fact: siblings on one chip differ by up to twice that
UNKNOWN = 0.1  # chance that clock and rates are not known, as of GPUs whose data sheets tell no clock
_CLOCK = "clock_mhz"


def drawn_gpu(device: Device, generator: np.random.Generator) -> Device:
    """A GPU with other units, clock, cache and bandwidth; another device stays as it is and draws nothing.

    The limits of its architecture stay, such as the shared memory of a block. Rates follow units and clock.
    """
    facts = dict(device.extra)
    clock = facts.get(_CLOCK)
    if "compute_capability" not in facts or not isinstance(clock, int | float):
        return device
    units, faster, cache, bandwidth = np.exp(generator.normal(0.0, SPREAD, 4)).tolist()
    count = max(1, round(device.compute_units * units))
    rate = faster * count / device.compute_units
    known = generator.random() >= UNKNOWN
    extra = tuple((name, round(value * faster) if name == _CLOCK and isinstance(value, int | float)
                   else round(value * rate, 1) if name.endswith("_gflops") and isinstance(value, int | float)
                   else value) for name, value in device.extra
                  if known or not (name == _CLOCK or name.endswith("_gflops")))
    return replace(device, compute_units=count, l2_bytes=round(device.l2_bytes * cache),
                   peak_gflops=round(device.peak_gflops * rate, 1) if known else 0.0,
                   bandwidth_gbs=round(device.bandwidth_gbs * bandwidth, 1), extra=extra)
