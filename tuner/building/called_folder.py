"""Called folders: the files of a kernel that is called, in OpenCL C, CUDA C++ or Triton.

Beside the kernel's source there are functions in C, `NAME.c` with their header `NAME.h`, which `check.c` calls with
`check.h` and `arrays.h`, and a class in Python, `run.py` with `device.py`, `arrays.py` and `kernel.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent

from seqtune.kernels.launches.call import Call
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.libraries.table import library_in_use
from seqtune.kernels.operations.table import operation

from .called_text import CalledText, Host
from .check import check_of
from .chosen import Chosen, Files, Writer, template
from .description import LAUNCH_JSON, README, described_call, launch_json, readme
from .packing import operand_loops

_HOW = """Compile and check the kernel, {ways}:

{commands}

{words} One line tells the result and the time of a run. Python programs use the class `run.Kernel`."""
_EXAMPLE = """\
A program of yours includes `{name}.h`, which describes the functions, and is compiled with `{name}.c`; \
both need no other file:

{program}
{own}"""


@dataclass(frozen=True, slots=True)
class Language:
    """A language of kernels that are called."""

    name: str  # of its templates: `opencl.py`, `opencl.c`
    suffix: str  # of the kernel's file
    host: Host | None = None  # how programs in C call it
    own: str = ""  # words on programs that have a device of their own

    def how(self, name: str, words: str) -> str:
        """The paragraph of a README on how to check a kernel; `words` say what it is compared with."""
        if self.host is None:
            return _HOW.format(ways="in Python", commands="    python run.py", words=words)
        return _HOW.format(ways="in C (no header and no library is needed to compile) and in Python", words=words,
                           commands=f"    cc -std=c99 -O2 -o check check.c {name}.c -ldl -lm && ./check\n"
                           "    python run.py")


def call_for(chosen: Chosen) -> Call:
    """The call of a chosen kernel. Raises KernelError, MisuseError where its library's code is not allowed."""
    library_in_use(chosen.kernel.name.partition(".")[0]).check_allowed(chosen.kernel)
    return call_of(chosen.kernel, chosen.problem, chosen.device, chosen.configuration)


def called_folder(chosen: Chosen, call: Call, language: Language, remarks: Sequence[str], *,
                  images: Files | None = None, macros: str = "", more: Mapping[str, object] | None = None) -> Files:
    """The files of a folder. `remarks` are paragraphs of its README, `images` files that a compiler made, `macros` what
    the functions in C need to know, and `more` is what launch.json says besides. Raises SeqtuneErrors.
    """
    tensors = operation(chosen.problem.type).tensors(chosen.problem)
    check = check_of(chosen, tensors)
    packings = {name: operand_loops(argument, tensors, chosen.problem)
                for name, argument in call.buffers().items() if argument.packing is not None}
    packed = {name: (loops.elements, {"packed_by": f"pack_{name}", "packing": loops.to_json()})
              for name, loops in packings.items()}
    part = {**described_call(call, tensors, packed), "check": check.to_json(), **(more or {})}
    module = (f'"""The reference of {chosen.name}."""\n\nfrom __future__ import annotations\n\n'
              f"import numpy as np\nfrom arrays import decoded\n\n\n{check.python()}")
    name, how = chosen.name, [language.how(chosen.name, check.words)]
    files: Files = {}
    if language.host is not None:
        text = CalledText(chosen, check, language.host, template(f"{language.name}.c").decode(), macros, part,
                          [loops.c(f"pack_{name}") for name, loops in packings.items()])
        files = {f"{name}.h": text.header().encode(), f"{name}.c": text.source().encode(),
                 "check.h": text.check_header().encode(), "check.c": template("check.c"),
                 "arrays.h": template("arrays.h")}
        how.append(_EXAMPLE.format(name=name, program=indent(text.example(), "    "),
                                   own=language.own.format(name=name)))
    return {README: readme([chosen], [*how, *remarks]), LAUNCH_JSON: launch_json([(chosen, part)]),
            f"{name}{language.suffix}": call.source.text.encode(), **(images or {}), "kernel.py": module.encode(),
            "device.py": template(f"{language.name}.py"), "run.py": template("run.py"),
            "arrays.py": template("arrays.py"), **files, **check.files}


def one_by_one(write: Callable[[Chosen], Files]) -> Writer:
    """The writer that gives each of several kernels a folder of its own, and a single one the folder itself."""

    def write_all(chosen: Sequence[Chosen]) -> Files:
        files = {kernel.name: write(kernel) for kernel in chosen}
        if len(chosen) == 1:
            return files[chosen[0].name]
        about = [json.loads(each[LAUNCH_JSON]) for each in files.values()]
        together = about[0] | {"kernels": [kernel for each in about for kernel in each["kernels"]]}
        return {README: readme(chosen, ["Each folder holds one kernel, with a README of its own."]),
                LAUNCH_JSON: (json.dumps(together, indent=1) + "\n").encode(),
                **{f"{name}/{path}": content for name, each in files.items() for path, content in each.items()}}

    return write_all
