"""Parameters of CLBlast as folders: a header for C and C++ that calls CLBlastOverrideParameters."""

from __future__ import annotations

from collections.abc import Mapping

from seqtune.tuner.building.chosen import Chosen, Files
from seqtune.tuner.building.description import LAUNCH_JSON, README, launch_json, readme

from .calls import parameter_sets

_HOW = """\
CLBlast computes the product: no kernel is needed. A program in C or C++ that includes `{name}.h` calls
`{name}_parameters(device)` once, before its first call of `CLBlastSgemm` or `clblast::Gemm` on the device. The
parameters then hold for all products of single precision in this process."""
_C = """\
/* CLBlast's parameters of single precision that were chosen for one product; see README.md. */
#ifndef {guard}
#define {guard}
#include <clblast_c.h>

static CLBlastStatusCode {name}_parameters(cl_device_id device)
{{
    CLBlastStatusCode status;
{blocks}    return CLBlastSuccess;
}}

#endif
"""
_C_BLOCK = """\
    {{
        const char *names[] = {{{names}}};
        const size_t values[] = {{{values}}};
        status = CLBlastOverrideParameters(device, "{kernel}", CLBlastPrecisionSingle, {count}, names, values);
        if (status != CLBlastSuccess)
            return status;
    }}
"""


def clblast_folder(chosen: Chosen) -> Files:
    """The files of one configuration of CLBlast's kernels."""
    name, sets = chosen.name, parameter_sets(chosen.configuration)
    c = _C.format(name=name, guard=f"{name.upper()}_H", blocks="".join(map(_c_block, sets, sets.values())))
    return {README: readme([chosen], [_HOW.format(name=name)]),
            LAUNCH_JSON: launch_json([(chosen, {"override_parameters": sets})]),
            f"{name}.h": c.encode()}


def _c_block(kernel: str, parameters: Mapping[str, int]) -> str:
    names = ", ".join(f'"{name}"' for name in parameters)
    return _C_BLOCK.format(kernel=kernel, names=names, values=", ".join(map(str, parameters.values())),
                           count=len(parameters))
