"""Choices of a feature that are whole numbers: the feature is a number everywhere, and has no other value."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.errors import ProblemError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call_declaration import CallDeclaration, code_for
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from tests.support.libraries.stencil import write
from tests.support.synthetic import WIDE

CONVOLUTION = """name = "conv"
[operations.filtered]
features = {n = "outputs", filter = {meaning = "width", choices = [7, 0, 3], default = 3}}
derived = {flop = "2 * n * filter"}
rules = {"filter < 7 or n > 7" = "few outputs"}
inputs = {x = "n + filter - 1"}
outputs = {y = "n"}
[kernels.direct]
parameters = {group = [1, 2]}
constraints = ["group <= filter"]
[kernels.direct.opencl]
text = "kernel void filtered(global const float *x, global float *y, int filter) {y[0] = WIDTH;}"
entry = "filtered"
arguments = ["x", "y", "int filter"]
global = ["ceil_div(n, group) + filter"]
defines = {WIDTH = "filter"}
"""


def test_a_choice_that_is_a_number_is_one_in_expressions_sizes_and_defines(tmp_path: Path) -> None:
    use(read_library(write(tmp_path, CONVOLUTION)))
    problem = parse_problem("filtered n=64 filter=7")
    assert problem["filter"] == 7
    assert problem == parse_problem(problem.key)
    assert problem.size("flop") == 2 * 64 * 7
    assert operation("filtered").operands(problem) == {"x": (64 + 7 - 1,)}
    declaration = code_for(kernel("conv.direct"), "opencl")
    assert isinstance(declaration, CallDeclaration)
    call = declaration.call(problem, WIDE, Configuration.of("conv.direct", {"group": 2}))
    assert call.steps[0].global_size == (32 + 7,)
    assert "#define WIDTH 7\n" in call.source.text
    assert parse_problem("filtered n=64")["filter"] == 3


def test_another_number_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    use(read_library(write(tmp_path, CONVOLUTION)))
    for text in ("filter=4", "filter=8", "filter=wide"):
        with pytest.raises(ProblemError, match=r"is not one of 7, 0, 3|is not a whole number"):
            parse_problem(f"filtered n=64 {text}")
