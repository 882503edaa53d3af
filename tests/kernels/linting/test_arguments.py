"""Argument lint: a launch whose arguments are missing, swapped or of other types, and names that nothing defines."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.errors import FormatError
from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.linting.c_text import CText
from seqtune.kernels.linting.library import lint
from seqtune.kernels.linting.signature import read_signature
from seqtune.kernels.linting.undefined_names import undefined_names
from tests.support.libraries.stencil import write

LIBRARY = """name = "scales"
[operations.scale]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = "n"}
[kernels.plain]
parameters = {work = [1, 2], group = [4, 8]}
[kernels.plain.opencl]
text = '''
__kernel void scale(__global const float *x, __global float *y, const int n) {
    const int first = get_global_id(0) * work;
    for (int i = first, last = min(first + work, n); i < last; i++) y[i] = 2 * x[i] + FACTOR;
}
'''
entry = "scale"
arguments = ["x", "y", "int n"]
global = ["ceil_div(n, work)"]
local = ["group"]
defines = {FACTOR = "2"}
"""

SWAPPED = ": are two arguments swapped?"
UNDEFINED = ", which neither it nor a parameter defines"


def findings(folder: Path, *changes: tuple[str, str]) -> list[tuple[str, str]]:
    """The remarks about the library with these changes: line and column, and the message."""
    text = LIBRARY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = write(folder, text)
    library = read_library(path)
    use(library)
    return [(place.removeprefix(f"{path}:"), message) for place, message in lint(library).findings]


def test_a_launch_that_fits_its_source_is_not_remarked(tmp_path: Path) -> None:
    assert findings(tmp_path) == []


@pytest.mark.parametrize(("old", "new", "place", "message"), [
    ('["x", "y", "int n"]', '["x", "y"]', "16:13",
     r"scale takes 3 arguments \(__global const float \*x, __global float \*y, const int n\), and 2 are declared"),
    ('["x", "y", "int n"]', '["x", "y", "int n", "local float 4"]', "16:13", "takes 3 .*, and 4 are declared"),
    ('["x", "y", "int n"]', '["x", "int n", "y"]', "16:19", r"argument 2 .* float \*y', a pointer, and a number is d"),
    ('["x", "y", "int n"]', '["x", "y", "y"]', "16:24", "argument 3 .*int n', a number, and an array is declared"),
    ('["x", "y", "int n"]', '["x", "y", "local int n"]', "16:24", "a number, and local memory is declared"),
    ('["x", "y", "int n"]', '["x", "y", "long n"]', "16:24", "has 4 bytes, and the declared int64 has 8"),
    ('["x", "y", "int n"]', '["local float 9", "y", "int n"]', "16:14", "an array, and local memory is declared"),
    ("__global const", "__local", "16:14", "local memory, and an array is declared"),
    ('entry = "scale"', 'entry = "scael"', "15:9", "the source has no function scael; it has scale")])
def test_what_no_driver_accepts_is_a_mistake(
        old: str, new: str, place: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FormatError, match=f"library.toml:{place}: .*{message}"):
        findings(tmp_path, (old, new))
    assert main(["kernels", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("old", "new", "remarks"), [
    ('["x", "y", "int n"]', '["y", "x", "int n"]', [
        ("16:14", f"y is an output, and the kernel only reads it as '__global const float *x'{SWAPPED}"),
        ("16:19", f"x is an input, and the kernel writes it as '__global float *y'{SWAPPED}")]),
    ('["x", "y", "int n"]', '["x", "x", "int n"]', [
        ("16:13", "y is an output, and no argument of the kernel"),
        ("16:19", f"x is an input, and the kernel writes it as '__global float *y'{SWAPPED}")]),
    ('["x", "y", "int n"]', '["x", "y", "float n"]', [("16:24", "n is fp32, and the kernel takes 'const int n'")]),
    ('{x = "n"}', '{x = {shape = "n", dtype = "fp64"}}', [
        ("16:14", "x is fp64, and the kernel takes '__global const float *x'")]),
    ('{FACTOR = "2"}', '{FACTOR = "2", FACTORS = "3"}', [("19:26", "the source does not name FACTORS")]),
    ("FACTOR =", "FACTORS =", [
        ("19:12", "the source does not name FACTORS"),
        ("9:8", f"the source reads FACTOR{UNDEFINED}; it does not read FACTORS, which is declared")]),
    ("void scale(", "void scale(ARGUMENTS, ", [
        ("16:13", "the arguments are not compared with the source: 'ARGUMENTS' may be a macro"),
        ("9:8", f"the source reads ARGUMENTS{UNDEFINED}; it does not read group, which is declared")])])
def test_what_a_kernel_may_mean_is_remarked(
        old: str, new: str, remarks: list[tuple[str, str]], tmp_path: Path) -> None:
    assert sorted(findings(tmp_path, (old, new))) == sorted(remarks)


def test_a_parameter_that_is_renamed_in_the_launch_and_not_in_the_source_is_named(tmp_path: Path) -> None:
    assert findings(tmp_path, ("{work =", "{wrk ="), ("ceil_div(n, work)", "ceil_div(n, wrk)")) == [
        ("9:8", f"the source reads work{UNDEFINED}; it does not read wrk, which is declared")]


@pytest.mark.parametrize(("source", "entry", "expected"), [
    ("typedef unsigned int number; kernel void f(global number *a, number n) {}", "f",
     [("a", True, "uint32", 1, False), ("n", False, "uint32", 1, False)]),
    ("#if A\n#define real float\n#else\n#define real double\n#endif\nkernel void f(constant real a[], real4 b) {}", "f",
     [("a", True, None, 1, True), ("b", None, None, 1, False)]),
    ("#define IN __global const float *\nkernel void f(IN a, uint8 v, sampler_t s) {}", "f",
     [("a", True, "fp32", 1, True), ("v", False, "uint32", 8, False), ("s", None, None, 1, False)]),
    ('extern "C" __global__ void __launch_bounds__(64) f(const float4 *__restrict__ a, int64_t n) {}', "f",
     [("a", True, "fp32", 4, True), ("n", False, "int64", 1, False)]),
    ("void g(int a); void g(int a) {} kernel void f(void) { g(1); }", "f", []),
    ("kernel void f(float * const a, float const *b) {/* f(x) { */}", "f",
     [("a", True, "fp32", 1, False), ("b", True, "fp32", 1, True)]),
    ("#if A\nkernel void f(int a) {}\n#else\nkernel void f(float a) {}\n#endif", "f", "f is defined more than once"),
    ("kernel void f(int a,\n#if A\nint b\n#endif\n) {}", "f", "a preprocessor line stands among them"),
    ("#define P(x) global float *x\nkernel void f(P(a), int n) {}", "f", "'P(a)' may be a macro"),
    ("#define K(n) kernel void n(int a) {}\nK(f)", "f", "no definition of f is found"),
    ("kernel void f(int a", "f", "no definition of f is found")])
def test_signatures_are_read_or_it_is_said_why_not(source: str, entry: str, expected: object) -> None:
    signature = read_signature(CText.of(source), entry, ())
    if isinstance(signature, str):
        assert signature == expected
    else:
        assert [(parameter.name, parameter.is_pointer, parameter.dtype, parameter.width, parameter.is_const)
                for parameter in signature.parameters] == expected


def test_a_source_that_is_hostile_is_read_in_bounded_time() -> None:
    began = time.process_time()
    for text in ("/*" * 20_000, "f(" * 20_000, "kernel " * 9_000, "typedef " * 9_000, "a b(" * 10_000, "x[" * 20_000,
                 "kernel void f(int *x) {" + "vstore(x " * 5_000 + "}", "__attribute__((" * 4_000,
                 "kernel void f(" + "," * 200_000 + ") {}", "kernel void f(" + "int a, " * 20_000 + "int b) {}",
                 "#define a b " + "a b = { " * 6_000,
                 "".join(f"#define a{index} a{index + 1}\n" for index in range(3_000))):
        source = CText.of(text)
        read_signature(source, "f", ())
        undefined_names(source, ())
    assert time.process_time() - began < 60  # seconds of CPU; with a quadratic step it takes minutes, else three
