"""Called folders: the files of a kernel that is called, in OpenCL C, CUDA C++ or Triton.

Beside the kernel's source there are `run.py` with `device.py` and `arrays.py`, and `host.c` with `device.h` and
`arrays.h`, which are the same for all kernels of a language, and `kernel.py` and `kernel.h`, which hold what belongs to
this kernel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from seqtune.kernels.launches.call import Call
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.libraries.table import library_in_use
from seqtune.kernels.operations.table import operation

from .check import check_of
from .chosen import Chosen, Files, Writer, template
from .description import LAUNCH_JSON, README, described_call, launch_json, readme
from .kernel_header import check_text, defines, tables
from .packing import operand_loops

_HOW = """Compile and check the kernel, {ways}:

{commands}

{words} One line tells the result and the time of a run. {calls}Python programs use the class `run.Kernel`."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language of kernels that are called."""

    name: str  # of its templates: `opencl.py`, `opencl.h`
    suffix: str  # of the kernel's file
    has_c: bool = True  # whether there is a host program in C

    def how(self, words: str) -> str:
        """The paragraph of a README on how to check a kernel; `words` say what it is compared with."""
        if not self.has_c:
            return _HOW.format(ways="in Python", commands="    python run.py", words=words, calls="")
        return _HOW.format(ways="in C (no header and no library is needed to compile) and in Python",
                           commands="    cc -std=c99 -O2 -o check host.c -ldl -lm && ./check\n    python run.py",
                           words=words, calls="`host.c` shows the calls that a program makes; ")


def call_for(chosen: Chosen) -> Call:
    """The call of a chosen kernel. Raises KernelError, MisuseError where its library's code is not allowed."""
    library_in_use(chosen.kernel.name.partition(".")[0]).check_allowed(chosen.kernel)
    return call_of(chosen.kernel, chosen.problem, chosen.device, chosen.configuration)


def called_folder(chosen: Chosen, call: Call, language: Language, remarks: Sequence[str], *,
                  images: Files | None = None, code: str = "", more: Mapping[str, object] | None = None) -> Files:
    """The files of a folder. `remarks` are paragraphs of its README, `images` files that a compiler made, `code` are
    further lines of kernel.h, and `more` is what launch.json says besides. Raises SeqtuneErrors.
    """
    tensors = operation(chosen.problem.type).tensors(chosen.problem)
    check = check_of(chosen, tensors)
    packings = {name: operand_loops(argument, tensors, chosen.problem)
                for name, argument in call.buffers().items() if argument.packing is not None}
    packed = {name: (loops.elements, {"packed_by": f"pack_{name}", "packing": loops.to_json()})
              for name, loops in packings.items()}
    part = {**described_call(call, tensors, packed), "check": check.to_json(), **(more or {})}
    module = (f'"""The reference of {chosen.name}."""\n\n'
              "from __future__ import annotations\n\nimport numpy as np\nfrom arrays import decoded\n\n"
              f"CHECKED = {check.remark!r}\n\n\n{check.python()}")
    source = f"{chosen.name}{language.suffix}"
    files = {README: readme([chosen], [language.how(check.words), *remarks]),
             LAUNCH_JSON: launch_json([(chosen, part)]), source: call.source.text.encode(), **(images or {}),
             "kernel.py": module.encode(), "device.py": template(f"{language.name}.py"), "run.py": template("run.py"),
             "arrays.py": template("arrays.py"), **check.files}
    if not language.has_c:
        return files
    macros = {"NAME": chosen.name, "SOURCE": source, "OPTIONS": " ".join(call.source.options),
              "DEVICE_MODEL": chosen.device.model, "CHECKED": check.remark}
    texts = [*(loops.c(f"pack_{name}") for name, loops in packings.items()), check_text(check), tables(part, check)]
    header = (f"/* What host.c and device.h have to know of {source}; launch.json says the same. */\n\n"
              f"{defines(macros)}{code}\n" + "\n".join(texts))
    return {**files, "kernel.h": header.encode(), "device.h": template(f"{language.name}.h"),
            "host.c": template("host.c"), "arrays.h": template("arrays.h")}


def one_by_one(write: Callable[[Chosen], Files]) -> Writer:
    """The writer that gives each of several kernels a folder of its own, and a single one the folder itself."""

    def write_all(chosen: Sequence[Chosen]) -> Files:
        files = {one.name: write(one) for one in chosen}
        if len(chosen) == 1:
            return files[chosen[0].name]
        about = [json.loads(each[LAUNCH_JSON]) for each in files.values()]
        together = about[0] | {"kernels": [kernel for each in about for kernel in each["kernels"]]}
        return {README: readme(chosen, ["Each folder holds one kernel, with a README of its own."]),
                LAUNCH_JSON: (json.dumps(together, indent=1) + "\n").encode(),
                **{f"{name}/{path}": content for name, each in files.items() for path, content in each.items()}}

    return write_all
