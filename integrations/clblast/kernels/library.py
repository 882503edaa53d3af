"""The library `clblast`: the kernels of the installed CLBlast, which only --library clblast brings into use."""

from __future__ import annotations

from seqtune.kernels.launches.implementation import LibraryCall
from seqtune.kernels.libraries.library import Library

IMPLEMENTATION = LibraryCall(
    "clblast", "the call of CLBlastSgemm with all copies that it makes; program built before, once")


KERNELS: dict[str, str] = {
    "clblast.xgemm": "seqtune.integrations.clblast.kernels.xgemm:KERNEL",
    "clblast.xgemm_direct": "seqtune.integrations.clblast.kernels.xgemm_direct:KERNEL",
}
LIBRARY = Library("clblast", KERNELS, meaning="matrix products of CLBlast, with parameters set for each call",
                  backends=("opencl",), checkpoint="clblast", alone=True)
