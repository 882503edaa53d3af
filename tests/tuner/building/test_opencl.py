"""Folders of kernels in OpenCL C: their programs run without this package, and find wrong results."""

from __future__ import annotations

import ctypes.util
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.libraries.foreign_code import use_with_modules
from seqtune.kernels.libraries.reading import read_library
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.building.chosen import Files, files_of, write_folder
from tests.support.built_folders import chosen, compiled
from tests.support.learning.c_programs import needs_compiler
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def device() -> Device:
    """The first OpenCL device of this machine."""
    reason = opencl.unavailable()
    if reason:
        pytest.skip(reason)
    return opencl.devices()[0]


def built(text: str, device: Device, kernel: str = "", **settings: int | str) -> Files:
    """The files of a chosen kernel."""
    return files_of([chosen(text, device, kernel, settings)])


def pyopencl_home() -> Path:
    """The folder of pyopencl, whose wheel brings an OpenCL library along."""
    import pyopencl

    return Path(pyopencl.__file__).parent


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the folder with the OpenCL library that pyopencl uses."""
    home = pyopencl_home()
    own = {"PYOPENCL_HOME": str(home), "LD_LIBRARY_PATH": str(home / ".libs"), "PYTHONPATH": os.pathsep.join(
        path for path in sys.path if "site-packages" in path)}
    library = next(iter((home / ".libs").glob("libOpenCL*")), None)
    environment = {**os.environ, **own, **({"OPENCL_LIBRARY": str(library)} if library else {})}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


CASES = (
    ("conv2d n=2 c=6 h=9 w=11 k=10 r=3 s=3 pad=1 groups=2 bias=yes activation=relu layout=NHWC", "direct"),
    pytest.param("conv2d c=5 h=8 w=9 k=7 r=3 s=2 stride=2", "implicit_gemm", marks=pytest.mark.anywhere),
    ("gemm m=9 n=21 k=13 trans_a=yes trans_b=yes", "gemm"))


@needs_compiler
@pytest.mark.device
@pytest.mark.parametrize(("text", "kernel"), CASES)
def test_the_programs_of_a_folder_are_right(text: str, kernel: str, device: Device, tmp_path: Path) -> None:
    write_folder(built(text, device, kernel), tmp_path / "out")
    for done in (run(tmp_path / "out", str(compiled(tmp_path / "out"))),
                 run(tmp_path / "out", sys.executable, "-P", "-c", "import sys; sys.path.insert(0, '.'); "
                     "import run; assert 'seqtune' not in sys.modules; sys.exit(run.main())")):
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("product on ")
        assert ": right, largest error " in done.stdout
        assert re.search(r", median of 20 runs \d+\.\d us, least \d+\.\d us\n", done.stdout)
    assert str(ROOT) not in "".join(path.read_text() for path in (tmp_path / "out").iterdir() if path.is_file()
                                    and path.name != "check")


@pytest.mark.device
def test_the_python_program_takes_arrays_in_order_or_by_name(device: Device, tmp_path: Path) -> None:
    write_folder(built("gemm m=3 n=5 k=4", device, "gemm"), tmp_path / "out")
    program = """
import sys; sys.path.insert(0, "."); import numpy, run
a, b = numpy.ones((3, 4), "f4"), numpy.ones((4, 5), "f4"); kernel = run.Kernel()
for y in (kernel(a, b), kernel(a, weights=b)): assert (y["y"] == 4).all()
for wrong in ((a,), (a, b, b), (a, b.T)):
    try: kernel(*wrong)
    except ValueError as error: print(error)
