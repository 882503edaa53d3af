"""T1 files of Kernel Tuner and BAT are read as they are, and run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

import seqtune
from seqtune.__main__ import main
from seqtune.data.record import Status
from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Setting, identity
from seqtune.kernels.launches.call_declaration import CallDeclaration, call_of, code_for
from seqtune.kernels.launches.contents import all_contents
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.t1.value_lists import value_list
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor, Tensors
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support.installation.optional import skip_without_device

DEVICE = Device("opencl:x", "opencl", "a", "b", max_work_group=1024, local_memory=1 << 16)
SOURCE = """__kernel void scale(__global float *out, __global const float *in, float factor, int n) {
    for (int t = 0; t < tile; t++) {
        int i = (get_group_id(0) * tile + t) * block_size_x + get_local_id(0);
        if (i < n) out[i] = in[i] * factor + (bad ? 1.0f : 0.0f);
    }
}
"""


def argument(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"Name": name, "Type": "float", "MemoryType": kind, **more}


def t1(**specification: Any) -> dict[str, Any]:
    """A file as Kernel Tuner's: the space is written in Python, sizes in grid divisors."""
    parameters = [("block_size_x", "[16*i for i in range(1, 5) if i != 3]", 32),
                  ("tile", "[1] + [2**i for i in (1, 2)]", 2), ("bad", "[0, 1]", 0)]
    return {
        "General": {"BenchmarkName": "GEMM", "OutputFormat": "JSON"},
        "ConfigurationSpace": {
            "TuningParameters": [{"Name": name, "Type": "int", "Values": values, "Default": default}
                                 for name, values, default in parameters],
            "Conditions": [{"Expression": "tile == 1 or block_size_x*tile <= 128 and tile in [1, 2, 4]",
                            "Parameters": ["block_size_x", "tile"]}]},
        "Budget": [{"Type": "ConfigurationCount", "BudgetValue": 10}],
        "KernelSpecification": {
            "Language": "OpenCL", "CompilerOptions": ["-cl-fast-relaxed-math"], "KernelName": "scale",
            "KernelFile": "scale.cl", "GlobalSizeType": "OpenCL", "LocalSize": {"X": "block_size_x", "Y": "1", "Z": 1},
            "GlobalSize": {"X": "1000 // tile"}, "ProblemSize": [1000], "GridDivX": ["block_size_x", "tile"],
            "SharedMemory": 0, "Stream": None, "Arguments": [
                argument("out", "Vector", AccessType="WriteOnly", FillType="Constant", FillValue=0.0, Output=1,
                         Size="ProblemSize[0]"),
                argument("in", "Vector", AccessType="ReadOnly", FillType="Random", FillValue=1.0, Size=1000),
                argument("factor", "Scalar", FillValue=2.5),
                {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 1000}], **specification}}


def write_t1(folder: Path, content: Any) -> Path:
    (folder / "scale.cl").write_text(SOURCE)
    path = folder / "scale.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_parameters_restrictions_and_launch_are_those_of_the_file(tmp_path: Path) -> None:
    library = seqtune.use_library(write_t1(tmp_path, t1()))
    assert library.name == "GEMM"
    family = kernel("GEMM.scale")
    assert [(parameter.name, parameter.values) for parameter in family.parameters] == [
        ("block_size_x", (16, 32, 64)), ("tile", (1, 2, 4)), ("bad", (0, 1))]
    assert dict(family.default) == {"block_size_x": 32, "tile": 2, "bad": 0}
    problem = parse_problem("t1_gemm")
    space = SearchSpace(family, problem, DEVICE)
    assert len(space) == 2 * (9 - 1)  # all but 64 * 4
    tensors = operation("t1_gemm").tensors(problem)
    call = call_of(family, problem, DEVICE, space.default)
    assert call.steps[0].global_size == (32 * 16, 1, 1)  # ceil(1000 / 64) groups
    assert call.steps[0].local_size == (32, 1, 1)
    assert set(call.source.text.splitlines()) >= {
        "#define block_size_x 32", "#define tile 2", "#define kernel_tuner 1", "#define GRID_SIZE_X 16"}
    assert call.source.options == ("-cl-fast-relaxed-math",)
    assert tensors.outputs["out"].shape == (1000,)


