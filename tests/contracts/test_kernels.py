"""The promises of every kernel family; a new one is tested by being named in the table."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call import CalledImplementation, CallStep
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.launches.implementation import Array, KernelSource, implementation_of, includes
from seqtune.kernels.llvm.launch import Launch, llvm_implementation
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.stored_operands import stored
from tests.support.oddities import odd_problems, paper_device, problems_of_equal_constants, solved_problem
from tests.support.paths import ROOT


@dataclass(frozen=True)
class Generated:
    """Everything that a family generates for a configuration, in the words of its backend."""

    source: KernelSource
    launch: Launch | tuple[CallStep, ...]

    @property
    def entries(self) -> list[str]:
        return [part.entry for part in (self.launch.phases if isinstance(self.launch, Launch) else self.launch)]


def generated(family: Kernel, problem: Problem, device: Device, configuration: Configuration) -> Generated:
    """Generate a configuration; the test is skipped where nothing here runs the family."""
    if family.implementation is None:
        pytest.skip(f"nothing here runs {family.name}")
    implementation: object = implementation_of(family)
    if isinstance(implementation, CalledImplementation):
        call = implementation.call(problem, device, configuration)
        return Generated(call.source, call.steps)
    code = llvm_implementation(family)
    return Generated(code.source(problem, device, configuration), code.launch(problem, device, configuration))


def packing_of(family: Kernel, problem: Problem, device: Device, configuration: Configuration) -> object:
    """The packing of the constant operand: equal ones make equal arrays."""
    if isinstance(implementation_of(family), CalledImplementation):
        return call_of(family, problem, device, configuration).buffers()["weights"].packing
    return llvm_implementation(family).packing(problem, configuration)


def packed_by(family: Kernel, problem: Problem, device: Device, configuration: Configuration, operand: Array) -> Array:
    """The constant operand as the kernel reads it."""
    if isinstance(implementation_of(family), CalledImplementation):
        return stored(operand, call_of(family, problem, device, configuration).buffers()["weights"])
    return llvm_implementation(family).pack(problem, device, configuration, operand)


LARGE: dict[str, dict[str, int | str]] = {  # features that give a tensor more than 2^31 elements
    "gemm": {"m": 1 << 17, "n": 1 << 17}, "scaled_gemm": {"m": 1 << 17, "n": 1 << 17},
    "fused_moe": {"tokens": 1 << 20, "hidden": 1 << 13}, "attention": {"n": 1 << 16, "heads": 1 << 8, "group": 1},
    "conv2d": {"n": 1 << 20, "h": 64, "w": 64}}
WIDE = ("cuda.wgmma_gemm", "cuda.tensor_gemm", "triton.fused_moe")  # their offsets have 64 bits, or start rows that do


@pytest.mark.parametrize("name", names())
class TestKernel:
    @staticmethod
    @cache
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
        for _ in range(60):
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
        for configuration in space.sample(np.random.default_rng(1), 3):
            first, again = (generated(family, space.problem, space.device, configuration) for _ in range(2))
            assert first == again
            assert first.entries
            assert all(entry in first.source.text for entry in first.entries)

    def test_it_reads_every_operand_of_the_problem_and_writes_its_output(self, name: str) -> None:
        family, device = kernel(name), paper_device(kernel(name).backends[0])
        if family.implementation is None or not isinstance(implementation_of(family), CalledImplementation):
            pytest.skip(f"{name} is not called")
        for problem in odd_problems(family, device, 3, seed=5):
            space = SearchSpace(family, problem, device)
            for configuration in space.sample(np.random.default_rng(1), 2):
                call = call_of(family, problem, device, configuration)
                tensors = operation(problem.type).tensors(problem)
                assert set(call.buffers()) == set(tensors.names())
                assert all(argument.dtype == problem["dtype"] for argument in call.buffers().values())

    def test_it_solves_a_problem_of_more_than_32_bits_of_elements_only_if_its_offsets_have_64(self, name: str) -> None:
        family, space = kernel(name), self.space(name)
        large = Problem.make(family.operation, **{**dict(space.problem), **LARGE[family.operation]})
        if family.backends == ("llvm",) or name in WIDE:
            assert family.why_not(large, space.device) is None
            assert len(SearchSpace(family, large, space.device))
        else:
            assert re.search("more than 2.31 elements, and its code", family.why_not(large, space.device) or "")
        if family.backends == ("llvm",):
            for configuration in space.sample(np.random.default_rng(4), 3):
                text = generated(family, space.problem, space.device, configuration).source.text
                offsets = [offset for line in re.findall("getelementptr.*", text)
                           for offset in re.findall(r"(i[0-9]+) [^,]+", line.partition(",")[2].partition(", ")[2])]
                assert set(offsets) == {"i64"}
                assert not re.search("[sz]ext i(8|16|32) .* to i64", text)

    def test_equal_packings_of_the_same_weights_are_equal_arrays(self, name: str) -> None:
        family, device = kernel(name), paper_device(kernel(name).backends[0])
        if family.implementation is None or operation(family.operation).constant is None:
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
                key = shape, packing_of(family, problem, device, configuration)
                array = packed_by(family, problem, device, configuration, operand)
                first = packed.setdefault(key, array)  # as bytes: words of whole numbers may look like NaN
                assert first.shape == array.shape
                assert first.tobytes() == array.tobytes(), (problem.brief(), configuration.brief())


FAMILIES = sorted(path for path in (ROOT / "kernels").glob("*/*.py") if "\nKERNEL = " in path.read_text())


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_in_a_familys_file_the_declaration_stands_before_its_code(path: Path) -> None:
    nodes = ast.parse(path.read_text()).body
    declared = next(node.lineno for node in nodes
                    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "KERNEL")
    assert all(declared < node.lineno for node in nodes if isinstance(node, ast.ClassDef))
