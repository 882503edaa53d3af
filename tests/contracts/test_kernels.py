"""The promises of every kernel family; a new one is tested by being named in the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqtune.kernels.kernel import Kernel
from seqtune.kernels.launches.implementation import Array, Implementation, implementation_of, includes
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from tests.support.oddities import paper_device, problems_of_equal_constants, solved_problem


def code_of(family: Kernel) -> Implementation:
    """The family's implementation; the test is skipped where it has none."""
    if family.implementation is None:
        pytest.skip(f"nothing here runs {family.name}")
    return implementation_of(family)


@pytest.mark.parametrize("name", names())
class TestKernel:
    @staticmethod
    def space(name: str) -> SearchSpace:
        family = kernel(name)
        device = paper_device(family.backends[0])
        return SearchSpace(family, solved_problem(family, device), device)

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
        choices = operation(family.operation).by_name["dtype"].choices
        foreign = "int8" if self.space(name).problem.dtype != "int8" else "fp16"
        for feature in ({"dtype": foreign}, {"direction": "backward_data"}):
            if family.operation == "conv2d" or feature.get("dtype") in choices:
                other = Problem.make(family.operation, **{**dict(self.space(name).problem), **feature})
                assert family.why_not(other, device)
        assert family.why_not(Problem.make("recorded", size=3), device)
        assert family.why_not(self.space(name).problem, replace(device, backend="another"))

    def test_the_same_configuration_makes_the_same_source_and_launch(self, name: str) -> None:
        family, space = kernel(name), self.space(name)
        implementation = code_of(family)
        for configuration in space.sample(np.random.default_rng(1), 3):
            source, launch = (make(space.problem, space.device, configuration)
                              for make in (implementation.source, implementation.launch))
            assert source == implementation.source(space.problem, space.device, configuration)
            assert launch == implementation.launch(space.problem, space.device, configuration)
            assert launch.phases
            assert all(phase.entry in source.text for phase in launch.phases)

    def test_equal_packings_of_the_same_weights_are_equal_arrays(self, name: str) -> None:
        family, device = kernel(name), paper_device(kernel(name).backends[0])
        implementation = code_of(family)
        if operation(family.operation).constant is None:
            pytest.skip(f"no operand of {family.operation} is packed")
        weights: dict[tuple[int, ...], Array] = {}
        packed: dict[object, Array] = {}
        for problem in problems_of_equal_constants(family, device):
            space = SearchSpace(family, problem, device)
            work = operation(problem.type)
            assert work.constant is not None
            shape = work.operands(problem)[work.constant]
            operand = weights.setdefault(shape, np.random.default_rng(0).standard_normal(shape, np.float32))
            for configuration in space.sample(np.random.default_rng(2), 20):
                key = shape, implementation.packing(problem, configuration)
                array = implementation.pack(problem, device, configuration, operand)
                first = packed.setdefault(key, array)  # as bytes: words of whole numbers may look like NaN
                assert first.shape == array.shape
                assert first.tobytes() == array.tobytes(), (problem.brief(), configuration.brief())