def test_without_divisors_the_global_size_counts_groups_or_work_items(tmp_path: Path) -> None:
    tensors = Tensors({"in_": Tensor((1000,))}, {"out": Tensor((1000,))})
    for kind, size in (("CUDA", (500 * 32,)), ("OpenCL", (512,))):
        content = t1(GlobalSizeType=kind, GridDivX=[], ProblemSize=None)
        arguments = content["KernelSpecification"]["Arguments"]
        arguments[0] = argument("out", "Vector", AccessType="ReadWrite", FillType="Constant", Size=1000)
        library = read_library(write_t1(tmp_path, content))
        declaration = code_for(library.kernel("GEMM.scale"), "opencl")
        assert isinstance(declaration, CallDeclaration)
        configuration = Configuration("GEMM.scale", (("block_size_x", 32), ("tile", 2), ("bad", 0)))
        call = declaration.call(parse_problem("gemm m=1 n=1 k=1"), DEVICE, configuration, tensors)
        assert call.steps[0].global_size[:1] == size


def test_a_file_for_cuda_gives_shared_memory_and_vector_types(tmp_path: Path) -> None:
    content = t1(Language="CUDA", SharedMemory="4*block_size_x", CompilerOptions=["-std=c++11"], Arguments=[
        {"Name": "x", "Type": "float4", "MemoryType": "Vector", "AccessType": "ReadOnly", "FillType": "Generator",
         "DataSource": "i", "Size": "max(block_size_x)"},
        {"Name": "y", "Type": "double", "MemoryType": "Vector", "AccessType": "ReadWrite", "FillType": "Constant",
         "FillValue": 0, "Size": 8}])
    library = read_library(write_t1(tmp_path, content))
    declaration = code_for(library.kernel("GEMM.scale"), "cuda")
    assert isinstance(declaration, CallDeclaration)
    work = library.operations["t1_gemm"]
    assert not isinstance(work, str)
    assert [argument.kind for argument in declaration.arguments] == ["buffer", "buffer", "local"]
    assert work.tensors(parse_problem("gemm m=1 n=1 k=1")).inputs["x"].shape == (4 * 64,)


def contents_of_argument(folder: Path, kind: str, **more: Any) -> NDArray[Any]:
    """The contents that an array of 1000 random items of this type holds before a run, by a T1 file."""
    content = t1()
    content["KernelSpecification"]["Arguments"][1] = argument(
        "in", "Vector", AccessType="ReadOnly", FillType="Random", Size=1000) | {"Type": kind} | more
    work = read_library(write_t1(folder, content)).operations["t1_gemm"]
    assert not isinstance(work, str)
    return all_contents(work.tensors(parse_problem("gemm m=1 n=1 k=1")), 0)["in_"]


@pytest.mark.parametrize(("kind", "bound", "low", "high"), [
    ("int32", 999, 0, 999), ("int32", 3.5, 0, 3), ("uint8", 1, 0, 1), ("int32", 0, 0, 0), ("int64", -5, -5, 0),
    ("int32", None, 0, 16), ("uint64", 1 << 60, 0, 1 << 60)])
def test_random_whole_numbers_are_between_0_and_the_fill_value(
        kind: str, bound: float | None, low: int, high: int, tmp_path: Path) -> None:
    numbers = contents_of_argument(tmp_path, kind, FillValue=bound)
    assert numbers.dtype == kind
    assert low <= numbers.min() <= low + (high - low) // 50
    assert high - (high - low) // 50 <= numbers.max() <= high


def test_the_random_seed_of_a_file_draws_its_numbers(tmp_path: Path) -> None:
    first, again, other, none = (contents_of_argument(tmp_path, "int32", FillValue=999, RandomSeed=seed).tolist()
                                 for seed in (3, 3, 4, None))
    assert first == again
    assert first not in (other, none)


@pytest.mark.parametrize(("more", "says"), [
    ({"FillValue": 256}, r"Arguments\.1\.FillValue: 256 does not fit into uint8"),
    ({"FillValue": -1}, r"FillValue: -1 does not fit into uint8"),
    ({"RandomSeed": 0.5}, r"RandomSeed: 0\.5 is no whole number"), ({"RandomSeed": -1}, "RandomSeed: -1 is no")])
