"""Implementation: the code of a kernel for a backend, and the source that it makes for the backend's compiler.

An implementation turns (problem, device, configuration) into a *source*, which many problems may share, and the rest of
this problem's run: a *call* (`call.CalledImplementation`), or for llvm a *launch* (`seqtune.kernels.llvm.launch`). A
backend builds a source once for every problem that shares it. Implementations import no compiler and no driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import KernelError

from ..kernel import Configuration, Kernel
from ..lookup import resolve
from ..problem import Problem

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Text for the backend's compiler. Equal sources (same text and options) are built once."""

    text: str
    options: tuple[str, ...] = ()


class Implementation(Protocol):
    """The code of a kernel family. A backend asks for the protocol that it can run.

    One that makes its own executables (`seqtune.tuner.backends.backend.ExecutableFactory`) needs no source.
    """

    includes: str  # the work that a timing includes and leaves out, for people: "padding copy; weights packed before"


def includes(kernel: Kernel) -> str | None:
    """The work that a timing of the kernel includes and leaves out, for people; None if it has no implementation."""
    return None if kernel.implementation is None else implementation_of(kernel).includes


def implementation_of(kernel: Kernel) -> Implementation:
    """The code of a kernel, imported if the kernel only names it. Raises KernelError if it has none."""
    code = kernel.implementation
    if code is None:
        raise KernelError(f"{kernel.name} has no implementation to run")
    return resolve(code) if isinstance(code, str) else code  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Runs kernels by calls of a library, of which backends have a table; the configuration names the kernel."""

    library: str
    includes: str  # see `seqtune.kernels.launches.implementation.Implementation`

    def executable(self, backend: Any, problem: Problem, configuration: Configuration) -> Any:
        """Make an executable on the backend's device. Raises BuildError, LaunchError or UnavailableError."""
        return backend.call_library(self.library, problem, configuration)
