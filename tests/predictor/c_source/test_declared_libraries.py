"""Checkpoints of declared libraries in C: odd libraries answer as they do in Python."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from dataclasses import replace
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
from seqtune.predictor.c_source.file import CFile, c_file
from seqtune.predictor.c_source.header import ERRORS
from tests.support.learning.c_programs import library_checkpoint, mixed_checkpoint, needs_compiler, run_program
from tests.support.learning.compiled_predictor import STRICT, compiled, without_types
from tests.support.libraries.stencil import write

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
features = {rows = "rows", columns = {meaning = "columns", default = 8, low = 1, high = 64}, times = {choices = [1, 3]}}
rules = {"rows > columns" = "more rows than columns"}
derived = {flop = "rows * columns"}
inputs = {x = "rows, columns"}
outputs = {y = "rows"}
[operations.hold]
features = {n = "elements"}
inputs = {x = "n"}
outputs = {y = "n"}
[kernels.one]
operation = "fill"
parameters = {block = [1, 2, 4, 8], order = ["forward", "back"]}
constraints = {"block <= 2 or order == 'back'" = "long blocks go back"}
backends = ["opencl"]
[kernels.two]
operation = "fill"
parameters = {unroll = [1, 3, 5], flag = ["", "-x"]}
solves = {"n % 3 == 0" = "a multiple of three"}
backends = ["opencl"]
command = {run = ["cc", "{flag}", "{unroll}"]}
[kernels.three]
operation = "mix"
parameters = {tile = [1, 2, 4, 8, 16], step = [1, 2]}
derived = {tiles = "ceil_div(rows, tile)"}
constraints = {"tile * step <= columns" = "a tile has at most all columns"}
backends = ["opencl"]
[kernels.four]
operation = "hold"
parameters = {items = [32, 64]}
constraints = {"items <= max_work_group" = "a work-group holds all"}
backends = ["opencl"]
"""
FRACTIONS = BARE + KERNEL % (
    'tile = [1, 2, 4], share = [0.25, 0.5, 1.0], flag = [true, false], mixed = [1, 1.0, true, 2.5], '
    'word = ["0.5", "a"]') + """derived = {part = "n * share / tile", half = "share / 2 if flag else tile"}
constraints = {"tile * share <= 2" = "a", "share == 1 or tile > 1 or flag" = "b", "half < 2 or word != '0.5'" = "c"}
"""
EVERY_OPERATOR = BARE + KERNEL % (
    "a = [-1.5, 0.1, 0.30000000000000004, 2.0], b = [0.5, 3, -2], c = [true, false], d = [1, 2, 7]") + """
[kernels.plain.derived]
sum = "a + b - c"
quotient = "a / b"
floors = "(a * 7) // b"
rest = "(a * 10) % b"
power = "b ** 2 + 2 ** -d"
chosen = "min(a, b, d) if c else max(a, d)"
size = "abs(a)"
rounded = "round_up(n, b) if b > 0 else ceil_div(n, d)"
found = "{0.5: 1.5, 3: 2, 3.0: -1, -2: d}[b]"
either = "a and b or d"
whole = "(d << 2 | d) & 14 ^ c"
[kernels.plain.constraints]
"sum != 2.5" = "one"
"quotient <= 4 or not c" = "two"
"floors % 2 == 0 or d == 7" = "three"
"rest < 1.5" = "four"
"-2.5 < chosen <= 2 or c == 1" = "five"
"size in (0.1, 1.5, 2, 0.3)" = "six"
"0.1 + 0.2 != size or c" = "seven"
"rounded >= n" = "eight"
"found * either != 3" = "nine"
"power * whole > 0.25 and a" = "ten"
"(c and b) != -2" = "eleven"
"""
ZEROS = BARE + KERNEL % "a = [0, 1, 2, 3], b = [0, 0.5, 2], c = [false, true], d = [-1, 0, 3, 7]" + """
[kernels.plain.derived]
part = "n // a"
share = "d / b"
unused = "a / d"
[kernels.plain.constraints]
"a == 0 or n % a == 0" = "guarded"
"d != 0 and 8 // d < 5 or c" = "guarded, too"
"share > -3 or c" = "not guarded: b is never 0"
"not (n % (a * 2) == 1 and c)" = "a is never 0"
"part > 1 or b == 2" = "read from a quantity"
"""