def test_a_bound_or_a_seed_that_cannot_be_is_one_line(more: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=says):
        contents_of_argument(tmp_path, "uint8", **more)


@pytest.mark.device
def test_a_file_is_run_and_its_results_are_compared_with_the_default(tmp_path: Path) -> None:
    skip_without_device("opencl:0")
    seqtune.use_library(write_t1(tmp_path, t1()))
    configurations = [Configuration("GEMM.scale", (("block_size_x", 64), ("tile", 2), ("bad", bad))) for bad in (0, 1)]
    with Runner(opencl.devices()[0]) as runner:
        good, bad = runner.measure(parse_problem("t1_gemm"), configurations, Options(samples=1))
    assert good[1].status is Status.CORRECT
    assert bad[1].status is Status.CORRECTNESS


@pytest.mark.parametrize(("text", "values"), [
    ("[1, 2, 4]", [1, 2, 4]), ("(8, 16)", [8, 16]), ("list(range(1, 9))", list(range(1, 9))), ("range(3)", [0, 1, 2]),
    ("[1, 2, 4, 8, 16] + list(range(32, 128+1, 32))", [1, 2, 4, 8, 16, 32, 64, 96, 128]),
    ("[2**i for i in range(0, 6)]", [1, 2, 4, 8, 16, 32]), ("[i for i in range(1, 10+1) if i % 5 == 0]", [5, 10]),
    ("['a', 'b']", ["a", "b"]), ("[0.5, 1.0, 1, '1']", [0.5, 1.0, 1, "1"]), ("[True, False]", [True, False])])
def test_values_are_computed_without_executing_the_text(text: str, values: list[Setting]) -> None:
    assert list(map(identity, value_list(text))) == list(map(identity, values))


