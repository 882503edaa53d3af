"""Linting: remarks about a library that works but hides something, each with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.errors import FormatError
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.linting.library import lint
from seqtune.kernels.linting.report import LintReport
from seqtune.kernels.problem_sets.parse import parse_problem
from tests.support.libraries.stencil import write

LIBRARY = """name = "odd"

[operations.work]
features = {n = "size", threads = {default = 4}}
derived = {flop = "2 * n", cells = "n * n"}
example = "work n=512"

[kernels.odd]
parameters = {block = [16, 32, 1024], M_PI = [1, 2], loop = [0, 1], only = [1, 2]}
derived = {area = "block * block"}
constraints = [
    "block < 1000",
    "block >= 16",
    "only == 1",
    "block <= max_work_group",
    "n >= 4",
]
default = {block = 1024}
backends = ["opencl"]

[kernels.none]
parameters = {block = [16, 32]}
solves = {"n > 1000000" = "large problems only"}
backends = ["opencl"]
"""


def _lint(folder: Path, text: str, *problems: str) -> LintReport:
    library = read_library(write(folder, text))
    use(library)
    return lint(library, [parse_problem(problem) for problem in problems])


def test_remarks_have_the_place_of_what_is_suspicious(tmp_path: Path) -> None:
    report = _lint(tmp_path, LIBRARY)
    path = tmp_path / "library.toml"
    remarks = {place.removeprefix(f"{path}:"): message for place, message in report.findings}
    expected = {
        "4:25": "threads hides the device's fact", "5:28": "nothing reads cells",
        "10:12": "nothing but models reads area",
        "13:5": "nothing is excluded for the sample problems by 'block >= 16'",
        "9:32": "no valid configuration has block=1024", "9:76": "only never matters",
        "16:5": "no configuration is valid for work n=1: 'n >= 4' excludes all", "18:11": "the default (block=1024",
        "23:10": "it solves none of 8 sample problems: odd.none: large problems only"}
    assert {place: message[:len(expected.get(place, ""))] for place, message in remarks.items()} == expected
    assert report.to_json()["library"] == "odd"


def test_a_source_that_reads_a_parameter_under_another_name_is_not_remarked(tmp_path: Path) -> None:
    text = """name = "defines"
[operations.work]
features = {n = "size"}
outputs = {y = "n"}
[kernels.k]
parameters = {block = [1, 2], wide = [1, 2], depth = [1, 2], lost = [1, 2]}
derived = {area = "block * 2"}
[kernels.k.opencl]
text = "kernel void k(global float* y) { y[get_global_id(0)] = depth * AREA; }"
entry = "k"
arguments = ["y"]
global = ["n // wide"]
defines = {AREA = "area"}
"""
    assert [message for _, message in _lint(tmp_path, text).findings] == [
        "the kernel does not read lost: neither its source nor its launch names it"]


RESTORED = """name = "inplace"
[operations.sort]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = {shape = "n", values = "copy of x"}, z = {shape = "n", values = "zeros", restore = false}}
[kernels.k]
version = 3
parameters = {block = [1, 2]}
[kernels.k.opencl]
text = "kernel void k(global float *y, global float *z) { y[0] += block; z[0] = y[0]; }"
entry = "k"
arguments = ["y", "z"]
global = ["n"]
[kernels.program]
parameters = {way = [1, 2]}
[kernels.program.command]
run = ["/bin/true", "{n}", "{way}"]
"""


def test_what_is_restored_is_noted_and_that_a_program_restores_its_own(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", str(write(tmp_path, RESTORED))]) == 0
    out = capsys.readouterr().out
    assert "nothing suspicious in the library inplace" in out
    assert "library.toml:6:1: restored before every launch that counts, if the first launch changed it: y (" in out
    assert "library.toml:7:11: times of version 3 from before seqtune restored y still count" in out
    assert "library.toml:16:1: a program must itself restore what it changes" in out
    report = _lint(tmp_path, RESTORED.replace('"copy of x"}', '"copy of x", restore = false}'))
    assert [note["message"][:9] for note in report.to_json()["notes"]] == ["a program"]  # type: ignore[attr-defined]


FOREIGN = """name = "foreign"

[kernels.product]
operation = "gemm"
parameters = {tile = [1, 2]}

[kernels.product.opencl]
text = "kernel void product(global float *c, global float *a, global float *b, global float *d) { int t = tile; }"
entry = "product"
arguments = ["y", "x", "weights", "bias"]
global = ["m", "n"]
"""


def test_an_entry_that_the_source_does_not_have_is_a_mistake_unless_a_macro_may_make_it(tmp_path: Path) -> None:
    wrong = FOREIGN.replace('entry = "product"', 'entry = "produce"')
    with pytest.raises(FormatError, match=r"library.toml:9:9: the source has no function produce; it has product"):
        _lint(tmp_path, wrong)
    report = _lint(tmp_path, wrong.replace('text = "kernel', 'text = "#define JOIN(a, b) a##b\\nkernel'))
    assert "the source has no function produce; it has product" in [message for _, message in report.findings]


DIVISIONS = """name = "divisions"
[operations.work]
features = {n = "size"}
[kernels.k]
parameters = {a = [1, 2, 0], b = [0, 1, 3]}
constraints = [%s]
default = {a = 1, b = 1}
backends = ["opencl"]
"""


@pytest.mark.parametrize(("constraints", "places"), [
    ('"n % a == 0", "n % (a - b) == 0 or n > 0"', ["a=0", "a=1 b=1"]),
    ('"(n // a) % b == 0"', ["a=0, b=0"]),
    ('"n % a == 0", "n % b == 0", "a > 0", "b != 0"', []),
    ('"a > 0 and n % a == 0", "b == 0 or n % b == 0"', []),
])
def test_a_constraint_that_divides_by_zero_is_remarked_unless_another_excludes_that(
        constraints: str, places: list[str], tmp_path: Path) -> None:
    messages = [message for _, message in _lint(tmp_path, DIVISIONS % constraints).findings]
    assert [message.partition(" divides by zero for ")[2].partition(", and counts")[0]
            for message in messages if " divides by zero for " in message] == places
