"""What every backend, every kernel family and every measurer promises; a new one passes by being named in its table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from seqtune.data.record import Record, Status
from seqtune.errors import DeviceError
from seqtune.kernels.device import Device
from seqtune.kernels.implementation import Array, Implementation, includes
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import KERNELS, kernel, kernels_for, table
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import BACKENDS, Backend, Executable, open_backend
from seqtune.tuner.backends.discovery import devices, why_unavailable
from seqtune.tuner.measuring.recorded_measurer import RecordedMeasurer
from seqtune.tuner.measuring.runner import Measurer, Runner
from seqtune.tuner.measuring.timing import Options, prepare
from tests.support import planted
from tests.support.exactness import check
from tests.support.oddities import odd_problems

PROBLEMS = {
    "conv2d": Problem.make("conv2d", n=2, c=6, h=9, w=11, k=10, r=3, s=2, pad_h=1, pad_w=1, stride_w=2, groups=2,
                           bias="yes", activation="relu"),
    "gemm": Problem.make("gemm", m=13, n=37, k=19, trans_a="yes", bias="yes"),
}
# Families that solve but a part of their problem type.
OWN = {
    "llvm.winograd": Problem.make("conv2d", n=2, c=6, h=9, w=11, k=20, r=3, s=3, pad_h=1, pad_w=1, bias="yes"),
    "llvm.depthwise": Problem.make("conv2d", n=2, c=12, h=9, w=11, k=12, r=3, s=3, pad_h=1, groups=12, layout="NHWC"),
    "opencl.implicit_gemm": Problem.make("conv2d", n=2, c=16, h=18, w=21, k=64, r=3, s=3, pad_h=1, bias="yes"),
}
PAPER = {  # devices to declare for, none of which need be here
    "llvm": Device("llvm:avx2:2", "llvm", "haswell", "avx2", threads=2, compute_units=2, vector_bits=256,
                   l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=8 << 20),
    "opencl": Device("opencl:gpu", "opencl", "gpu", "opencl-c-1.2", threads=0, compute_units=80, vector_registers=64,
                     local_memory=48 << 10, max_work_group=1024),
}
# backend -> odd problems of each family, random configurations of each problem: PoCL takes a second to build one.
ODD = {"llvm": (8, 2), "opencl": (1, 0)}


def problem_of(family: Kernel) -> Problem:
    """One that the family solves."""
    return OWN.get(family.name, PROBLEMS[family.operation])


def problems_of_equal_weights(family: Kernel, device: Device) -> list[Problem]:
    """Problems that the family solves whose weights have one shape, and which differ in everything else."""
    if family.operation == "gemm":
        alternatives = [{"m": 13, "n": 48, "k": 48, "trans_b": flag} for flag in ("no", "yes")]
    else:
        depthwise = family.name == "llvm.depthwise"
        alternatives = [
            {"c": groups * (1 if depthwise else 32), "h": 20, "w": 20, "k": 64, "r": 3, "s": 3, "groups": groups,
             "layout": layout}
            for groups in ((64,) if depthwise else (1, 2, 4)) for layout in ("NCHW", "NHWC")]
    problems = [Problem.make(family.operation, **features) for features in alternatives]
    return [problem for problem in problems if family.why_not(problem, device) is None]


@pytest.mark.parametrize("name", KERNELS)
class TestKernel:
    @staticmethod
    def space(name: str) -> SearchSpace:
        family = kernel(name)
        return SearchSpace(family, problem_of(family), PAPER[family.backends[0]])

    def test_it_is_declared_in_full(self, name: str) -> None:
        family = kernel(name)
        assert family.name == name
        assert family.backends
        assert family.meaning
        assert all(parameter.meaning for parameter in family.parameters)
        assert all(one.reason for one in (*family.constraints, *family.solves))
        assert dict(family.default).keys() == family.by_name.keys()
        assert all(value in family.by_name[parameter].values for parameter, value in family.default)
        assert family.implementation is None or includes(family)

    def test_its_constraints_name_only_what_problems_and_devices_have(self, name: str) -> None:
        family, space = kernel(name), self.space(name)
        assert set(family.names_read()) <= {*space.problem.names(), *space.device.names()}

    def test_every_parameter_has_a_choice_and_every_refusal_a_reason(self, name: str) -> None:
        family, space = kernel(name), self.space(name)
        assert len(space) > 1
        assert space.default in space
        columns = space.columns()
        assert any(len(set(columns[parameter.name].tolist())) > 1 for parameter in family.parameters)
        generator = np.random.default_rng(0)
        texts = [f"{one.reason} ({one.expression.text})" for one in family.constraints]
        for _ in range(200):
            settings = {parameter.name: parameter.values[generator.integers(len(parameter.values))]
                        for parameter in family.parameters}
            configuration = replace(space.default, settings=tuple(settings.items()))
            assert configuration in space or space.why_not(configuration) in texts

    def test_it_refuses_what_is_not_implemented(self, name: str) -> None:
        family, device = kernel(name), self.space(name).device
        for feature in ({"dtype": "int8"}, {"direction": "backward_data"}):
            if family.operation == "conv2d" or "dtype" in feature:
                other = Problem.make(family.operation, **{**dict(self.space(name).problem), **feature})
                assert family.why_not(other, device)
        assert family.why_not(Problem.make("recorded", size=3), device)
        assert family.why_not(self.space(name).problem, replace(device, backend="another"))

    def test_the_same_configuration_makes_the_same_source_and_launch(self, name: str) -> None:
        family, space = kernel(name), self.space(name)
        assert family.implementation is not None
        implementation: Implementation = resolve(family.implementation)  # type: ignore[assignment]
        for configuration in space.sample(np.random.default_rng(1), 3):
            source, launch = (make(space.problem, space.device, configuration)
                              for make in (implementation.source, implementation.launch))
            assert source == implementation.source(space.problem, space.device, configuration)
            assert launch == implementation.launch(space.problem, space.device, configuration)
            assert launch.phases
            assert all(phase.entry in source.text for phase in launch.phases)

    def test_equal_packings_of_the_same_weights_are_equal_arrays(self, name: str) -> None:
        family, device = kernel(name), PAPER[kernel(name).backends[0]]
        assert family.implementation is not None
        implementation: Implementation = resolve(family.implementation)  # type: ignore[assignment]
        weights: dict[tuple[int, ...], Array] = {}
        packed: dict[object, Array] = {}
        for problem in problems_of_equal_weights(family, device):
            space = SearchSpace(family, problem, device)
            shape = operation(problem.type).operands(problem)["weights"]
            operand = weights.setdefault(shape, np.random.default_rng(0).standard_normal(shape, np.float32))
            for configuration in space.sample(np.random.default_rng(2), 20):
                key = shape, implementation.packing(problem, configuration)
                array = implementation.pack(problem, device, configuration, operand)
                assert np.array_equal(packed.setdefault(key, array), array), (problem.brief(), configuration.brief())


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    reason = why_unavailable().get(request.param)
    if reason is not None:
        pytest.skip(reason)
    opened = open_backend(next(device for device in devices() if device.backend == request.param))
    yield opened
    opened.close()


class TestBackend:
    @staticmethod
    def built(backend: Backend, problem: Problem) -> Executable:
        family: Kernel = kernels_for(problem, backend.device)[0]
        return backend.build(problem, family, SearchSpace(family, problem, backend.device).default)

    @pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
    def test_it_poisons_runs_and_closes(self, backend: Backend, problem: Problem) -> None:
        operands, expected = prepare(problem)
        executable = self.built(backend, problem)
        assert executable.build_seconds >= 0
        executable.load(operands)
        executable.poison()
        assert np.isnan(executable.output()).all()
        executable.run()
        assert expected.error(executable.output()) < expected.tolerance
        assert executable.overrun() is None
        executable.close()
        executable.close()

    def test_every_family_is_right_on_odd_problems_and_writes_nothing_else(self, backend: Backend) -> None:
        device = backend.device
        count, samples = ODD[device.backend]
        for family in map(kernel, table(device.backend)):
            spaces = [SearchSpace(family, problem, device)
                      for problem in (problem_of(family), *odd_problems(family, device, count, seed=1))]
            spaces = [space for space in spaces if len(space)]
            assert len(spaces) > count // 2, family.name
            for place, space in enumerate(spaces):
                check(backend, family, space.problem,
                      [space.default, *space.sample(np.random.default_rng(place), samples)])

    def test_executables_do_not_disturb_each_other(self, backend: Backend) -> None:
        operands, expected = prepare(PROBLEMS["gemm"])
        first, second = (self.built(backend, PROBLEMS["gemm"]) for _ in range(2))
        for one, scale in ((first, 1), (second, 2)):
            one.load({**operands, "x": operands["x"] * np.float32(scale)})
            one.poison()
        first.run()
        before = first.output()
        second.run()
        assert expected.error(before) < expected.tolerance
        assert (first.output() == before).all()
        before.fill(7)  # a copy
        assert expected.error(first.output()) < expected.tolerance
        assert not expected.error(second.output()) < expected.tolerance
        second.close()
        first.run()
        assert expected.error(first.output()) < expected.tolerance
        first.close()

    def test_a_device_of_another_machine_is_refused(self, backend: Backend) -> None:
        other = replace(backend.device, name=f"{backend.device.backend}:elsewhere", instruction_set="elsewhere")
        with pytest.raises(DeviceError, match="elsewhere"):
            open_backend(other)


def test_a_backend_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"nothing here runs other kernels; there are .*llvm"):
        open_backend(Device("other:0", "other", "a", "b"))


@pytest.fixture(scope="module", params=["runner", "replay"])
def measurer(request: pytest.FixtureRequest) -> Iterator[Measurer]:
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
        if request.param == "runner":
            yield runner
        else:
            trials = [planted.deed("good", number) for number in range(4)] + [planted.deed("wrong")]
            yield RecordedMeasurer(planted.DEVICE, [
                Record(planted.PROBLEM, planted.DEVICE.key, 1, configuration, planted.DEVICE.toolchain, measurement)
                for configuration, measurement in runner.measure(planted.PROBLEM, trials, Options())],
                [planted.KERNEL])


class TestMeasurer:
    def test_every_configuration_is_answered_in_order(self, measurer: Measurer) -> None:
        asked = [planted.deed("good", 2), planted.deed("wrong"), planted.deed("good", 0)]
        found = list(measurer.measure(planted.PROBLEM, asked, Options()))
        assert [configuration for configuration, _ in found] == asked
        assert [one.status for _, one in found] == [Status.CORRECT, Status.CORRECTNESS, Status.CORRECT]
        compared = measurer.compare(planted.PROBLEM, asked, 2, Options())
        assert [one.status for one in compared] == [one.status for _, one in found]

    def test_nothing_asked_nothing_answered(self, measurer: Measurer) -> None:
        assert list(measurer.measure(planted.PROBLEM, [], Options())) == []
        assert measurer.compare(planted.PROBLEM, [], 2, Options()) == []

    def test_what_cannot_be_measured_is_data_not_an_exception(self, measurer: Measurer) -> None:
        strange = planted.deed("good", 399)  # outside its space, and in no record
        ((_, found),) = measurer.measure(planted.PROBLEM, [strange], Options())
        assert found.status in (Status.CONSTRAINTS, Status.RUNTIME)
        assert found.message

    def test_closing_the_iterator_leaves_it_usable(self, measurer: Measurer) -> None:
        measuring = measurer.measure(planted.PROBLEM, [planted.deed("good", n) for n in range(4)], Options())
        next(measuring)
        measuring.close()
        ((_, found),) = measurer.measure(planted.PROBLEM, [planted.deed("good", 3)], Options())
        assert found.status is Status.CORRECT