"""
    done = run(tmp_path / "out", sys.executable, "-P", "-c", program)
    assert done.stdout.splitlines() == [
        "the kernel takes x, weights; 1 by order and [] are given",
        "the kernel takes x, weights; 3 by order and [] are given",
        "weights is float32 (5, 4); float32 (4, 5) is needed"], done.stderr


@needs_compiler
@pytest.mark.device
def test_the_program_of_the_readme_computes(device: Device, tmp_path: Path) -> None:
    files = built("gemm m=9 n=21 k=13 bias=yes", device, "gemm")
    shown = re.search(r"^    /\* cc -std=c99 -O2 program\.c product\.c -ldl \*/\n.*?^    }\n",
                      files["README.md"].decode(), re.M | re.S)
    assert shown is not None
    assert shown[0].count("\n") <= 18
    text = textwrap.dedent(shown[0])
    begin, end = "    /* fill the arrays */\n", "    product_free(kernel);\n"
    assert text.count(begin) == text.count(end) == 1
    filled = ("    for (int i = 0; i < 9 * 13; i++) x[i] = (float)(i / 13 + 1);\n"
              "    for (int i = 0; i < 13 * 21; i++) weights[i] = 2;\n    bias[20] = 0.5f;\n")
    files["program.c"] = text.replace(begin, filled).replace(
        end, f'    printf("%g %g\\n", (double)y[0], (double)y[188]);\n{end}').encode()
    write_folder({name: files[name] for name in ("program.c", "product.c", "product.h")}, tmp_path / "out")
    done = run(tmp_path / "out", str(compiled(tmp_path / "out", "program.c", "product.c")))
    assert (done.returncode, done.stdout, done.stderr) == (0, "26 234.5\n", "")


OWN = """
#include "product.h"
#include <stddef.h>
#include <stdio.h>
typedef struct _cl_command_queue *queue;
typedef struct _cl_mem *memory;
int32_t clGetPlatformIDs(uint32_t, void **, uint32_t *);
int32_t clGetDeviceIDs(void *, uint64_t, uint32_t, void **, uint32_t *);
void *clCreateContext(const intptr_t *, uint32_t, void *const *, void *, void *, int32_t *);
queue clCreateCommandQueue(void *, void *, uint64_t, int32_t *);
memory clCreateBuffer(void *, uint64_t, size_t, void *, int32_t *);
int32_t clEnqueueReadBuffer(queue, memory, uint32_t, size_t, size_t, void *, uint32_t, void *, void *);
int32_t clReleaseCommandQueue(queue);

int main(void)
{
    static float x[9 * 13], weights[13 * 21], y[9 * 21];
    void *platform, *device, *context;
    queue own[2];
    memory in, out;
    struct product *kernel;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &device, NULL))
        return 2;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    for (int i = 0; i < 2; i++)
        own[i] = clCreateCommandQueue(context, device, (uint64_t)i, NULL);
    for (int i = 0; i < 9 * 13; i++)
        x[i] = (float)i;
    in = clCreateBuffer(context, 1 | 32, sizeof x, x, NULL);
    out = clCreateBuffer(context, 1, sizeof y, NULL, NULL);
    kernel = product_create(own[1]);
    printf("%d %s\\n", product(kernel, x, weights, y), product_error(kernel));
    product_free(kernel);
    kernel = product_create(own[0]);
    clReleaseCommandQueue(own[0]);
    printf("%d %s\\n", product_run(kernel, in, out), product_error(kernel));
    printf("%d %s\\n", product(kernel, NULL, weights, y), product_error(kernel));
    for (float scale = 1; scale < 3; scale++) {
        for (int i = 0; i < 13 * 21; i++)
            weights[i] = scale;
        if (product_pack(kernel, weights) || product_run(kernel, in, out)
            || clEnqueueReadBuffer(own[0], out, 1, 0, sizeof y, y, 0, NULL, NULL))
            return 1;
        printf("%g %g\\n", (double)y[0], (double)y[188]);
    }
    product_free(kernel);
    product_free(NULL);
    return 0;
}
"""


@needs_compiler
@pytest.mark.device
def test_a_program_calls_the_kernel_on_a_queue_and_memory_of_its_own(device: Device, tmp_path: Path) -> None:
    library = next(map(str, (pyopencl_home() / ".libs").glob("libOpenCL*")), ctypes.util.find_library("OpenCL"))
    if library is None:
        pytest.skip("no OpenCL library to link with")
    files = built("gemm m=9 n=21 k=13", device, "gemm") | {"program.c": OWN.encode()}
    write_folder({name: files[name] for name in ("program.c", "product.c", "product.h")}, tmp_path / "out")
    words = [library if library.startswith("/") else f"-l:{library}"]
    done = run(tmp_path / "out", str(compiled(tmp_path / "out", "program.c", "product.c", *words)))
    assert done.stdout.splitlines() == [
        "1 the queue: it is out of order; give one that is in order",
        "1 weights: it was not packed; call product_pack before", "1 x: it is NULL",
        "78 1430", "156 2860"], done.stderr


@needs_compiler
@pytest.mark.device
def test_wrong_results_are_found(device: Device, tmp_path: Path) -> None:
    files = built("gemm m=9 n=21 k=13", device)
    right, wrong = b"= a0_1_0;", b"= 1.01f * a0_1_0;"
    assert right in files["product.cl"]
    assert right in files["product.c"]
    files |= {name: files[name].replace(right, wrong) for name in ("product.c", "product.cl")}
    write_folder(files, tmp_path / "out")
    for words in ([str(compiled(tmp_path / "out"))], [sys.executable, "run.py"]):
        done = run(tmp_path / "out", *words)
        assert (done.returncode, done.stdout.count("WRONG")) == (1, 1), done.stderr


@needs_compiler
def test_a_machine_without_opencl_gets_one_line(device: Device, tmp_path: Path) -> None:
    write_folder(built("gemm m=9 n=21 k=13", device), tmp_path / "out")
    done = subprocess.run([compiled(tmp_path / "out")], cwd=tmp_path / "out", env={"OPENCL_LIBRARY": "missing.so"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == ("product: libOpenCL.so.1: it is not installed; OPENCL_LIBRARY in the environment names "
                           "another file\n")


ARRAYS = """
name = "odd"
[operations.mix]
features = {n = "elements"}
reference = "reference:mix"
[operations.mix.inputs]
a = "n"
i = {shape = "n", dtype = "int32", values = "uniform 0..9"}
c = {shape = "n", dtype = "fp64", values = "uniform -2..3 seed 9"}
d = {shape = "n", dtype = "fp16"}
e = {shape = "n", dtype = "int64", values = "index"}
f = {shape = "5", values = "five.npy"}
[operations.mix.outputs]
y = {shape = "n", values = "copy of a"}
z = {shape = "n", dtype = "int64"}
s = {shape = "n", dtype = "fp64", check = "sum", values = "zeros"}
h = {shape = "n", dtype = "fp16"}
[kernels.plain]
parameters = {block = [1]}
[kernels.plain.opencl]
source = "mixed.cl"
entry = "mixed"
arguments = ["a", "i", "c", "d", "e", "f", "y", "z", "s", "h", "workspace float n", "local int 8", "float 1.5",
             "long 9007199254740993", "double -0.25", "uchar 1", "int n", "int launch"]