@pytest.mark.parametrize("text", [
    "__import__('os').system('true')", "[open('x')]", "range(10**12)", "[i for i in range(10**9)]", "[1] * 10**9",
    "[x for x in [1] for y in [2]]", "[" * 500, "range(1, 2, 0)", "1", "", "[9**9**9]"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        value_list(text)


NUMBERS = {"x": "[0, 1, 2, 3, 4, 6, 8, 16]", "y": "[1, 2, 3, 4, 8]", "z": "['a', 'b', 'abc']"}
BOTH = {**NUMBERS, "b": "[True, False]", "f": "[0.5, 1.5, 2.0, 2.45, -4.4]"}
FOUR = {**NUMBERS, "u": "[0, 1]"}
FRACTIONS = {"x": "[1, 1.5, 2, 3]", "y": "[4, 5.5]", "z": "['string_1', 'string_2']"}


@pytest.mark.parametrize(("values", "condition", "count"), [
    (BOTH, "x == 2 or f == 1.5", 360), (BOTH, "b == 1 and f > 0 or z < 'b' and not b", 880),
    (BOTH, "z == f", 0), (BOTH, "f in (2, 'a', 0.5) and b", 240), (FRACTIONS, "y % x == 1", 6),
    (FRACTIONS, "x ** 2 == 2.25", 4), (FRACTIONS, "y // x >= 2 > x", 8), (FRACTIONS, "y and z or x", 16),
    (FOUR, "(x, y) != (1, 2)", 234), (FOUR, "(x, u) in ((1, 0), (2, 1))", 30),
    (FOUR, "{1:2,2:4}[y] == x if y < 3 else u", 84), (NUMBERS, "y % x == 0", 36),
    (NUMBERS, "x == 0 or y % x == 0", 51)])
def test_conditions_are_computed_as_python_computes_them(
        values: dict[str, str], condition: str, count: int, tmp_path: Path) -> None:
    content = t1()
    parameters = [{"Name": name, "Type": "float", "Values": text} for name, text in values.items()]
    content["ConfigurationSpace"] = {"TuningParameters": [
        *parameters, *({"Name": name, "Values": "[1]"} for name in ("block_size_x", "tile", "bad"))],
        "Conditions": [{"Expression": condition}]}
    seqtune.use_library(write_t1(tmp_path, content))
    assert len(SearchSpace(kernel("GEMM.scale"), parse_problem("t1_gemm"), DEVICE)) == count


def test_fractions_and_booleans_reach_the_source_as_c_has_them(tmp_path: Path) -> None:
    content = t1(CompilerOptions=["-Dhalf_of=0.5f"])
    content["ConfigurationSpace"]["TuningParameters"] += [
        {"Name": "share", "Type": "float", "Values": "[0.5, 1.0, 1e-07]", "Default": 1},
        {"Name": "packed", "Type": "bool", "Values": [True, False], "Default": True}]
    seqtune.use_library(write_t1(tmp_path, content))
    family = kernel("GEMM.scale")
    default = Configuration(family.name, family.default)
    assert default.brief() == "block_size_x=32 tile=2 bad=0 share=1.0 packed=true"
    text = call_of(family, parse_problem("t1_gemm"), DEVICE, default).source.text
    assert "#define share 1.0\n" in text
    assert "#define packed 1\n" in text
    assert family.version != read_library(write_t1(tmp_path, t1())).kernel("GEMM.scale").version


@pytest.mark.parametrize(("content", "message"), [
    ("[", "not JSON"), ("[" * 100_000, "not JSON"), ("[]", "not a T1 file: it holds no JSON object"),
    ("{}", "not a T1 file: it has no keys, and T1 has ConfigurationSpace and KernelSpecification"),
    ('{"a\\n": 1, "ConfigurationSpace": {}}', "not a T1 file: it has a , ConfigurationSpace, and T1 has"),
    (t1(Language="Vulkan"), "is not run here"),
    (t1(KernelFile="../scale.cl"), "leads out of the library's"), (t1(KernelFile="no.cl"), "there is no 'no.cl'"),
    (t1(CompilerOptions=["-I/etc"]), "is not allowed"), (t1(ProblemSize=[0]), "ProblemSize"),
    (t1(LocalSize={"X": "nowhere"}, CompilerOptions=["-I/etc"]), "unknown name 'nowhere'"),
    (t1(LocalSize={"X": "open(1)"}), "open"), (t1(LocalSize={"X": "nowhere"}), "unknown name 'nowhere'"),
    (t1(Arguments=[argument("x", "Texture")]), "is not Vector, Scalar or Local"),
    (t1(Arguments=[{"Type": "quad", "MemoryType": "Scalar"}]), "'quad' is not known"),
    (t1(Arguments=[argument("x", "Vector", FillType="BinaryRaw", Size=4)]), "is not read here"),
    (t1(Arguments=[argument("x", "Vector")]), "json: KernelSpecification.Arguments.0: it lacks 'Size'"),
    (t1(Arguments=[argument("x", "Vector", Size=[4])]), "json: KernelSpecification.Arguments.0.Size: it is no text"),
    (t1(Arguments=7), "must be a list")])
def test_mistakes_are_one_line_with_the_name_of_the_file(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(FormatError) as refusal:
        read_library(write_t1(tmp_path, content))
    assert message in str(refusal.value)
    assert "scale.json" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_parameter_that_is_declared_twice_is_refused(tmp_path: Path) -> None:
    content = t1()
    content["ConfigurationSpace"]["TuningParameters"].append({"Name": "tile", "Values": "[2, 8]"})
    with pytest.raises(FormatError, match=r"TuningParameters\.3\.Name: 'tile' is declared twice"):
        read_library(write_t1(tmp_path, content))


def test_what_a_check_of_a_file_finds_has_the_name_of_the_file(tmp_path: Path,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    path = write_t1(tmp_path, t1(Arguments=[argument("out", "Vector", Size=64, AccessType="WriteOnly")]))
    assert main(["kernels", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"seqtune: {path}: kernels.scale.opencl")


@pytest.mark.parametrize(("content", "parts"), [
    ({"General": {}, "ConfigurationSpace": {"constraints": []}, "kernelSpecification": {"blockSize": {"X": "a"}}},
     "kernelSpecification"),
    ({"general": {}, "configuration_space": {"tuning_parameters": []}, "function_specification": []},
     "configuration_space and function_specification")])
def test_an_older_form_of_t1_is_named(
        tmp_path: Path, content: dict[str, Any], parts: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_t1(tmp_path, content)
    for words in (["kernels", str(path)], ["predict", "a", "--library", str(path)]):
        assert main(words) == 2
        assert f"scale.json: an older form of T1, with {parts}; convert it to" in capsys.readouterr().err
