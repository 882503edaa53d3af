"""The command backend: runs kernels that are programs on this machine's CPU, device `command:cpu`."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from shutil import which

from seqtune.errors import DeviceError, SeqtuneError, one_line
from seqtune.kernels.devices.device import COMMAND_DEVICE, Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call_declaration import code_for
from seqtune.kernels.launches.command_declaration import Command, CommandDeclaration
from seqtune.kernels.libraries.table import library_in_use
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

from ...stand_ins import default_and_stand_ins, failed_default
from ..backend import BuildError, LaunchError
from ..llvm import discovery as llvm
from .executable import CommandExecutable
from .programs import Programs

BUILD_SECONDS = 60.0  # of a build, which may be a large C++ program
BUILD_MEMORY = 8_000_000_000  # bytes of address space


def unavailable() -> str | None:
    """The reason why programs cannot be run here, or None."""
    if sys.platform == "win32":
        return "programs run with limits on time and memory that Windows does not have"
    return llvm.unavailable()


@lru_cache(maxsize=1)
def _devices() -> tuple[Device, ...]:
    return tuple(replace(device, name=COMMAND_DEVICE, backend="command", toolchain=_compiler(),
                         extra=()) for device in llvm.devices()[:1])


def devices() -> list[Device]:
    """The CPU, with the facts of its best llvm device."""
    return list(_devices())


def _compiler() -> str:
    """The first line of the C compiler's version; programs that it builds change with it."""
    compiler = which("cc")
    if compiler is None:
        return "no cc"
    try:
        answer = subprocess.run([compiler, "--version"], capture_output=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "cc"
    return one_line(answer.decode(errors="replace").partition("\n")[0], 80) or "cc"


class CommandBackend:
    """Builds and runs programs. Raises DeviceError for another device."""

    build_allowance = BUILD_SECONDS
    reference_work = None  # programs time themselves
    checks_itself = True

    def __init__(self, device: Device) -> None:
        sets = {present.instruction_set for present in devices()}
        if device.name != COMMAND_DEVICE or device.instruction_set not in sets:
            raise DeviceError(f"no device {device.name!r:.60} ({device.instruction_set:.20}); programs run on "
                              f"{COMMAND_DEVICE}")
        self.device = device
        self._programs = Programs()
        self._built: dict[tuple[str, ...], str] = {}  # words of a build -> the file that it wrote
        self._checksums: dict[tuple[str, Problem], float | str] = {}

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> CommandExecutable:
        """Build the program of a configuration. Raises BuildError, LaunchError; MisuseError if it may not run."""
        library_in_use(kernel.name.partition(".")[0]).check_allowed(kernel)
        declaration = code_for(kernel, self.device.backend)
        if not isinstance(declaration, CommandDeclaration):
            raise LaunchError(f"{kernel.name} declares no command")
        begin = time.perf_counter()
        command = self._command(declaration, declaration.command(problem, self.device, configuration))

        def expected() -> float | str:
            return self._checksum(problem, kernel, declaration.timeout)

        return CommandExecutable(self._programs, declaration, command, time.perf_counter() - begin, expected)

    def _command(self, declaration: CommandDeclaration, command: Command) -> Command:
        """The command with the path of its built file. Raises BuildError."""
        if not command.build:
            return command
        key = (str(declaration.folder), *command.build)
        if key not in self._built:
            output = str(self._programs.private / f"program{len(self._built)}")
            words = command.with_output(output).build
            try:
                result = self._programs.run(words, declaration.folder, BUILD_SECONDS, BUILD_MEMORY)
            except LaunchError as error:
                raise BuildError(str(error)) from None
            if result.code:
                raise BuildError(f"{words[0]:.60} {result.reason()}")
            if not Path(output).exists():
                raise BuildError(f"{words[0]:.60} ended well but did not write {{output}}")
            self._built[key] = output
        return command.with_output(self._built[key])

    def _checksum(self, problem: Problem, kernel: Kernel, seconds: float) -> float | str:
        """The checksum of the default configuration or its stand-in, or why there is none; found once a problem."""
        key = kernel.name, problem
        if key not in self._checksums:
            self._checksums[key] = "the default configuration is being checked"
            self._checksums[key] = self._default_checksum(problem, kernel, seconds)
        return self._checksums[key]

    def _default_checksum(self, problem: Problem, kernel: Kernel, seconds: float) -> float | str:
        """No stand-in begins after `seconds`: the configuration that waits for the checksum has an allowance."""
        task = Task(problem, self.device, (SearchSpace(kernel, problem, self.device),))
        failures: list[str] = []
        begin = time.perf_counter()
        for configuration in default_and_stand_ins(task):
            if failures and time.perf_counter() - begin > seconds:
                break
            try:
                checksum = self.build(problem, kernel, configuration).report().checksum
            except (BuildError, LaunchError, SeqtuneError) as error:
                failures.append(one_line(error))
                continue
            return checksum if checksum is not None else (
                f"nothing to compare with: {'a stand-in for ' if failures else ''}the default configuration reports "
                "none")
        return f"nothing to compare with: {failed_default(task.default, failures[0], others=len(failures) - 1)}"

    def close(self) -> None:
        """Remove the built files."""
        self._programs.close()
