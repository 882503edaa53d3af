#!/bin/sh
# Installs fetched packages without a registry: sh install_packages.sh PACKAGES FOLDER; then export PYTHONPATH=FOLDER
# pycuda exists as source only, and is compiled here against this machine's CUDA toolkit, on all cores.
set -eu
packages=$(cd "${1:?name the folder of the packages}" && pwd)
target=${2:?name a folder to install into}
python=${PYTHON:-python3}
"$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$target" "$packages"/*.whl
# pycuda finds the toolkit by CUDA_ROOT; without cuRAND and OpenGL it needs only cuda.h and libcuda.
CUDA_ROOT=${CUDA_ROOT:-$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")}
[ -f "$CUDA_ROOT/include/cuda.h" ] || CUDA_ROOT=/usr/local/cuda  # nvcc on the PATH may be a script elsewhere
build=$(mktemp -d)
tar -xzf "$packages"/pycuda-*.tar.gz -C "$build"
cd "$build"/pycuda-*
mkdir -p "$build/driver"
for libcuda in $(ldconfig -p | sed -n 's/.*=> \(.*libcuda\.so\.1\)$/\1/p') /usr/local/nvidia/lib64/libcuda.so.1; do
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
PYTHONPATH="$target" "$python" -m pip install --quiet --no-index --no-deps --no-build-isolation --no-compile \
    --target "$target" .
rm -rf "$build"
PYTHONPATH="$target" "$python" -c 'import pycuda.driver as cuda; cuda.init(); print(cuda.Device(0).name())'
