"""Folders of llvm kernels: they compile without warnings, their check is right, and it finds what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.errors import KernelError
from seqtune.kernels.devices.processors import described
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import spaces_for
from seqtune.tuner.backends.llvm.discovery import devices
from seqtune.tuner.building.chosen import Chosen, Files, files_of, function_name, write_folder
from tests.support.built_folders import chosen
from tests.support.learning.c_programs import needs_compiler
from tests.support.learning.compiled_predictor import STRICT

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
PROBLEMS = (
    "conv2d c=5 h=9 w=7 k=18 r=3 s=3 pad=1 bias=yes activation=relu", "conv2d c=8 h=9 w=9 k=8 r=3 s=3 groups=8",
    "conv2d c=16 h=8 w=9 k=16 r=3 s=3 groups=4 layout=NHWC", "gemm m=17 n=34 k=20 trans_b=yes bias=yes",
    "gemm m=17 n=34 k=20 dtype=bf16", "gemm m=17 n=34 k=20 dtype=int8",
    "attention heads=4 group=2 q_len=9 kv_len=9 head_dim=8 value_dim=8 mask=scores causal=yes layout=tokens")


def built(*texts: str) -> Files:
    """The files of kernels for these problems, one configuration of every family that solves one."""
    device = devices()[0]
    return files_of([Chosen(f"{function_name(space.problem)}_{number}", space.problem, device, space.kernel,
                            space[len(space) // 2], "a test")
                     for text in texts for number, space in enumerate(spaces_for(parse_problem(text), device))])


def checked(files: Files, folder: Path) -> subprocess.CompletedProcess[str]:
    """The result of `make check` in a folder of these files, in an environment of its own."""
    write_folder(files, folder)
    return subprocess.run(["make", "-s", f"CFLAGS={' '.join(STRICT)} -O2", "check"], cwd=folder, capture_output=True,
                          text=True, check=False, env={"PATH": os.environ["PATH"]})


@needs_compiler
@needs_make
def test_one_library_of_many_kernels_is_right(tmp_path: Path) -> None:
    solvable = []
    for text in PROBLEMS:
        try:
            spaces_for(parse_problem(text), devices()[0])
        except KernelError:  # a CPU without instructions for it
            continue
        solvable.append(text)
    result = checked(built(*solvable), tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert len(lines) >= len(solvable)
    assert all(" on this CPU: right, largest error " in line for line in lines)


@needs_compiler
@needs_make
@pytest.mark.parametrize(("old", "new", "status", "words"), [
    (b"run_share(phases + phase, operands, y, workspace, arguments, index, shares);",
     b"run_share(phases + phase, operands, y, workspace, arguments, 0, 2);", 1, "_k20_0 on this CPU: WRONG"),
    (b"    return __builtin_cpu_supports", b"    return 0 && __builtin_cpu_supports", 2, "this CPU lacks "),
])
def test_a_check_finds_a_wrong_result_and_a_cpu_that_lacks_something(
        old: bytes, new: bytes, status: int, words: str, tmp_path: Path) -> None:
    files = built("gemm m=17 n=34 k=20")
    name = next(path for path in files if path.endswith(".c") and path != "check.c")
    if old not in files[name]:
        pytest.skip("another kind of CPU")
    files[name] = files[name].replace(old, new)
    if status == 1:
        files[name] = files[name].replace(b"operands, y, workspace, arguments, 0, 1);",
                                          b"operands, y, workspace, arguments, 0, 2);")
    result = checked(files, tmp_path / "out")
    found = subprocess.run([tmp_path / "out" / "run_check"], capture_output=True, text=True, check=False)
    assert found.returncode == status, result.stderr
    assert words in found.stdout + found.stderr
    assert len((found.stdout + found.stderr).splitlines()) == 1


@needs_compiler
@needs_make
def test_a_sample_is_compared_where_the_reference_would_take_long(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("seqtune.tuner.building.check.MOST_WORK", 20 * 20)  # 20 elements of 20 products
    files = built("gemm m=17 n=34 k=20")
    kernel, = json.loads(files["launch.json"])["kernels"]
    assert kernel["check"]["outputs"]["y"]["step"] == 29
    assert all(f"extern entry {phase['entry']};".encode() in files[f"{kernel['name']}.c"] for phase in kernel["phases"])
    result = checked(files, tmp_path / "out")
    assert ": right, " in result.stdout, result.stderr
    assert "; a sample of the elements was compared, median of 20 runs" in result.stdout


@needs_compiler
@needs_make
def test_other_flags_compile_the_library_anew(tmp_path: Path) -> None:
    write_folder(built("gemm m=3 n=5 k=4"), tmp_path / "out")

    def made(*words: str) -> str:
        return subprocess.run(["make", *words], cwd=tmp_path / "out", capture_output=True, text=True, check=True,
                              env={"PATH": os.environ["PATH"]}).stdout

    assert " -c " in made()
    assert " -c " not in made()
    assert " -c " in made("OPENMP=")
    assert " -c " not in made("OPENMP=")
    made("clean")
    assert not list((tmp_path / "out").glob("lib*.a"))


def test_a_cpu_that_is_not_here_gets_its_files() -> None:
    device = described("neoverse-v1")
    assert device is not None
    files = files_of([chosen("gemm m=17 n=34 k=20", device)])
    assert {"README.md", "launch.json", "Makefile", "check.c", "product.c", "product.h", "product.o",
            "product.ll"} <= files.keys()
    assert b"getauxval(AT_HWCAP) >> 22" in files["product.c"]


_COUNT_THREADS = """
#include <dirent.h>
#include <stdio.h>
#include "product.h"

static float x[17 * 20], packed[PRODUCT_PACKED_BYTES / 4], y[17 * 34], workspace[PRODUCT_WORKSPACE_BYTES / 4 + 1];

int main(void)
{
    int count = -2;     /* . and .. */
    DIR *threads;
    if (product_run(x, packed, y, workspace))
        return 2;
    threads = opendir("/proc/self/task");
    while (readdir(threads))
        count++;
    printf("%d", count);
    return closedir(threads);
}
"""


@needs_compiler
@needs_make
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system does not list the threads of a program")
@pytest.mark.parametrize("threads", [1, 3])
def test_a_function_starts_no_more_threads_than_openmp_is_told_to(threads: int, tmp_path: Path) -> None:
    files = files_of([chosen("gemm m=17 n=34 k=20", replace(devices()[0], threads=8))])
    write_folder({**files, "count.c": _COUNT_THREADS.encode()}, tmp_path / "out")
    program = ["cc", "-fopenmp", "count.c", "product.c", "product.o", "-o", "count"]
    done = subprocess.run(program, cwd=tmp_path / "out", capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this compiler has no OpenMP")
    result = subprocess.run([tmp_path / "out" / "count"], capture_output=True, text=True, check=False,
                            env={**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_DYNAMIC": "false"})
    assert (result.returncode, result.stdout) == (0, str(threads))
