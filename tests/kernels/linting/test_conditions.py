"""Lint of conditions: names in `#if` that nothing defines, and values of parameters that make the same program."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.kernels.libraries.reading import read_library
from seqtune.kernels.libraries.table import use
from seqtune.kernels.linting.equal_programs import Preprocessor
from seqtune.kernels.linting.library import lint
from tests.support.libraries.stencil import write

KERNEL = "kernel void k(global float *y, global const float *x, const int n) {\n%s\n}"
NOTHING_DEFINES = "which neither it nor a parameter defines, in"
needs_preprocessor = pytest.mark.skipif(Preprocessor.installed() is None, reason="no C compiler is installed")


def remarks(folder: Path, parameters: str, text: str, more: str = "", backend: str = "opencl") -> list[str]:
    """The messages about a kernel with these parameters and this source."""
    source = text.replace("kernel void", '__global__ void').replace("global ", "") if backend == "cuda" else text
    library = read_library(write(folder, f"""name = "conditions"
[operations.work]
features = {{m = "numbers"}}
inputs = {{x = "m"}}
outputs = {{y = "m"}}
[kernels.k]
parameters = {parameters}
[kernels.k.{backend}]
text = '''
{source}
'''
entry = "k"
arguments = ["y", "x", "int m"]
global = ["m"]
local = ["1"]
{more}
"""))
    use(library)
    return [message for _, message in lint(library).findings]


def about_names(messages: list[str]) -> list[str]:
    """The messages about names that nothing defines."""
    return [message for message in messages if message.startswith("the source reads ")]


@pytest.mark.parametrize("backend", ["opencl", "cuda"])
@pytest.mark.parametrize(("parameters", "text", "expected"), [
    ("{MODE = ['fast', 'slow']}", KERNEL % "#if MODE == fast\ny[0] = 1;\n#endif",
     [f"fast, {NOTHING_DEFINES} `#if MODE == fast`, where it counts as 0; it is a value of MODE, to which `defines` "
      'can give a number: fast = "1"']),
    ("{MODE = ['fast', 'slow']}", KERNEL % "#if 0\n#elif MODE == fats\ny[0] = 1;\n#endif",
     [f"fats, {NOTHING_DEFINES} `#elif MODE == fats`, where it counts as 0: is fast meant?"]),
    ("{WGS = [16, 32]}", KERNEL % "#if (WGS > 16 && \\\n WGSS > 16)\ny[0] = WGS;\n#endif",
     [f"WGSS, {NOTHING_DEFINES} `#if (WGS > 16 && WGSS > 16)`, where it counts as 0: is WGS meant?"]),
    ("{WGS = [16, 32]}", "#define WIDE (BLOCK > 16)\n" + KERNEL % "#if WIDE\ny[0] = WGS;\n#endif",
     [f"BLOCK, {NOTHING_DEFINES} `#if WIDE`, where it counts as 0"]),
    ("{USE_LOCAL = [0, 1]}", KERNEL % "#ifdef USE_LOCALS\ny[0] = 1;\n#endif",
     [f"USE_LOCALS, {NOTHING_DEFINES} `#ifdef USE_LOCALS`: is USE_LOCAL meant?"]),
    ("{USE_LOCAL = [0, 1]}", KERNEL % "#ifdef USE_LOACL\ny[0] = 1;\n#endif\ny[1] = USE_LOCAL;",
     [f"USE_LOACL, {NOTHING_DEFINES} `#ifdef USE_LOACL`: is USE_LOCAL meant?"]),
    ("{M = ['TREE', 'SERIAL']}", "enum {TREE, SERIAL};\n" + KERNEL % "#if M == TREE\ny[0] = 1;\n#endif",
     [f"TREE, {NOTHING_DEFINES} `#if M == TREE`, where it counts as 0; it is a value of M, to which `defines` can give "
      'a number: TREE = "1"']),
])
def test_a_name_that_nothing_defines_in_a_condition_is_remarked(
        backend: str, parameters: str, text: str, expected: list[str], tmp_path: Path) -> None:
    found = about_names(remarks(tmp_path, parameters, text, backend=backend))
    assert [message.removeprefix("the source reads ") for message in found] == expected


@pytest.mark.parametrize(("parameters", "text"), [
    ("{T = [1, 2]}", "#ifndef T\n#define T 16\n#endif\n" + KERNEL % "y[0] = T;"),
    ("{T = [1, 2]}", KERNEL % "#ifdef DEBUG\ny[0] = 1;\n#endif\ny[0] = T;"),
    ("{TILE_X = [1, 2], V4 = [1, 2]}", KERNEL % "#ifdef TILE_Y\n#endif\n#ifdef V\n#endif\ny[0] = TILE_X + V4;"),
    ("{T = [1, 2]}", KERNEL % "#if defined(FAST) && FAST > 1\ny[0] = 1;\n#endif\ny[0] = T;"),
    ("{T = [1, 2]}", KERNEL % "#if defined FAST\n#if FAST > 1\ny[0] = 1;\n#endif\n#endif\ny[0] = T;"),
    ("{T = [1, 2]}", KERNEL % "#if __OPENCL_VERSION__ >= 200 || __CUDA_ARCH__ >= 800\ny[0] = T;\n#endif"),
    ("{T = [1, 2]}", "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif\n"
     + KERNEL % "y[0] = T;"),
    ("{T = [1, 2]}", KERNEL % "#pragma unroll T\nfor (int i = 0; i < 4; i++) y[i] = x[i];"),
    ("{T = [1, 2]}", KERNEL % "#if defined(__has_builtin)\n#if __has_builtin(__builtin_trap)\n#endif\n#endif\ny[0]=T;"),
    ("{T = [1, 2]}", KERNEL % "#if T == 1 // UNKNOWN\ny[0] = 1; /*\n#if UNKNOWN\n*/\n#endif"),
    ("{T = [1, 2]}", "#include <cuda_fp16.h>\n" + KERNEL % "#if CUDA_HAS_IT\n#endif\ny[0] = T;"),
    ("{M = ['tree', 'line']}", "#define tree 1\n" + KERNEL % "#if M == tree\ny[0] = 1;\n#endif"),
    ("{M = ['tree', 'line']}", "#define IS_tree_tree 1\n#define PASTE(a, b, c) a##b##_##c\n"
                               "#define JOIN(a, b, c) PASTE(a, b, c)\n#define IS(m, w) JOIN(IS_, m, w)\n"
     + KERNEL % "#if IS(M, tree)\ny[0] = 1;\n#endif"),
    ("{MODE = [0, 1, 2, 3], SUB = [0, 1, 2, 3], U = [1, 2]}",
     KERNEL % "y[0] = MODE + SUB;\n#if MODE == 3 && SUB == 3\ny[0] = U;\n#endif"),
    ("{T = [1, 2, 3]}", KERNEL % "#if T == 3\n#error three is too many\n#endif\ny[0] = T;"),
], ids=range(15))
def test_what_others_write_is_not_remarked(parameters: str, text: str, tmp_path: Path) -> None:
    assert remarks(tmp_path, parameters, text) == []


@needs_preprocessor
@pytest.mark.parametrize(("parameters", "text", "more", "expected"), [
    ("{M = ['tree', 'line']}", KERNEL % "#if M == tree\ny[0] = 1;\n#endif", "", "M=tree, line"),
    ("{U = [true, false]}", KERNEL % "#ifdef U\ny[0] = 1;\n#endif", "", "U=true, false"),
    ("{T = [4, 8, 16]}", "#define DOUBLE (2 * T)\n" + KERNEL % "y[0] = 1;", "", "T=4, 8, 16"),
    ("{T = [4, 8, 16]}", KERNEL % "y[0] = LEAST;", "defines = {LEAST = 'min(T, 8)'}", "T=8, 16"),
    ("{T = [4, 8, 16], W = [1, 2]}", KERNEL % "y[0] = W;\n#if T > 8\ny[1] = 1;\n#endif", "", "T=4, 8"),
    ("{T = [1, 2]}", KERNEL % "#if __OPENCL_VERSION__ >= 200\ny[0] = 2;\n#endif\n#if T > 4\ny[0] = T;\n#endif", "",
     "T=1, 2"),
])
def test_values_that_make_the_same_program_are_remarked(
        parameters: str, text: str, more: str, expected: str, tmp_path: Path) -> None:
    found = [message for message in remarks(tmp_path, parameters, text, more) if "the same text" in message]
    assert [message.partition(" make ")[0] for message in found] == [expected]


@needs_preprocessor
def test_the_preprocessor_reads_no_file_and_its_output_is_bounded(tmp_path: Path) -> None:
    preprocessor = Preprocessor.installed()
    assert preprocessor is not None
    header = tmp_path / "header.h"
    header.write_text("#error this file was read\n")
    plain = preprocessor.digest("opencl", "int x;")
    assert plain is not None
    assert plain == preprocessor.digest("opencl", f'#include "{header}"\nint   x;')
    laughs = "#define A0 T T\n" + "".join(f"#define A{level} {' '.join([f'A{level - 1}'] * 20)}\n"
                                          for level in range(1, 12))
    assert preprocessor.digest("opencl", laughs) is not None
    assert preprocessor.digest("opencl", laughs + "A11") is None
