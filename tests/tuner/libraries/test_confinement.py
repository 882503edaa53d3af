"""Confined workers: kernels of a file that the user has not permitted to run code do no harm as native code."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import seqtune
from seqtune.data.record import Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.backends.opencl import backend as opencl
from seqtune.tuner.confinement import confined_start, landlock
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support.libraries.stencil import write
from tests.support.paths import ROOT

SIGNALS = 6  # oldest version of landlock that keeps signals inside
confined = pytest.mark.skipif(landlock.version() < landlock.OLDEST or platform.machine() not in ("x86_64", "aarch64"),
                              reason="this system has no such rules")
PROBE = """
import os, socket, subprocess, sys
from pathlib import Path
from seqtune.tuner.confinement.rights import confine
cache, library, outside = map(Path, sys.argv[1:])
confine(cache, [library])
for name, deed in {
        "cache": lambda: (cache / "new").write_text("x"), "library": lambda: (library / "library.toml").read_text(),
        "program": lambda: subprocess.run([sys.executable, "-S", "-c", "1"], check=True),
        "LIBRARY": lambda: (library / "library.toml").write_text(""), "OUTSIDE": lambda: (outside / "new").touch(),
        "HOME": lambda: Path.home().joinpath("secret").read_text(), "SOCKET": socket.socket, "SESSION": os.setsid,
        "PARENT": lambda: open(f"/proc/{os.getppid()}/environ", "rb").read(),
        "SIGNAL": lambda: os.kill(os.getppid(), 0)}.items():
    try:
        deed()
        print(name)
    except OSError:
        pass
"""
LIBRARY = """name = "stranger"
[operations.double]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = "n"}
[kernels.k]
parameters = {width = [1, 2]}
[kernels.k.opencl]
source = "k.cl"
entry = "k"
arguments = ["x", "y"]
global = ["n"]
"""
SOURCE = """__constant char path[] = "PATH";
__kernel void k(__global const float *x, __global float *y) {
    long result, create = 2;  // open(path, O_CREAT | O_WRONLY, 0644)
    if (get_global_id(0) == 0)
        __asm__ volatile("syscall" : "=a"(result) : "a"(create), "D"(path), "S"(0x41L), "d"(0644L)
                         : "rcx", "r11", "memory");
    y[get_global_id(0)] = 2 * x[get_global_id(0)];
}
"""


@confined
def test_a_confined_process_writes_its_cache_and_reads_the_library_and_nothing_of_the_user(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("cache", "library", "outside", "home")]
    for folder in folders:
        folder.mkdir()
    write(folders[1])
    (folders[3] / "secret").write_text("password")
    done = subprocess.run([sys.executable, "-c", PROBE, *map(str, folders[:3])], cwd=ROOT, capture_output=True,
                          text=True, check=True, env={**os.environ, "HOME": str(folders[3]), "PYTHONPATH": str(ROOT)})
    assert done.stdout.split() == ["cache", "library", "program", *(["SIGNAL"] if landlock.version() < SIGNALS else [])]


@pytest.mark.device
@confined
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernel's assembly is that of x86-64")
@pytest.mark.parametrize("allowed", [False, True])
def test_a_kernel_that_writes_a_file_writes_it_only_where_the_user_allows_code(tmp_path: Path, allowed: bool) -> None:
    if opencl.unavailable() is not None:
        pytest.skip(str(opencl.unavailable()))
    target = tmp_path / "written"
    (tmp_path / "k.cl").write_text(SOURCE.replace("PATH", str(target)))
    seqtune.use_library(write(tmp_path, LIBRARY), allow_commands=allowed)
    with Runner(opencl.devices()[0]) as runner:
        ((_, measurement),) = runner.measure(parse_problem("double n=64"), [
            Configuration("stranger.k", (("width", 1),))], Options(samples=1))
    assert measurement.status is Status.CORRECT, measurement.message
    assert target.exists() == allowed


def test_a_worker_is_confined_for_native_code_without_permission_alone() -> None:
    cpu, gpu = {"backend": "opencl", "threads": 4}, {"backend": "opencl", "threads": 0}
    stranger, trusted = {"document": {}, "allowed": False}, {"document": {}, "allowed": True}
    ours = {"kernels": {}, "allowed": True}
    for device, libraries, expected in ((cpu, [ours, stranger], True), (gpu, [stranger], False),
                                        (cpu, [trusted, ours], False), (cpu, [], False),
                                        ({"backend": "cuda", "threads": 0}, [stranger], False)):
        assert confined_start.needs_confinement({"device": device, "libraries": libraries}) == expected


def test_a_confined_worker_gets_no_variable_that_may_hold_a_secret() -> None:
    variables = confined_start.environment({"AWS_SECRET_ACCESS_KEY": "x", "PATH": "/bin", "OMP_NUM_THREADS": "1",
                                            "LD_PRELOAD": "x", "POCL_CACHE_DIR": "/elsewhere", "SSH_AUTH_SOCK": "x"})
    assert set(variables) == {"PATH", "OMP_NUM_THREADS", "POCL_CACHE_DIR", "TMPDIR"}
    assert variables["POCL_CACHE_DIR"] != "/elsewhere"
