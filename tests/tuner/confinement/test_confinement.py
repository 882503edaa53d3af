"""Confined workers: kernels of a file that the user has not permitted to run code do no harm as native code."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import seqtune
from seqtune.data.record import Status
from seqtune.errors import SeqtuneWarning
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.confinement import confined_start, landlock
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support.installation.optional import skip_without_device
from tests.support.libraries.stencil import write
from tests.support.paths import ROOT

SIGNALS = 6  # oldest version of landlock that keeps signals inside
confined = pytest.mark.skipif(landlock.version() < landlock.OLDEST or platform.machine() not in ("x86_64", "aarch64"),
                              reason="this system has no such rules")
PROBE = """
import ctypes, os, resource, socket, subprocess, sys
from pathlib import Path
from seqtune.tuner.confinement.rights import confine
cache, library, outside = map(Path, sys.argv[1:])
confine(cache, [library])
shared = ctypes.CDLL(None, use_errno=True).shmget
def check(result):
    if result < 0:
        raise OSError
for name, deed in {
        "cache": lambda: (cache / "new").write_text("x"), "library": lambda: (library / "library.toml").read_text(),
        "program": lambda: subprocess.run([sys.executable, "-S", "-c", "1"], check=True),
        "LIBRARY": lambda: (library / "library.toml").write_text(""), "OUTSIDE": lambda: (outside / "new").touch(),
        "HOME": lambda: Path.home().joinpath("secret").read_text(), "SOCKET": socket.socket, "SESSION": os.setsid,
        "PARENT": lambda: open(f"/proc/{os.getppid()}/environ", "rb").read(),
        "MODE": lambda: (library / "library.toml").chmod(0o777), "TIMES": lambda: os.utime(library / "library.toml"),
        "OWNER": lambda: os.chown(library / "library.toml", -1, -1),
        "ATTRIBUTE": lambda: os.setxattr(library / "library.toml", "user.x", b"x"),
        "LIMIT": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU),
        "SHARED": lambda: check(shared(0, 4096, 0o600)),
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


HOMES = """
import os, pwd, sys
from pathlib import Path
from seqtune.tuner.confinement.rights import confine
if not os.environ["HOME"]:
    pwd.getpwuid = {}.__getitem__  # no entry for the user
confine(Path(sys.argv[1]), [])
for path in sys.argv[2:]:
    try:
        print(Path(path).read_text())
    except OSError:
        pass
"""


@confined
@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="this system has no /dev/shm")
@pytest.mark.parametrize("home", ["own", "parent/inner", None])
def test_a_home_behind_a_link_is_hidden_and_a_user_without_a_home_is_served(tmp_path: Path, home: str | None) -> None:
    inner = tmp_path / "real" / "inner"
    inner.mkdir(parents=True)
    cache = tmp_path / "cache"
    cache.mkdir()
    (inner / "secret").write_text("password")
    shared = Path("/dev/shm") / f"seqtune-{os.getpid()}-{tmp_path.name}"  # links in another folder of the root
    shared.mkdir()
    try:
        (shared / "own").symlink_to(inner)
        (shared / "parent").symlink_to(inner.parent)
        variables = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(shared / home) if home else ""}
        done = subprocess.run([sys.executable, "-c", HOMES, str(cache), str(inner / "secret")], cwd=ROOT,
                              capture_output=True, text=True, env=variables)
    finally:
        shutil.rmtree(shared)
    assert done.returncode == 0, done.stderr
    assert (done.stdout == "") == (home is not None)


@pytest.mark.device
@confined
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernel's assembly is that of x86-64")
@pytest.mark.parametrize("allowed", [False, True])
def test_a_kernel_that_writes_a_file_writes_it_only_where_the_user_allows_code(tmp_path: Path, allowed: bool) -> None:
    skip_without_device("opencl:0")
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
                                            "LD_PRELOAD": "x", "POCL_CACHE_DIR": "/elsewhere", "SSH_AUTH_SOCK": "x"},
                                           Path("/cache"))
    assert variables == {"PATH": "/bin", "OMP_NUM_THREADS": "1", "POCL_CACHE_DIR": "/cache", "TMPDIR": "/cache"}


def test_each_library_without_permission_has_a_cache_of_its_own(tmp_path: Path) -> None:
    link, folders = tmp_path / "link", [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    link.symlink_to(folders[0])
    first, second, linked = ({"libraries": [{"name": "same", "folder": str(folder), "allowed": False}]}
                             for folder in (*folders, link))
    nameless = {"libraries": [{"name": "same", "folder": None, "allowed": False}]}
    caches = [confined_start.cache_folder(hello) for hello in (first, second, nameless)]
    assert len(set(caches)) == 3
    assert confined_start.cache_folder(linked) == caches[0]


def test_a_system_that_cannot_confine_says_so_once() -> None:
    def no_landlock() -> int:
        return 0

    with pytest.warns(SeqtuneWarning, match="run only files that you trust"):
        confined_start.warn_if_free(no_landlock)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        confined_start.warn_if_free(no_landlock)
