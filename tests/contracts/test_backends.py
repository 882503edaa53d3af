"""The promises of every backend; a new one is tested by being named in the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.table import OPERATIONS
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, kernels_for, table
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import BACKENDS, Backend, Executable, open_backend
from seqtune.tuner.backends.compilers import OBJECT_COMPILERS, OFFLINE_COMPILERS
from seqtune.tuner.backends.discovery import MODULES, devices, why_unavailable
from seqtune.tuner.measuring.timing import Options, prepare
from tests.support.exactness import check
from tests.support.oddities import odd_problems, solved_problem

QUICK = Options().build_seconds  # a backend that is allowed more builds slowly: fewer of its executables are tried


def test_every_backend_has_a_module_that_finds_its_devices() -> None:
    assert list(MODULES) == list(BACKENDS)


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    reason = why_unavailable().get(request.param)
    if reason is not None:
        pytest.skip(reason)
    if not table(request.param):
        pytest.skip("only kernels of other libraries run on it")
    opened = open_backend(next(device for device in devices() if device.backend == request.param))
    yield opened
    opened.close()


class TestBackend:
    @staticmethod
    def problem(backend: Backend) -> Problem:
        """One that the first family of the backend solves."""
        return solved_problem(kernel(next(iter(table(backend.device.backend)))), backend.device)

    @staticmethod
    def built(backend: Backend, problem: Problem) -> Executable:
        family: Kernel = kernels_for(problem, backend.device)[0]
        return backend.build(problem, family, SearchSpace(family, problem, backend.device).default)

    @pytest.mark.parametrize("name", OPERATIONS)
    def test_it_poisons_runs_and_closes(self, backend: Backend, name: str) -> None:
        families = [family for family in map(kernel, table(backend.device.backend)) if family.operation == name]
        if not families:
            pytest.skip(f"no kernel of this backend solves {name}")
        problem = solved_problem(families[0], backend.device)
        operands, expected = prepare(problem)
        executable = self.built(backend, problem)
        assert executable.build_seconds >= 0
        assert (executable.resources is not None) == (  # a CPU's are not read
            backend.device.backend in OFFLINE_COMPILERS and not backend.device.threads)
        executable.load(operands)
        executable.poison()
        assert np.isnan(executable.outputs()["y"]).all()
        executable.run()
        assert expected.error(executable.outputs()["y"]) < expected.tolerance
        assert executable.overrun() is None
        executable.close()
        executable.close()

    def test_it_tells_the_bytes_of_an_object_if_the_table_says_so(self, backend: Backend) -> None:
        reference = OBJECT_COMPILERS.get(backend.device.backend)
        if reference is None:
            pytest.skip("it tells no sizes")
        compiler: Any = resolve(reference)(backend.device)  # type: ignore[operator]
        problem = self.problem(backend)
        family: Kernel = kernels_for(problem, backend.device)[0]
        default = SearchSpace(family, problem, backend.device).default
        assert 200 < compiler.object_bytes(problem, family, default) < 10_000_000

    def test_its_reference_work_takes_time(self, backend: Backend) -> None:
        work = backend.reference_work
        assert work is None or (work.expected > 0 and work.seconds() > 0)

    @pytest.mark.slow
    def test_every_family_is_right_on_odd_problems_and_writes_nothing_else(self, backend: Backend) -> None:
        device = backend.device
        slow = backend.build_allowance > QUICK
        count, samples = (1, 0) if slow else (3, 2)
        for family in map(kernel, table(device.backend)):
            if not family.is_for(device):
                continue
            spaces = [SearchSpace(family, problem, device)
                      for problem in (solved_problem(family, device), *odd_problems(family, device, count, seed=1))]
            spaces = [space for space in spaces if len(space)]
            assert len(spaces) > count // 2, family.name
            for place, space in enumerate(spaces):
                check(backend, family, space.problem,
                      [space.default, *space.sample(np.random.default_rng(place), samples)])

    def test_executables_do_not_disturb_each_other(self, backend: Backend) -> None:
        problem = self.problem(backend)
        operands, expected = prepare(problem)
        first, second = (self.built(backend, problem) for _ in range(2))
        for executable, scale in ((first, 1), (second, 2)):
            executable.load({name: operand * np.float32(scale) for name, operand in operands.items()})
            executable.poison()
        first.run()
        before = first.outputs()["y"]
        second.run()
        assert expected.error(before) < expected.tolerance
        assert (first.outputs()["y"] == before).all()
        before.fill(7)  # a copy
        assert expected.error(first.outputs()["y"]) < expected.tolerance
        assert not expected.error(second.outputs()["y"]) < expected.tolerance
        second.close()
        first.run()
        assert expected.error(first.outputs()["y"]) < expected.tolerance
        first.close()

    def test_a_device_of_another_machine_is_refused(self, backend: Backend) -> None:
        other = replace(backend.device, name=f"{backend.device.backend}:elsewhere", instruction_set="elsewhere")
        with pytest.raises(DeviceError, match="elsewhere"):
            open_backend(other)


def test_a_backend_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"no backend runs other kernels; the backends are .*llvm"):
        open_backend(Device("other:0", "other", "a", "b"))
