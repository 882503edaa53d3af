"""Fetch packages for a GPU machine without a registry: `python -m benchmarks gpu_wheels --out gpu-wheels`.

pycuda exists as source only and is compiled there, against that machine's CUDA toolkit. `install.sh`, which is written
beside the packages, installs all of them into a folder: `sh gpu-wheels/install.sh "$HOME/site"`, then
`export PYTHONPATH="$HOME/site"`. It takes a few minutes, nearly all of them for pycuda.

Only what images with PyTorch usually lack is fetched; `--also` adds packages, and `--python` the version there.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.program import OneLineParser
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels.files import write_whole

SOURCES = ("pycuda>=2025.1",)  # compiled on the other machine
WHEELS = ("pytools", "siphash24", "mako", "platformdirs", "typing-extensions",  # needs of pycuda
          "pydantic", "annotated-types", "typing-inspection", "xgboost-cpu", "pyopencl",
          "nvidia-matmul-heuristics")  # a peer
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_24_x86_64", "manylinux_2_17_x86_64",
             "manylinux2014_x86_64")
PYTHON = "3.12"
INSTALL = """#!/bin/sh
# Installs the packages beside this file: sh install.sh FOLDER; then export PYTHONPATH=FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=${1:?name a folder to install into}
python=${PYTHON:-python3}
"$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$target" "$here"/*.whl
# pycuda finds the toolkit by CUDA_ROOT; without cuRAND and OpenGL it needs only cuda.h and libcuda.
CUDA_ROOT=${CUDA_ROOT:-$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")}
[ -f "$CUDA_ROOT/include/cuda.h" ] || CUDA_ROOT=/usr/local/cuda  # nvcc on the PATH may be a script elsewhere
build=$(mktemp -d)
tar -xzf "$here"/pycuda-*.tar.gz -C "$build"
cd "$build"/pycuda-*
mkdir -p "$build/driver"
for libcuda in $(ldconfig -p | sed -n 's/.*=> \\(.*libcuda\\.so\\.1\\)$/\\1/p') /usr/local/nvidia/lib64/libcuda.so.1; do
    [ -e "$libcuda" ] && ln -sf "$libcuda" "$build/driver/libcuda.so"  # a driver has no file without the version
done
cat > siteconf.py <<CONFIGURATION
CUDA_ROOT = "$CUDA_ROOT"
CUDA_ENABLE_CURAND = False
CUDA_ENABLE_GL = False
CUDADRV_LIB_DIR = ["$build/driver", "$CUDA_ROOT/lib64/stubs"]
CUDADRV_LIBNAME = ["cuda"]
CUDA_INC_DIR = ["$CUDA_ROOT/include"]
CXXFLAGS = ["-O1"]  # the bindings only pass calls on, and compile in half the time
CONFIGURATION
cat > parallel.py <<PARALLEL
# setuptools compiles the files of an extension one after the other; with this, all cores do.
import os
from concurrent.futures import ThreadPoolExecutor
from distutils.ccompiler import CCompiler

def compile_in_parallel(self, sources, output_dir=None, macros=None, include_dirs=None, debug=0, extra_preargs=None,
                        extra_postargs=None, depends=None):
    macros, objects, extra_postargs, options, build = self._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs)
    arguments = self._get_cc_args(options, debug, extra_preargs)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(lambda name: self._compile(name, *build[name], arguments, extra_postargs, options), build))
    return objects

CCompiler.compile = compile_in_parallel
PARALLEL
sed -i '/^from __future__/a exec(open("parallel.py").read())' setup.py
PYTHONPATH="$target" "$python" -m pip install --quiet --no-index --no-deps --no-build-isolation --no-compile \\
    --target "$target" .
rm -rf "$build"
PYTHONPATH="$target" "$python" -c 'import pycuda.driver as cuda; cuda.init(); print(cuda.Device(0).name())'
"""


def fetch(folder: Path, packages: Sequence[str], options: Sequence[str]) -> None:
    """Fetch packages, without what they need, into a folder. Raises SeqtuneError with pip's last line."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
               "--dest", str(folder), *options, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SeqtuneError(f"pip could not fetch {', '.join(packages)}: {done.stderr.strip().splitlines()[-1]:.300}")


def matching_core(folder: Path) -> str:
    """The version of pydantic-core that the fetched pydantic asks for, as a requirement."""
    import zipfile

    wheel = next(folder.glob("pydantic-*.whl"))
    with zipfile.ZipFile(wheel) as content:
        name = next(name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        found = re.search(r"^Requires-Dist: (pydantic-core==[0-9.]+)", content.read(name).decode(), re.MULTILINE)
    if found is None:
        raise SeqtuneError(f"{wheel.name} does not name its pydantic-core")
    return found[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu-wheels"), metavar="FOLDER")
    parser.add_argument("--python", default=PYTHON, help=f"version of Python on the other machine (default: {PYTHON})")
    parser.add_argument("--also", action="append", default=[], metavar="PACKAGE")
    given = parser.parse_args(arguments)
    if not re.fullmatch(r"3\.\d{1,2}", given.python):
        raise MisuseError(f"--python {given.python:.20} is no version like {PYTHON}")
    given.out.mkdir(parents=True, exist_ok=True)
    binary = ["--only-binary=:all:", "--implementation", "cp", "--python-version", given.python,
              *(word for platform in PLATFORMS for word in ("--platform", platform))]
    fetch(given.out, [*WHEELS, *given.also], binary)
    fetch(given.out, [matching_core(given.out)], binary)
    fetch(given.out, SOURCES, ["--no-binary", "pycuda"])
    write_whole(given.out / "install.sh", INSTALL)
    files = sorted(path for path in given.out.iterdir() if path.is_file())
    for path in files:
        print(f"{path.stat().st_size / 2**20:8.2f} MiB  {path.name}")
    print(f"{sum(path.stat().st_size for path in files) / 2**20:8.2f} MiB in all")
