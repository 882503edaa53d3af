"""A kernel's answers against the definition; for the tests of kernel families."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from hypothesis import assume

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import Backend
from seqtune.tuner.measuring.reference import make_operands, reference

ROUND_WITHIN = ("llvm.attention_bf16",)  # families that round numbers before the output: here the weights of the values


def launch(backend: Backend, family: Kernel, problem: Problem, configuration: Configuration,
           operands: Mapping[str, Array]) -> Array:
    """The output of one launch on poisoned buffers, whatever numbers it holds."""
    executable = backend.build(problem, family, configuration)
    try:
        executable.load(operands)
        executable.poison()
        executable.run()
        return executable.outputs()["y"]
    finally:
        executable.close()


def answer(backend: Backend, family: Kernel, problem: Problem, configuration: Configuration,
           operands: Operands) -> Array:
    """The output on poisoned buffers: all of it written, nothing outside it, and a second launch gives the same."""
    executable = backend.build(problem, family, configuration)
    try:
        executable.load(operands)
        executable.poison()
        executable.run()
        first = executable.outputs()["y"]
        executable.run()
        assert not np.isnan(first).any(), (problem.brief(), configuration.brief())
        assert (first == executable.outputs()["y"]).all(), (problem.brief(), configuration.brief())
        assert executable.overrun() is None, (problem.brief(), configuration.brief())
    finally:
        executable.close()
    return first


def errors(backend: Backend, family: Kernel, problem: Problem, configurations: Iterable[Configuration]) -> list[float]:
    """The largest difference of each configuration divided by the largest number of the reference in float64.

    The rounding to the element type in which y is stored does not count, nor does one before, of the largest number.
    """
    operands = make_operands(problem, seed=3)
    expected = reference(problem, operands)
    before = np.abs(expected).max() if family.name in ROUND_WITHIN else 0.0
    allowed = problem.element.rounding * (np.abs(expected) + before)
    found = []
    for configuration in configurations:
        output = answer(backend, family, problem, configuration, operands)
        assert output.shape == expected.shape
        difference = np.abs(output - expected) - allowed
        found.append(float(difference.max() / max(np.abs(expected).max(), 1e-6)))
    return found


def check(backend: Backend, family: Kernel, problem: Problem, configurations: Iterable[Configuration]) -> None:
    """Each is right to 1e-5 of the largest output."""
    chosen = list(configurations)
    found = errors(backend, family, problem, chosen)
    worst = int(np.argmax(found)) if found else 0
    assert not found or found[worst] < 1e-5, (problem.brief(), chosen[worst].brief())


def check_sample(backend: Backend, device: Device, family: Kernel, problem: Problem, seed: int) -> None:
    """The default and two random configurations are right; a problem that the family does not solve is passed over."""
    assume(family.why_not(problem, device) is None)
    space = SearchSpace(family, problem, device)
    check(backend, family, problem, [space.default, *space.sample(np.random.default_rng(seed), 2)])
