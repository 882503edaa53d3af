"""A kernel whose implementation makes its own executables: they are checked and timed as all others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.data.record import Status
from seqtune.errors import KernelError
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.launches.implementation import implementation_of, includes
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.backend import Backend, ExecutableFactory, LaunchError, build_executable
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support.planted import BACKEND, DEVICE, PATH, PROBLEM, PlantedBackend, PlantedExecutable, deed

ROOT = str(Path(__file__).parents[3])  # the worker imports this module, and by it the folder `tests`


class _Factory:
    includes = "everything"

    def executable(self, backend: Backend, problem: Problem, configuration: Configuration) -> PlantedExecutable:
        if configuration["deed"] == "launch":
            raise LaunchError(f"{backend.device.name} refuses it")
        return PlantedExecutable(str(configuration["deed"]), 0.0, problem)


FACTORY = _Factory()
KERNEL = Kernel("factory.gemm", "gemm", ("planted",), (Parameter("deed", ("good", "wrong", "launch")),), (),
                (("deed", "good"),), implementation=FACTORY)


def test_the_worker_measures_what_the_implementation_makes() -> None:
    configurations = [Configuration.of(KERNEL.name, {"deed": name}) for name in ("good", "wrong", "launch")]
    kernels = {KERNEL.name: f"{Path(__file__).stem}:KERNEL"}
    with Runner(DEVICE, BACKEND, kernels, [*PATH, str(Path(__file__).parent), ROOT]) as runner:
        results = [measurement for _, measurement in runner.measure(PROBLEM, configurations, Options(samples=1))]
    assert [result.status for result in results] == [Status.CORRECT, Status.CORRECTNESS, Status.RUNTIME]
    assert "refuses it" in results[2].message


def test_an_implementation_is_an_object_or_its_name() -> None:
    named = replace(KERNEL, implementation="seqtune.kernels.opencl.gemm:IMPLEMENTATION")
    code: object = implementation_of(KERNEL)
    assert code is FACTORY
    assert includes(KERNEL) == "everything"
    assert implementation_of(named) is implementation_of(kernel("opencl.gemm"))
    assert not isinstance(implementation_of(named), ExecutableFactory)
    with pytest.raises(KernelError, match="no implementation"):
        implementation_of(replace(KERNEL, implementation=None))


def test_other_kernels_are_built_by_their_backend() -> None:
    backend = PlantedBackend(DEVICE)
    plain = replace(KERNEL, implementation=None)
    built = build_executable(backend, PROBLEM, plain, deed("good"))
    assert isinstance(built, PlantedExecutable)