def with_zeros(kernels: int) -> str:
    """A library whose constraints divide by values that may be 0, at random."""
    generator, names = random.Random(2), ["a", "b", "c", "d"]

    def condition(depth: int) -> str:
        one, other, third = generator.choices(names, k=3)
        quotient = f"({one} {generator.choice(['/', '//', '%'])} {generator.choice([other, f'({other} - {third})'])})"
        text = generator.choice([f"{quotient} < {third} + 2", f"{quotient} == 0", f"{other} != 0 and {quotient} >= -1",
                                 f"{other} == 0 or {quotient} <= 3", f"not {quotient} > 2",
                                 f"({quotient} if {other} else 1) > 0",
                                 f"({one} and {quotient}) in (0, 1, 2, {third})"])
        return f"({text}) {generator.choice(['or', 'and'])} ({condition(depth - 1)})" if depth else text

    text = BARE
    for number in range(kernels):
        values = [sorted({0, 5, *generator.sample(range(-3, 8), 2)}) for _ in names]
        parameters = ", ".join(f"{name} = {listed}" for name, listed in zip(names, values, strict=True))
        constraints = "\n".join(f'"{condition(generator.randrange(3))} or {generator.choice(names)} > 4" = "{reason}"'
                                for reason in range(2))
        text += (KERNEL % parameters + f"[kernels.plain.constraints]\n{constraints}\n").replace(
            "kernels.plain", f"kernels.k{number}")
    return text


LIBRARIES = {
    "divisions by zero": ZEROS,
    "random divisions": with_zeros(6),
    "one value": BARE + KERNEL % "block = [4]",
    "several kernels and operations, an empty word, choices that are numbers": BARE + OTHERS,
    "fractions in every operator": EVERY_OPERATOR,
}


@needs_compiler
@pytest.mark.parametrize("text", LIBRARIES.values(), ids=list(LIBRARIES))
def test_a_declared_library_in_c_proposes_what_python_proposes(text: str, tmp_path: Path) -> None:
    library = read_library(write(tmp_path, text))
    use(library)
    checkpoint = library_checkpoint(library, GPU)
    written = c_file(checkpoint)
    predictor, solved = compiled(written, tmp_path, "-O0"), 0
    for problem in problems(sorted(library.operations), 60):
        answers = predictor.propose(problem, GPU, 5)
        try:
            task = Task.of(problem, GPU)
        except KernelError:
            assert answers == []
            continue
        assert answers == [without_types(candidate.configuration) for candidate in checkpoint.propose([task], 5)[0]]
        solved += 1
    assert solved > 20


def learned(text: str, operation: str, folder: Path) -> CFile:
    """The C file of a library's checkpoint with trees and processes."""
    library = read_library(write(folder, text))
    use(library)
    return c_file(mixed_checkpoint([GPU], sample_problems(operation, 8, 1), library_checkpoint(library, GPU)))


@needs_compiler
@pytest.mark.slow
@pytest.mark.anywhere
@pytest.mark.parametrize("name", ["gcc", "clang"])
@pytest.mark.parametrize("text", [BARE + KERNEL % "block = [1, 2, 4, 8]",
    BARE.replace('"elements"', '"elements", mode = {meaning = "mode", choices = ["a", "b"]}')
    + KERNEL % "a = [1, 2], b = [1, 2], c = [1, 2], d = [1, 2]", FRACTIONS], ids=["one", "four", "fractions"])
