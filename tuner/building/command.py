"""Kernels that are programs as folders: a script with the command of one configuration, and the files that it reads."""

from __future__ import annotations

import shlex

from seqtune.errors import KernelError
from seqtune.kernels.launches.call_declaration import code_for
from seqtune.kernels.launches.command_declaration import CommandDeclaration
from seqtune.kernels.libraries.files import is_file_inside

from .called_folder import one_by_one
from .chosen import Chosen, Files
from .description import LAUNCH_JSON, README, launch_json, readme

_HOW = """The kernel is a program. This builds it and runs it once:

    sh {name}.sh

The last line that it prints is a JSON object with the seconds of the run, and its error or a checksum. The files of
the library's folder that the command names are here, too; copy others that the program reads."""


@one_by_one
def write(chosen: Chosen) -> Files:
    """The files of a kernel. Raises KernelError, FormatError."""
    declaration, name = code_for(chosen.kernel, chosen.device.backend), chosen.name
    if not isinstance(declaration, CommandDeclaration):
        raise KernelError(f"{chosen.kernel.name} declares no command that could be written to files")
    command = declaration.command(chosen.problem, chosen.device, chosen.configuration).with_output(f"./{name}.program")
    read: Files = {path: (declaration.folder / path).read_bytes() for path, _ in chosen.kernel.parts
                   if is_file_inside(declaration.folder, path)}
    lines = "".join(f"{shlex.join(words)}\n" for words in (command.build, command.run) if words)
    script = (f"#!/bin/sh\n# {chosen.problem.brief()}: builds and runs {chosen.brief()}\n"
              f"set -eu\ncd \"$(dirname \"$0\")\"\n{lines}")
    part = {"build": command.build, "run": command.run, "files": list(read), "timeout_seconds": declaration.timeout,
            "memory_bytes": declaration.memory, "tolerance": declaration.tolerance, "repeats": declaration.repeats}
    return {README: readme([chosen], [_HOW.format(name=name)]),
            LAUNCH_JSON: launch_json([(chosen, part)]), f"{name}.sh": script.encode(), **read}
