"""Registry: the kernel families of all libraries in use, with look-up by name or backend."""

from __future__ import annotations

from seqtune.errors import KernelError

from .devices.device import Device
from .kernel import Kernel
from .libraries.library import Library
from .libraries.table import IN_USE, libraries_in_use, library_in_use
from .problem import Problem


def names() -> tuple[str, ...]:
    """The names of the kernel families that run here, library by library."""
    return tuple(name for library in libraries_in_use() if library.runs for name in library.table)


def table(backend: str) -> tuple[str, ...]:
    """The names of the kernel families that run on a backend, library by library."""
    return tuple(family.name for family in families(backend))


def families(backend: str, operation: str | None = None) -> tuple[Kernel, ...]:
    """The kernel families that run on a backend, and solve problems of an operation if one is named.

    They come library by library. No family of a library for other backends is imported, and none of another operation
    where the library's table tells it. The families of a library that stands `alone` replace the
    others for its operations.
    """
    libraries = _libraries_for(backend)
    taken = {library.kernel(name).operation for library in libraries if library.alone for name in library.table}
    return tuple([family for library in libraries for name in library.table
                  if (operation is None or library.may_solve(name, operation))
                  and backend in (family := library.kernel(name)).backends
                  and operation in (None, family.operation)
                  and (library.alone or family.operation not in taken)])


def _libraries_for(backend: str) -> list[Library]:
    return [library for library in libraries_in_use() if library.may_run_on(backend)]


def kernel(name: str) -> Kernel:
    """The kernel family of this name. Raises KernelError."""
    library = name.partition(".")[0]
    if library in IN_USE:
        return library_in_use(library).kernel(name)
    raise KernelError(f"no kernel {name!r:.60}; there are {', '.join(names())}; name its library with --library")


def is_registered(name: str) -> bool:
    """Whether `kernel` finds a family of this name."""
    library = name.partition(".")[0]
    return library in IN_USE and name in library_in_use(library).table


def check_allowed(family: Kernel) -> None:
    """Check that the code of the family and of its operation may run. Raises MisuseError."""
    own = family.name.partition(".")[0]
    for library in libraries_in_use():
        if library.name == own or family.operation in library.operations:
            library.check_allowed(family)


def can_run(backend: str) -> bool:
    """Whether a kernel family of the backend has an implementation; other families are predicted for only."""
    return any(family.implementation is not None for library in _libraries_for(backend) if library.runs
               for name in library.table if backend in (family := library.kernel(name)).backends)


def backends_for(operation: str) -> tuple[str, ...]:
    """The backends of the kernel families that run here and solve problems of an operation, in table order."""
    solving = (family for family in map(kernel, names()) if family.operation == operation)
    return tuple(dict.fromkeys(backend for family in solving for backend in family.backends))


def can_compile(device: Device) -> bool:
    """Whether a kernel family with an implementation is for the device."""
    return any(family.implementation is not None and family.is_for(device) for family in families(device.backend))


def kernels_for(problem: Problem, device: Device) -> tuple[Kernel, ...]:
    """All kernel families that solve the problem on the device, in table order; there may be none."""
    return tuple(family for family in families(device.backend, problem.type)
                 if family.why_not(problem, device) is None)
