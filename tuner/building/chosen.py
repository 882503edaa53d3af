"""Chosen: a configuration that becomes files, and what is known of it; Files: the files of a folder."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TypeAlias, cast

from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import cannot_write, check_length, check_path, new_folder
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem

from ..backends.backend import BuildError
from ..measuring.tensor_limit import check_measurable

Files: TypeAlias = dict[str, bytes]  # path in the folder, with / -> contents


@dataclass(frozen=True, slots=True)
class Chosen:
    """A configuration of a kernel for one problem and device. `name` begins the names of its functions in C."""

    name: str
    problem: Problem
    device: Device
    kernel: Kernel
    configuration: Configuration
    origin: str  # where it comes from: "the first proposal", "the winner verified on 2026-11-20"
    seconds: float | None = None  # measured time of a run on this device; None: it was not measured
    default_seconds: float | None = None  # that of the kernel's safe default, in the same comparison

    def brief(self) -> str:
        """The kernel and its configuration in one line."""
        return f"{self.kernel.name} {self.configuration.brief()}"

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"name": self.name, "problem": self.problem.to_json(), "kernel": self.kernel.name,
                "configuration": dict(self.configuration.settings), "origin": self.origin, "seconds": self.seconds,
                "default_seconds": self.default_seconds}


Writer: TypeAlias = Callable[[Sequence[Chosen]], Files]

# Backend -> "module:function", a Writer: the files of one folder for some kernels of one device, which have names of
# their own. Backends whose folders hold one kernel give each a folder in it (`called_folder.one_by_one`).
WRITERS: dict[str, str] = {
    "llvm": "seqtune.tuner.building.llvm:folder",
    "opencl": "seqtune.tuner.building.opencl:write",
    "cuda": "seqtune.tuner.building.cuda:write",
    "triton": "seqtune.tuner.building.triton:write",
    "command": "seqtune.tuner.building.command:write",
}


@contextmanager
def compiling() -> Iterator[None]:
    """Run code that compiles; raises SeqtuneError, for users, where the compiler refuses a source."""
    try:
        yield
    except BuildError as error:
        raise SeqtuneError(f"the compiler refuses the kernel: {error}") from None


@compiling()
def files_of(chosen: Sequence[Chosen]) -> Files:
    """The files of a folder for kernels of one device.

    Raises MisuseError where the backend has none or a problem is too large for the folder's check, SeqtuneError where
    the compiler refuses a source, UnavailableError where the backend's compiler is not installed.
    """
    backend, names = chosen[0].device.backend, Counter(kernel.name for kernel in chosen)
    if backend not in WRITERS:
        raise MisuseError(f"kernels of {backend} cannot be built to files; those of {', '.join(WRITERS)} can")
    for kernel in chosen:
        check_measurable(kernel.problem)
        if names[kernel.name] > 1:
            raise MisuseError(f"{names[kernel.name]} problems have the name {kernel.name} in C, such as "
                              f"{kernel.problem.brief()}; build them one by one")
    return cast(Writer, resolve(WRITERS[backend]))(chosen)


def template(name: str) -> bytes:
    """A file that is the same in the folders of all kernels."""
    return (Path(__file__).parent / "templates" / name).read_bytes()


def filled(name: str, words: Mapping[str, object]) -> str:
    """The text of a template in which ${WORD} stands for a word. Raises KeyError for one that is missing."""
    return Template(template(name).decode()).substitute(words)


def function_name(problem: Problem) -> str:
    """A name for a problem's functions in C, of the features that are not defaults: conv2d_c64_h56_w56_k64_r3_s3."""
    return re.sub(r"\W+", "_", problem.key.replace("=", ""))


def check_free(folder: Path) -> None:
    """Check that a folder does not exist yet, or is empty, and that its place is a folder.

    A symbolic link stands for its target. Raises MisuseError, SeqtuneError.
    """
    if folder.name in ("", ".."):
        raise MisuseError(f"{'the current folder' if folder == Path() else folder} cannot be written, because the new "
                          "folder takes its place whole; name a new folder in it (--out NAME)")
    check_length(folder)
    check_path("out", folder)
    try:
        taken = folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))
        place = next(parent for parent in folder.absolute().parents if parent.exists())
        is_folder = place.is_dir()
    except OSError as error:
        raise cannot_write(folder, error) from None
    if taken:
        raise MisuseError(f"{folder} exists and is not an empty folder; choose another one")
    if not is_folder:
        raise MisuseError(f"cannot write {folder}: {place} is not a folder; choose another place (--out FOLDER)")


def write_folder(files: Files, folder: Path) -> None:
    """Write the files to a folder that does not exist yet, or is empty.

    Raises MisuseError if the folder holds files or its place takes none, SeqtuneError if the disk is full.
    """
    check_free(folder)
    folder = Path(os.path.realpath(folder))  # a link is kept
    new = [parent for parent in folder.parents if not parent.exists()]  # the innermost first
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(folder) as part:
            for path, content in files.items():
                (part / path).parent.mkdir(parents=True, exist_ok=True)
                (part / path).write_bytes(content)
    except OSError as error:
        raise cannot_write(folder, error) from None
    finally:
        for parent in new:  # they are left only where the folder is in them
            with suppress(OSError):
                parent.rmdir()
