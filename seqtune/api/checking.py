"""Checks of kernels: the file of a library, memory accesses, compiled samples, and code that may not run."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.kernels import registry
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import NAME
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import can_run, is_registered, kernel, table
from seqtune.kernels.say import Say, silent
from seqtune.tuner.backends import discovery
from seqtune.tuner.measuring.tensor_limit import check_measurable

from ..errors import FormatError, MisuseError
from .inputs import as_device
from .library import use_library
from .results import CompileReport

if TYPE_CHECKING:
    from seqtune.kernels.linting.report import LintReport
    from seqtune.tuner.memory_check.check import MemoryReport


def is_library_file(words: Sequence[str]) -> bool:
    """Whether the words are one path of a file that declares a library, or of a folder with one."""
    if len(words) != 1 or is_registered(words[0]):
        return False
    if words[0].lower().endswith(".json"):
        return _is_t1_file(words[0])
    return words[0].lower().endswith(".toml") or os.path.isfile(os.path.join(words[0], "library.toml"))


def _is_t1_file(path: str) -> bool:
    """Whether a JSON file is in T1, right or wrong, and not a file of kernels."""
    from seqtune.kernels.libraries.files import read_regular
    from seqtune.kernels.libraries.reading import LARGEST_DOCUMENT
    from seqtune.kernels.libraries.t1.file import names_a_part

    try:
        return names_a_part(read_regular(Path(path), LARGEST_DOCUMENT))
    except FormatError:
        return False


def lint_library(path: str | Path, problems: str | Path | None = None) -> LintReport:
    """Check the library of a file on sample problems of its operations, or on those of a named set or a file.

    Raises FormatError with the line and column of the first mistake, MisuseError.
    """
    from seqtune.kernels.linting.library import lint
    from seqtune.kernels.problem_sets.parse import problem_set

    library = use_library(path)
    return lint(library, problem_set(problems) if problems is not None else ())


def check_memory(path: str | Path, sample: int | None = None, progress: Say = silent) -> MemoryReport:
    """Run some OpenCL configurations of a library's file under Oclgrind, which finds races and stray accesses.

    Raises FormatError, MisuseError, and UnavailableError where Oclgrind is not installed.
    """
    from seqtune.tuner.memory_check.check import SAMPLE
    from seqtune.tuner.memory_check.check import check_memory as check

    return check(use_library(path), SAMPLE if sample is None else sample, progress=progress)


def compile_check(device: Device | str, words: Sequence[str] = (), sample: int = 200, seed: int = 0,
                  progress: Say = silent, libraries: Collection[str] = ()) -> CompileReport:
    """Compile `sample` random configurations of every kernel family of a device, which need not be here.

    `words` name families, or describe a problem: then its configurations alone are compiled. Without words, the
    families are those of the `libraries`, which are in use, or of all. Raises DeviceError, KernelError, MisuseError,
    UnavailableError.
    """
    from seqtune.kernels.problem_sets.parse import parse_problem
    from seqtune.kernels.space import spaces_for
    from seqtune.tuner.compile_check import check_families

    target = as_device(device)
    problems = [parse_problem(list(words))] if words and not NAME.fullmatch(words[0]) else []
    if problems:
        families = [space.kernel for space in spaces_for(problems[0], target)]
    else:
        families = [kernel(name) for name in dict.fromkeys(words) or _families_of(libraries, target.backend)]
    elsewhere = next((family for family in families if target.backend not in family.backends), None)
    if elsewhere is not None:
        raise MisuseError(f"{elsewhere.name} runs on {', '.join(elsewhere.backends)}, not on {target.backend}")
    families = [family for family in families if family.implementation is not None]
    if not families:
        purpose = f" for {target.backend}" if libraries else ""
        raise MisuseError(f"{' '.join(words or libraries)[:60] or target.name} has no code here that could be compiled"
                          f"{purpose}")
    checks = check_families(families, target, sample, seed, problems, progress)
    if not checks:
        raise MisuseError(f"{', '.join(family.name for family in families) or 'no kernel family'} is not for "
                          f"{target.name} (seqtune kernels shows what a family solves)")
    return CompileReport(target, sample, seed, tuple(checks))


def _families_of(libraries: Collection[str], backend: str) -> tuple[str, ...]:
    """The families that run on a backend: of these libraries, or of all in use."""
    return tuple(name for name in table(backend) if not libraries or name.partition(".")[0] in libraries)


def check_measuring(device: Device, problems: Collection[Problem], instead: str = "") -> None:
    """Check that a device of this machine can measure problems. Raises DeviceError, MisuseError, ProblemError.

    `instead` is what the refusal of a device whose kernels cannot be run here proposes.
    """
    if not can_run(device.backend):
        raise MisuseError(f"kernels of {device.backend} cannot be run here, so there is nothing to measure{instead}")
    discovery.check_present(device)
    for problem in problems:
        check_measurable(problem)
    check_allowed(device.backend, {problem.type for problem in problems})


def check_allowed(backend: str, operations: Collection[str]) -> None:
    """Check that the code of all families of a backend that solve these operations may run. Raises MisuseError."""
    for family in map(kernel, table(backend)):
        if family.operation in operations:
            registry.check_allowed(family)
