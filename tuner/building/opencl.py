"""Kernels in OpenCL C as folders: the kernel, a host program in C99 for OpenCL 1.2, and one with pyopencl."""

from __future__ import annotations

from seqtune.kernels.clblast.implementation import CLBlastImplementation
from seqtune.kernels.launches.call_declaration import code_for

from .called_folder import Language, call_for, called_folder, one_by_one
from .chosen import Chosen, Files
from .clblast import clblast_folder

LANGUAGE = Language("opencl", ".cl")
_NEEDS = """\
The programs need an OpenCL driver and its loader, libOpenCL.so.1; `OPENCL_LIBRARY` names another file,
`OPENCL_DEVICE` a part of a device's name. `run.py` needs NumPy and pyopencl. The loader and the driver for CPUs (PoCL)
that pip installs with `pyopencl[pocl]` are found so:

    export PYOPENCL_HOME=$(python -c "import os, pyopencl; print(os.path.dirname(pyopencl.__file__))")
    export LD_LIBRARY_PATH=$PYOPENCL_HOME/.libs OPENCL_LIBRARY=$(ls $PYOPENCL_HOME/.libs/libOpenCL*)"""


@one_by_one
def write(chosen: Chosen) -> Files:
    """The files of a kernel. Raises SeqtuneErrors."""
    if isinstance(code_for(chosen.kernel, chosen.device.backend), CLBlastImplementation):
        return clblast_folder(chosen)
    return called_folder(chosen, call_for(chosen), LANGUAGE, [_NEEDS])
