"""Kernels in OpenCL C as folders: the kernel, a host program in C99 for OpenCL 1.2, and one with pyopencl."""

from __future__ import annotations

from collections.abc import Sequence

from .called_folder import Language, call_for, called_folder, folders
from .chosen import Chosen, Files

LANGUAGE = Language("opencl", ".cl", """\
The programs need an OpenCL driver and its loader, libOpenCL.so.1; `OPENCL_LIBRARY` names another file,
`OPENCL_DEVICE` a part of a device's name. `run.py` needs NumPy and pyopencl. The loader and the driver for CPUs (PoCL)
that pip installs with `pyopencl[pocl]` are found so:

    export PYOPENCL_HOME=$(python -c "import os, pyopencl; print(os.path.dirname(pyopencl.__file__))")
    export LD_LIBRARY_PATH=$PYOPENCL_HOME/.libs OPENCL_LIBRARY=$(ls $PYOPENCL_HOME/.libs/libOpenCL*)""")


def write(chosen: Sequence[Chosen]) -> Files:
    """The files of a folder; of several kernels each has a folder of its own. See `WRITERS`."""
    return folders(chosen, {one.name: called_folder(one, call_for(one), LANGUAGE) for one in chosen})
