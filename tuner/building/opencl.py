"""Kernels in OpenCL C as folders: the kernel, a host program in C99 for OpenCL 1.2, and one with pyopencl."""

from __future__ import annotations

from seqtune.kernels.launches.call_declaration import code_for
from seqtune.kernels.launches.implementation import LibraryCall
from seqtune.kernels.lookup import resolve

from .c_language import c_string, defines
from .called_folder import Language, call_for, called_folder, one_by_one
from .called_text import Host
from .chosen import Chosen, Files

_HOST = Host(
    "struct _cl_mem *", "struct _cl_command_queue;    /* a cl_command_queue points to one, a cl_mem to the other */\n"
    "struct _cl_mem;\n", "struct _cl_command_queue *queue", "queue", "NULL", """\
On the device of this queue, in its context; it must be in order. NULL: a queue of its own, on the device that the
   kernel was chosen for, or else on the first one; OPENCL_DEVICE in the environment is a part of another's name.""")
LANGUAGE = Language("opencl", ".cl", _HOST, """\
With a `cl_command_queue` of yours in place of NULL, `{name}_run` launches on your `cl_mem` objects and does not wait. \
`{name}.c` holds the text of `{name}.cl`; the program reads no file.""")
_LONGEST = 2000  # characters of a string in C, of which C99 promises 4095; an escape takes two
_NEEDS = """\
The programs need an OpenCL driver and its loader, libOpenCL.so.1; `OPENCL_LIBRARY` names another file,
`OPENCL_DEVICE` a part of a device's name. `run.py` needs NumPy and pyopencl. The loader and the driver for CPUs (PoCL)
that pip installs with `pyopencl[pocl]` are found so:

    export PYOPENCL_HOME=$(python -c "import os, pyopencl; print(os.path.dirname(pyopencl.__file__))")
    export LD_LIBRARY_PATH=$PYOPENCL_HOME/.libs OPENCL_LIBRARY=$(ls $PYOPENCL_HOME/.libs/libOpenCL*)"""

# name of a library of `LibraryCall` -> "module:attribute" of the function that writes the files of one of its kernels
WRITERS = {"clblast": "seqtune.integrations.clblast.backend.building:clblast_folder"}


@one_by_one
def write(chosen: Chosen) -> Files:
    """The files of a kernel. Raises SeqtuneErrors."""
    code = code_for(chosen.kernel, chosen.device.backend)
    if isinstance(code, LibraryCall):
        files: Files = resolve(WRITERS[code.library])(chosen)  # type: ignore[operator]
        return files
    call = call_for(chosen)
    lines = [line[begin:begin + _LONGEST] for line in call.source.text.splitlines(keepends=True)
             for begin in range(0, len(line), _LONGEST)]
    source = "".join(f"    {c_string(line)},\n" for line in lines)
    macros = (defines({"OPTIONS": " ".join(call.source.options), "DEVICE_MODEL": chosen.device.model})
              + f"enum {{ LINES = {len(lines)} }};\n\n"
              f"static const char *const lines_of_source[LINES] = {{\n{source}}};\n")
    return called_folder(chosen, call, LANGUAGE, [_NEEDS], macros=macros)
