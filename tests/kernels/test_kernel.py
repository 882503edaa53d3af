from __future__ import annotations

import ast
import importlib
import inspect
import json
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest

from seqtune.errors import ConfigurationError, ExpressionError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter, Setting
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.table import libraries_in_use
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from tests.support.paths import ROOT

DEVICE = Device("recorded:test", "recorded", "none", "none")
KERNEL = Kernel(
    "recorded.test",
    "gemm",
    ("recorded",),
    (Parameter("tile", (1, 2)),),
    (Constraint.of("area <= m", "fits"),),
    (),
    solves=(Constraint.of("dtype == 'fp32'", "only fp32"), Constraint.of("k <= 64", "a short k")),
    derived=(("area", Expression("tile * step")),),
)


def test_a_kernel_says_why_it_does_not_solve_a_problem() -> None:
    kernel_ = Kernel(KERNEL.name, "gemm", ("recorded",), KERNEL.parameters, (), (), solves=KERNEL.solves)
    assert kernel_.why_not(Problem.make("gemm", m=4, n=4, k=64), DEVICE) is None
    for problem, device, reason in (
        (Problem.make("gemm", m=4, n=4, k=65), DEVICE, "a short k"),
        (Problem.make("gemm", m=4, n=4, k=4, dtype="fp16"), DEVICE, "only fp32"),
        (Problem.make("gemm", m=4, n=4, k=None), DEVICE, "needs to know k"),
        (Problem.make("recorded", k=4), DEVICE, "solves gemm, not recorded"),
        (Problem.make("gemm", m=4, n=4, k=4), Device("x", "llvm", "a", "b"), "runs on recorded, not on llvm"),
    ):
        assert reason in str(kernel_.why_not(problem, device))


def test_equal_values_of_different_types_are_different_settings() -> None:
    values: tuple[Setting, ...] = (1, 1.0, True, 0, 0.0, -0.0, False, "1", "true", 0.5)
    parameter = Parameter("p", values)
    assert [parameter.index(value) for value in values] == list(range(len(values)))
    assert all(value in parameter for value in values)
    assert None not in parameter
    assert 2.0 not in parameter
    configurations = [Configuration.of("recorded.test", {"p": value}) for value in values]
    assert len(set(configurations)) == len(values) == len({one.key for one in configurations})
    assert [repr(json.loads(one.key)["p"]) for one in configurations] == list(map(repr, values))
    assert configurations[1] == Configuration.of("recorded.test", {"p": 1.0}) != configurations[0]
    kernels = [Kernel("recorded.test", "recorded", ("recorded",), (Parameter("p", given),), (), (("p", given[0]),))
               for given in ((1, 2), (1.0, 2), (True, 2))]
    assert len(set(kernels)) == 3
    assert len({replace(KERNEL, default=(("tile", value),)) for value in (1, 1.0, True)}) == 3
    space = SearchSpace(Kernel("recorded.test", "recorded", ("recorded",), (parameter,), (), ()),
                        Problem.make("recorded"), DEVICE)
    assert [space.row(one) for one in configurations] == list(range(len(values)))
    assert space.find([{"p": value} for value in (1.0, True, 2, "none")]).tolist() == [1, 2, -1, -1]
    assert space.nearest({"p": True}) == configurations[2]
    assert pickle.loads(pickle.dumps(parameter)) == parameter


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**63, 1e300])
def test_a_number_that_no_file_can_hold_is_no_value(value: float) -> None:
    with pytest.raises(KernelError, match="'p' has a number of more than 64 bits"):
        Parameter("p", (value, 1))


def test_a_configuration_has_one_key_and_its_values() -> None:
    settings: dict[str, Setting] = {"tile": 2, "order": "nk"}
    one = Configuration.of("recorded.test", settings)
    assert one.key == '{"tile":2,"order":"nk"}'
    assert one.brief() == "tile=2 order=nk"
    assert one.number("tile") == 2
    assert one == Configuration.of("recorded.test", list(settings.items()))
    with pytest.raises(ConfigurationError, match="order='nk' is not a whole number"):
        one.number("order")
    with pytest.raises(KeyError):
        _ = one["absent"]


@pytest.mark.parametrize("values", [(), (1, 2, 1), tuple(range(40_000))])
def test_a_parameter_has_distinct_values_that_fit_a_row(values: tuple[int, ...]) -> None:
    with pytest.raises(KernelError, match="different values"):
        Parameter("tile", values)
    with pytest.raises(KernelError, match="more than 64 bits"):
        Parameter("tile", (1, 10**400))


def test_an_unknown_kernel_and_a_bad_constraint_are_refused() -> None:
    with pytest.raises(KernelError, match=r"no kernel 'llvm.magic'; there are llvm.direct"):
        kernel("llvm.magic")
    with pytest.raises(ExpressionError):
        Constraint.of("tile.__class__", "no")


def test_a_quantity_of_the_problem_alone_is_settled_and_stands_for_what_it_reads() -> None:
    one = replace(KERNEL, constraints=(Constraint.of("few % tile == 0 and size <= step", "it must fit"),), derived=(
        ("few", Expression("min(m, 4)")), ("size", Expression("tile * few"))))
    settled, needed = one.split_derived()
    assert [name for name, _ in settled] == ["few"]
    assert set(needed) == {"few", "step"}


OWN = {name: str(reference) for library in libraries_in_use() if library.runs
       for name, reference in library.table.items()}


@pytest.mark.parametrize("reference", OWN.values(), ids=OWN)
def test_every_family_is_declared_in_the_same_order(reference: str) -> None:
    module = importlib.import_module(reference.partition(":")[0])
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(module)))
             if isinstance(node, ast.Call) and ast.unparse(node.func) == "Kernel.of"]
    order = list(inspect.signature(Kernel.of).parameters)
    assert len(calls) == 1
    fields = [str(keyword.arg) for keyword in calls[0].keywords]
    assert fields == sorted(fields, key=order.index)


def test_a_kernel_keeps_its_hash_in_other_processes() -> None:
    program = ("from seqtune.kernels.registry import kernel; import pickle, sys; "
               "sys.stdout.buffer.write(pickle.dumps((hash(kernel('llvm.gemm')), kernel('llvm.gemm'))))")
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT)
    number, family = pickle.loads(other.stdout)
    assert number == hash(family) == hash(kernel("llvm.gemm"))
    assert {kernel("llvm.gemm"): 1}[family] == 1


@pytest.mark.parametrize("library", tuple(libraries_in_use()), ids=lambda library: library.name)
def test_a_librarys_table_tells_the_operations_of_its_kernels(library: Library) -> None:
    for name, operation in library.solved.items():
        assert library.kernel(name).operation == operation
