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
    """The names of the kernel families that run on a backend, library by library.

    No family of a library for another backend is imported. A library that is compared with no other one leaves out
    their families for its operations.
    """
    libraries = _libraries_for(backend)
    taken = {library.kernel(name).operation for library in libraries if library.alone for name in library.table}
    return tuple(name for library in libraries for name in library.table
                 if backend in (family := library.kernel(name)).backends
                 and (library.alone or family.operation not in taken))


def _libraries_for(backend: str) -> list[Library]:
    return [library for library in libraries_in_use() if library.may_run_on(backend)]


def kernel(name: str) -> Kernel:
    """The kernel family of this name. Raises KernelError."""
    home = name.partition(".")[0]
    if home in IN_USE:
        return library_in_use(home).kernel(name)
    raise KernelError(f"no kernel {name!r:.60}; there are {', '.join(names())}; name its library with --library")


def is_registered(name: str) -> bool:
    """Whether `kernel` finds a family of this name."""
    home = name.partition(".")[0]
    return home in IN_USE and name in library_in_use(home).table


def check_allowed(family: Kernel) -> None:
    """Check that the code that running the family takes may run: its own, and its operation's. Raises MisuseError."""
    home = family.name.partition(".")[0]
    for library in libraries_in_use():
        if library.name == home or family.operation in library.operations:
            library.check_allowed(family)


def can_run(backend: str) -> bool:
    """Whether a kernel family of the backend has an implementation; other families are predicted for only."""
    return any(family.implementation is not None for library in _libraries_for(backend) if library.runs
               for name in library.table if backend in (family := library.kernel(name)).backends)


def backends_for(operation: str) -> tuple[str, ...]:
    """The backends of the kernel families that run here and solve problems of an operation, in table order."""
    families = (family for family in map(kernel, names()) if family.operation == operation)
    return tuple(dict.fromkeys(backend for family in families for backend in family.backends))


def can_compile(device: Device) -> bool:
    """Whether a kernel family with an implementation is for the device."""
    families = map(kernel, table(device.backend))
    return any(family.implementation is not None and family.is_for(device) for family in families)


def kernels_for(problem: Problem, device: Device) -> tuple[Kernel, ...]:
    """All kernel families that solve the problem on the device, in table order; there may be none."""
    candidates = [kernel(name) for name in table(device.backend)]
    return tuple(family for family in candidates if family.why_not(problem, device) is None)
