"""Lists: the devices of this machine, the libraries of kernels, and the kernel families with their declarations."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from seqtune.kernels import registry
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.launches.implementation import includes
from seqtune.kernels.libraries.table import LIBRARIES, libraries_in_use
from seqtune.kernels.registry import is_registered, kernel, names
from seqtune.tuner.backends import discovery
from seqtune.tuner.backends.measured_rates import doubt

from ..errors import MisuseError
from .library import own_library
from .results import Devices


def devices(described: bool = False) -> Devices:
    """Every device of this machine, and why backends are unavailable; with `described`, also those of the tables."""
    from seqtune.data.shipped_machines import is_new_cpu

    seen: dict[str, int] = {}
    listed = []
    for device in discovery.devices():
        number = seen.get(device.backend, 0)
        seen[device.backend] = number + 1
        listed.append((f"{device.backend}:{number}", device))
    return Devices(tuple(listed), discovery.why_unavailable(), tuple(discovery.described()) if described else (),
                   is_new_cpu(device for _, device in listed), doubt())


@dataclass(frozen=True, slots=True)
class ListedLibrary:
    """A library that is in use or can be named: ours, or an installed one."""

    name: str
    origin: str  # where it comes from
    in_use: bool
    kernels: tuple[str, ...]  # their names; of an installed library that is not in use, they are not known

    def to_json(self) -> dict[str, object]:
        """A flat JSON object."""
        return {"name": self.name, "origin": self.origin, "in_use": self.in_use, "kernels": list(self.kernels)}


def libraries() -> tuple[ListedLibrary, ...]:
    """The libraries in use, then those that can be named (--library). Code of other packages is not imported."""
    from seqtune.kernels.libraries.installed import installed_names  # its imports take 20 ms

    used = [ListedLibrary(library.name, library.origin, True, tuple(library.table)) for library in libraries_in_use()]
    used_names = {library.name for library in used}
    ours = [ListedLibrary(name, "seqtune", False, tuple(own_library(name).table))
            for name in LIBRARIES if name not in used_names]
    return (*used, *ours, *(ListedLibrary(name, origin, False, ()) for name, origin in installed_names().items()
                            if name not in {*used_names, *LIBRARIES}))


def kernels(*named: str | Path) -> tuple[Kernel, ...]:
    """The registered kernel families of these names, those that one file declares, or all registered ones.

    A registered name wins over a file of that name. Raises FormatError, KernelError, MisuseError.
    """
    wanted = tuple(dict.fromkeys(map(str, named))) or names()
    unknown = next((name for name in wanted if not is_registered(name)), None)
    if unknown is None:
        return tuple(kernel(name) for name in wanted)
    if len(wanted) > 1:
        raise MisuseError(f"no kernel family {unknown!r:.60}; one file of kernels is read at a time, without families")
    if not os.path.exists(unknown):
        raise MisuseError(f"no kernel family and no file {unknown!r:.200} (seqtune kernels lists the families)")
    from seqtune.kernels.declaration import read_kernels

    return read_kernels(unknown)


def kernel_json(family: Kernel) -> dict[str, object]:
    """A kernel family as a JSON object, with what its times include."""
    from seqtune.kernels.declaration import to_json

    return {**to_json(family), "includes": included(family)}


def included(family: Kernel) -> str | None:
    """The work that the times of a kernel family include, None if it has no code; forbidden code is not asked."""
    try:
        registry.check_allowed(family)
    except MisuseError:
        return "what its code says (--allow-commands)"
    return includes(family)