launches = "2"
groups = ["ceil_div(n, 8)"]
local = ["8"]
"""
MIXED = """
__kernel void mixed(__global const float *a, __global const int *i, __global const double *c, __global const half *d,
    __global const long *e, __global const float *f, __global float *y, __global long *z, __global double *s,
    __global half *h, __global float *w, __local int *l, float scale, long big, double small, uchar one, int n,
    int launch)
{
    int t = get_global_id(0);
    l[get_local_id(0)] = launch;
    if (t < n && launch == 0) w[t] = a[t] * scale;
    if (t >= n || launch == 0) return;
    y[t] += w[t] + f[t % 5];
    z[t] = e[t] * 3 + big + i[t] + one - l[get_local_id(0)];
    s[t] += c[t] + small;
    vstore_half(vload_half(t, d) * 2.0f, t, h);
}
"""
REFERENCE = """
import numpy as np
def mix(a, i, c, d, e, f, n):
    return {"y": 2.5 * a.astype(np.float64) + f[np.arange(n) % 5], "z": e * 3 + 9007199254740993 + i, "s": c - 0.25,
            "h": d.astype(np.float32) * 2}
"""


@needs_compiler
@pytest.mark.device
def test_arrays_begin_as_their_library_says(device: Device, tmp_path: Path) -> None:
    for name, text in (("library.toml", ARRAYS), ("mixed.cl", MIXED), ("reference.py", REFERENCE)):
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "five.npy", np.arange(5, dtype=np.float32))
    use_with_modules(read_library(tmp_path, True))
    write_folder(built("mix n=3001", device), tmp_path / "out")
    program = """
import sys; sys.path.insert(0, "."); import arrays, run
kernel = run.Kernel(); given = arrays.make_arrays(kernel.about, run.FOLDER)
inputs = {name: given[name] for name, buffer in kernel.buffers.items() if buffer["role"] == "input"}
whole, short = kernel(**given), kernel(**inputs)
assert all((whole[name] == short[name]).all() for name in whole)
"""
    done = run(tmp_path / "out", sys.executable, "-P", "-c", program)
    assert done.returncode == 0, done.stderr
    for words in ([str(compiled(tmp_path / "out"))], [sys.executable, "run.py"]):
        done = run(tmp_path / "out", *words)
        assert (done.returncode, done.stdout.count(": right, ")) == (0, 1), done.stdout + done.stderr