def test_a_file_of_few_numbers_compiles_without_warnings_at_every_level(text: str, name: str, tmp_path: Path) -> None:
    command = shutil.which(name)
    if command is None:
        pytest.skip(f"{name} is not installed")
    source = tmp_path / "predictor.c"
    source.write_text(learned(text, "fill", tmp_path).source)
    running = [subprocess.Popen([command, *STRICT, level, "-c", "-o", os.devnull, str(source)], stderr=subprocess.PIPE)
               for level in ("-O2", "-O3")]
    assert [process.communicate()[1].decode() for process in running] == ["", ""]


@needs_compiler
def test_a_file_in_c_sees_fractions_as_python_does_and_a_caller_reads_them(tmp_path: Path) -> None:
    written = learned(FRACTIONS, "fill", tmp_path)
    assert written.has_fractions
    assert "double fraction;" in written.header
    predictor = compiled(written, tmp_path, "-O2")  # the one file that is compiled as users do
    for problem in (parse_problem(f"fill n={n}") for n in range(1, 1000, 37)):
        candidates = written.checkpoint.propose([Task.of(problem, GPU)], 5)[0]
        assert predictor.propose(problem, GPU, 5) == [
            without_types(candidate.configuration) for candidate in candidates]
        assert predictor.log_probabilities[:5] == pytest.approx(
            [candidate.log_probability for candidate in candidates], abs=1e-3)
    (tmp_path / "predictor.h").write_text(written.header)
    (tmp_path / "caller.c").write_text("""#include <stdio.h>
#include "predictor.h"
int main(void) {
    seqtune_problem problem;
    seqtune_device device;
    seqtune_configuration best;
    int i;
    seqtune_problem_init(&problem, SEQTUNE_FILL);
    problem.of.fill.n = 64;
    seqtune_device_init(&device);
    device.backend = "opencl";
    if (seqtune_predict(&problem, &device, &best, 1) != 1) return 1;
    for (i = 0; i < best.count; ++i)
        if (!best.setting[i].word)
            printf("%s %g %d\\n", best.setting[i].name, best.setting[i].fraction, (int)best.setting[i].number);
    return 0;
}
""")
    printed = run_program(tmp_path / "caller.c", str(tmp_path / "predictor.so")).splitlines()
    task = Task.of(parse_problem("fill n=64"), Device("opencl:other", "opencl", "", ""))
    best = written.checkpoint.propose([task], 1)[0][0].configuration
    assert printed == [f"{name} {float(value):g} {int(value)}" for name, value in best.settings if name != "word"]


@needs_compiler
def test_a_number_that_is_no_choice_and_a_device_without_its_limits_are_refused_by_name(tmp_path: Path) -> None:
    library = read_library(write(tmp_path, BARE + OTHERS))
    use(library)
    written = c_file(library_checkpoint(library, GPU))
    assert "one of 1 3" in written.source
    assert "int64_t max_work_group; /* work-items of a work-group; constraints read it: set it" in written.header
    assert "int64_t l2_bytes; /* the same */" in written.header
    predictor = compiled(written, tmp_path, "-O0")
    problem, device = predictor.problem(parse_problem("hold n=64")), predictor.device(GPU)
    assert predictor.predict(problem, device, 1) == 1
    result = predictor.predict(problem, predictor.device(replace(GPU, max_work_group=0)), 1)
    assert predictor.error_text(result).endswith("a limit of the device that is left at 0, such as max_work_group, "
                                                 "allows nothing")
    assert predictor.error_text(1) == "no error"
    assert predictor.error_text(-99) == "unknown error"
    assert predictor.error_text(-2) == "count is not from 1 to 16"
    problem = predictor.problem(parse_problem("mix rows=64 times=3"))
    assert predictor.predict(problem, device, 5) == 5
    problem.of.mix.times = 4
    assert predictor.predict(problem, device, 5) == -1 - [name for name, _ in ERRORS].index("PROBLEM")


def problems(operations: list[str], count: int) -> list[Problem]:
    """Random problems of several operations."""
    share = count // len(operations)
    return [problem for name in operations for problem in sample_problems(name, share, 3)]
