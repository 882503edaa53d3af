"""Macros of foreign sources: declared values replace those that a source gives itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import seqtune
from seqtune.api.checking import is_library_file
from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call import BufferArgument
from seqtune.kernels.launches.call_declaration import DeclaredArgument, call_of
from seqtune.kernels.launches.includes import without_definitions
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.problem_sets.parse import parse_problem
from tests.support.libraries.stencil import write

SQUARE = """name = "square"
[kernels.tiled]
operation = "gemm"
parameters = {tile = [16, 32], read_only = [0, 1]}
solves = {"m == n and n == k" = "square matrices only"}
constraints = ["n % tile == 0"]
[kernels.tiled.opencl]
text = '''#define WIDTH 4096
#define tile 8
__kernel void run(__global float *c) { c[WIDTH + tile + read_only] = 0; }'''
entry = "run"
arguments = ["ARRAY"]
global = ["n"]
defines = {WIDTH = "n"}
"""


def test_definitions_of_declared_names_leave_the_source_and_lines_stay() -> None:
    text = "#define A 1\n  # define B (A + \\\n 2)\n#define C(x) x\n#define AB 3\n#undef D\n#define D 4\nA"
    assert without_definitions(text, {"A", "B", "C", "D"}) == (
        "\n\n\n#define C(x) x\n#define AB 3\n#undef D\n#define D 4\nA")


def test_declared_values_come_before_the_source_and_win(tmp_path: Path) -> None:
    seqtune.use_library(write(tmp_path, SQUARE.replace("ARRAY", "y")))
    configuration = Configuration("square.tiled", (("tile", 32), ("read_only", 0)))
    source = call_of(read_library(tmp_path).kernel("square.tiled"), parse_problem("gemm m=64 n=64 k=64"),
                     Device("d", "opencl", "d", "none"), configuration).source
    assert [line for line in source.text.splitlines() if line.startswith("#define")] == [
        "#define tile 32", "#define read_only 0", "#define WIDTH 64"]
    assert source.options == ()  # a macro `read_only` of the command line would break the compiler's own headers


def test_an_unknown_array_is_named_with_those_that_there_are() -> None:
    buffers = {name: BufferArgument(name, "fp32") for name in ("x", "weights", "y")}
    with pytest.raises(FormatError, match=r"'c' names no input or output \(there are x, weights, y\)"):
        DeclaredArgument.of("c").argument(0, {"n": 4}, buffers)


def test_json_files_in_t1_are_linted_and_other_json_files_are_kernels(tmp_path: Path) -> None:
    (tmp_path / "t1.json").write_text('{"ConfigurationSpace": {}}')
    (tmp_path / "kernels.json").write_text('{"kernels": []}')
    assert is_library_file([str(tmp_path / "t1.json")])
    assert not is_library_file([str(tmp_path / "kernels.json")])
    assert is_library_file(["LIBRARY.TOML"])
