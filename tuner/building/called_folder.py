"""Called folders: the files of a kernel that is called, in OpenCL C or CUDA C++.

Beside the kernel's source there are `host.c` with `device.h`, and `run.py` with `device.py` and `arrays.py`, which are
the same for all kernels of a language, and `kernel.h` and `kernel.py`, which hold what belongs to this kernel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seqtune.kernels.launches.call import BufferArgument, Call
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.libraries.table import library_in_use
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensors
from seqtune.kernels.problem import Problem

from ..backends.stored_operands import stored
from .check import check_of
from .chosen import Chosen, Files
from .description import LAUNCH_JSON, README, described_call, launch_json, readme
from .kernel_header import defines, function_of, tables
from .packing import PackedText, packing_text

_TEMPLATES = Path(__file__).parent / "templates"
_HOW = """Compile and check the kernel, in C (no header and no library is needed to compile) and in Python:

    cc -std=c99 -O2 -o check host.c -ldl -lm && ./check
    python run.py

{words} One line tells the result and the time of a run. `host.c` shows the calls that a program makes; Python programs
use the class `run.Kernel`."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language of kernels that are called."""

    name: str  # of its templates: `opencl.h`, `opencl.py`
    suffix: str  # of the kernel's file
    needs: str  # what its programs need to run, for the README


def call_for(chosen: Chosen) -> Call:
    """The call of a chosen kernel. Raises KernelError, MisuseError where its library's code is not allowed."""
    library_in_use(chosen.kernel.name.partition(".")[0]).check_allowed(chosen.kernel)
    return call_of(chosen.kernel, chosen.problem, chosen.device, chosen.configuration)


def called_folder(chosen: Chosen, call: Call, language: Language, *, images: Files | None = None,
                  remarks: Sequence[str] = (), code: str = "") -> Files:
    """The files of a folder. `images` are those that a compiler made, `code` are further lines of kernel.h.

    Raises SeqtuneErrors.
    """
    tensors = operation(chosen.problem.type).tensors(chosen.problem)
    check = check_of(chosen, tensors)
    packings = {name: _packing(argument, tensors, chosen.problem) for name, argument in call.buffers().items()
                if argument.packing is not None}
    restored = tuple(dict.fromkeys((*tensors.restorable(), *call.rewritten)))
    source = f"{chosen.name}{language.suffix}"
    macros = {"NAME": chosen.name, "SOURCE": source, "OPTIONS": " ".join(call.source.options),
              "DEVICE_MODEL": chosen.device.model, "CHECKED": check.remark}
    header = (f"/* What host.c and device.h have to know of {source}; launch.json says the same. */\n\n"
              f"{defines(macros)}#define COMPARED {int(bool(check.outputs))}\n{code}\n"
              f"{tables(call, tensors, packings, check.contents, restored)}{check.c}")
    module = (f'"""The packings and the reference of {chosen.name}."""\n\n'
              "import numpy as np\nfrom arrays import decoded\n\n"
              f"CHECKED = {check.remark!r}\n\n\n"
              + "\n\n".join([*(text.python for text in packings.values()), check.python]))
    part = described_call(call, tensors, {name: (function_of(name), text.elements)
                                          for name, text in packings.items()})
    part["check"] = check.to_json()
    return {README: readme([chosen], [_HOW.format(words=check.words), language.needs, *remarks]),
            LAUNCH_JSON: launch_json([(chosen, part)]), source: call.source.text.encode(), **(images or {}),
            "kernel.h": header.encode(), "kernel.py": module.encode(), **check.files,
            **{path: template(shared).encode() for path, shared in (
                ("host.c", "host.c"), ("device.h", f"{language.name}.h"), ("run.py", "run.py"),
                ("device.py", f"{language.name}.py"), ("arrays.py", "arrays.py"))}}


def template(name: str) -> str:
    """A file that all folders share."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _packing(argument: BufferArgument, tensors: Tensors, problem: Problem) -> PackedText:
    """The text of an input's packing. Raises KernelError."""
    tensor, groups = tensors.inputs[argument.name], problem.names().get("groups")
    return packing_text(function_of(argument.name), lambda array: stored(array, argument), tensor.shape, tensor.dtype,
                        groups if isinstance(groups, int) else 1)


def folders(chosen: Sequence[Chosen], one: dict[str, Files]) -> Files:
    """The folders of several kernels as one, or the only one itself."""
    if len(chosen) == 1:
        return one[chosen[0].name]
    about = [json.loads(files[LAUNCH_JSON]) for files in one.values()]
    together = about[0] | {"kernels": [kernel for each in about for kernel in each["kernels"]]}
    return {README: readme(chosen, ["Each folder holds one kernel, with a README of its own."]),
            LAUNCH_JSON: (json.dumps(together, indent=1) + "\n").encode(),
            **{f"{name}/{path}": content for name, files in one.items() for path, content in files.items()}}
