"""Kernels in CUDA C++ as folders: the kernel, its PTX and cubin, a host program in C99, and one with pycuda."""

from __future__ import annotations

from dataclasses import replace

from seqtune.errors import UnavailableError, one_line
from seqtune.kernels.launches.call import Call

from ..backends.cuda.compiler import CubinCompiler, ptx_of
from .called_folder import Language, call_for, called_folder, one_by_one
from .called_text import Host
from .chosen import Chosen, Files

_HOST = Host(
    "unsigned long long ", "struct CUstream_st;    /* a CUstream and a cudaStream_t point to one */\n",
    "const char *folder, struct CUstream_st *stream", "folder, stream", "{folder}, NULL", """\
On this stream (NULL: the default one), in the current context of this thread, or else in that of the first GPU; a
   context must be current in all calls. `folder` is that of {name}.cubin.""")
LANGUAGE = Language("cuda", ".cu", _HOST, """\
With a stream of yours in place of NULL, a `CUstream` or `cudaStream_t`, `{name}_run` launches on addresses of the \
GPU's memory and does not wait. The first word is the folder of `{name}.cubin`.""")
_NEEDS = """\
The programs need a GPU of NVIDIA with the architecture {target} and its driver; `CUDA_VISIBLE_DEVICES` chooses one. \
`run.py` needs NumPy and pycuda. They load `{name}.cubin`{ptx}."""


@one_by_one
def write(chosen: Chosen) -> Files:
    """The files of a kernel. Raises BuildError, SeqtuneErrors."""
    call, name = call_for(chosen), chosen.name
    target = chosen.device.architecture.replace("sm_90", "sm_90a")  # see `seqtune.tuner.backends.cuda.compiler.target`
    images: Files = {}
    remarks = []
    try:
        compiler = CubinCompiler(chosen.device)
        image = compiler.compile(call.source)
        call = Call(call.source, tuple(replace(step, entry=image.symbol(step.entry)) for step in call.steps),
                    call.rewritten)
        images = {f"{name}.cubin": image.cubin, f"{name}.ptx": ptx_of(call.source, chosen.device)}
    except UnavailableError as error:
        options = " ".join(("nvcc -cubin", f"-arch={target}", *call.source.options))
        remarks = [f"The kernel was not compiled, because here {one_line(error, 200)}. Compile it before:\n\n"
                   f"    {options} -o {name}.cubin {name}.cu"]
    needs = _NEEDS.format(target=target, name=name, ptx=", or else the driver compiles the PTX" if images else "")
    listed = ", ".join(f'"{path}"' for path in images) or f'"{name}.cubin"'
    return called_folder(chosen, call, LANGUAGE, [needs, *remarks], images=images,
                         macros=f'#define TARGET "{target}"\n#define IMAGES {listed}\n')
