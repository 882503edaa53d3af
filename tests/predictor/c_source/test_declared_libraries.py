"""Checkpoints of declared libraries in C: odd libraries answer as they do in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.errors import KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.task import Task
from seqtune.predictor.c_source.file import c_file
from seqtune.predictor.c_source.header import ERRORS
from tests.support.learning.c_programs import library_checkpoint, needs_compiler
from tests.support.learning.compiled_predictor import CompiledPredictor, compile_shared
from tests.support.libraries.stencil import STENCIL, write

GPU = Device("opencl:gpu", "opencl", "gfx1030", "opencl-c-1.2", compute_units=40, local_memory=65536,
             max_work_group=1024, peak_gflops=9000.0, bandwidth_gbs=400.0)
BARE = """name = "bare"
[operations.fill]
features = {n = "elements"}
inputs = {x = "n"}
outputs = {y = "n"}
"""
KERNEL = '[kernels.plain]\nparameters = {%s}\nbackends = ["opencl"]\n'
OTHERS = """[operations.mix]
features = {rows = "rows", columns = {meaning = "columns", default = 8, low = 1, high = 64}}
rules = {"rows > columns" = "more rows than columns"}
derived = {flop = "rows * columns"}
inputs = {x = "rows, columns"}
outputs = {y = "rows"}
[kernels.one]
operation = "fill"
parameters = {block = [1, 2, 4, 8], order = ["forward", "back"]}
constraints = {"block <= 2 or order == 'back'" = "long blocks go back"}
backends = ["opencl"]
[kernels.two]
operation = "fill"
parameters = {unroll = [1, 3, 5]}
solves = {"n % 3 == 0" = "a multiple of three"}
backends = ["opencl"]
[kernels.three]
operation = "mix"
parameters = {tile = [1, 2, 4, 8, 16], step = [1, 2]}
derived = {tiles = "ceil_div(rows, tile)"}
constraints = {"tile * step <= columns" = "a tile has at most all columns"}
backends = ["opencl"]
"""
LIBRARIES = {
    "one parameter": BARE + KERNEL % "block = [1, 2, 4, 8, 16, 32]",
    "one value": BARE + KERNEL % "block = [4]",
    "one value among others": BARE + KERNEL % "width = [8], block = [1, 2, 4], depth = [1, 2, 3]",
    "words only": BARE + KERNEL % 'order = ["forward", "back", "both"], memory = ["near", "far"]',
    "an empty word": BARE + KERNEL % 'flag = ["", "-x"], block = [1, 2, 4]' + (
        '[kernels.plain.command]\nrun = ["cc", "{flag}", "{block}"]\n'),
    "several kernels and operations": BARE + OTHERS,
    "derived quantities": STENCIL,
    "choices that are numbers": STENCIL.replace("low = 1, high = 64", "choices = [1, 3, 7]"),
}


@needs_compiler
@pytest.mark.parametrize("text", LIBRARIES.values(), ids=list(LIBRARIES))
def test_a_declared_library_in_c_proposes_what_python_proposes(text: str, tmp_path: Path) -> None:
    library = read_library(write(tmp_path, text))
    use(library)
    checkpoint = library_checkpoint(library, GPU)
    written = c_file(checkpoint)
    source = tmp_path / "predictor.c"
    source.write_text(written.source)
    predictor = CompiledPredictor(compile_shared(source, ("-O0",)), written)
    solved = 0
    for problem in problems(sorted(library.operations), 200):
        answers = predictor.propose(problem, GPU, 5)
        try:
            task = Task.of(problem, GPU)
        except KernelError:
            assert answers == []
            continue
        assert answers == [candidate.configuration for candidate in checkpoint.propose([task], 5)[0]]
        solved += 1
    assert solved > 20


@needs_compiler
def test_a_number_that_is_no_choice_is_refused_in_c_too(tmp_path: Path) -> None:
    library = read_library(write(tmp_path, LIBRARIES["choices that are numbers"]))
    use(library)
    written = c_file(library_checkpoint(library, GPU))
    assert "one of 1 3 7" in written.source
    (tmp_path / "predictor.c").write_text(written.source)
    predictor = CompiledPredictor(compile_shared(tmp_path / "predictor.c", ("-O0",)), written)
    problem, device = predictor.problem(parse_problem("stencil n=64 steps=3")), predictor.device(GPU)
    assert predictor.predict(problem, device, 5) == 5
    problem.of.stencil.steps = 4
    assert predictor.predict(problem, device, 5) == -1 - [name for name, _ in ERRORS].index("PROBLEM")


def problems(operations: list[str], count: int) -> list[Problem]:
    """Random problems of several operations."""
    share = count // len(operations)
    return [problem for name in operations for problem in sample_problems(name, share, 3)]
