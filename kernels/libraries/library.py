"""Library: kernels that belong together with the operations that they solve, wherever they come from.

A library written in Python names its kernels and operations as `module:attribute` and is resolved when it is asked for,
so looking up one library imports no other. A library read from a document holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.errors import KernelError, MisuseError

from ..kernel import Kernel
from ..lookup import resolve
from ..operations.operation import Operation

if TYPE_CHECKING:
    from .document import LibraryDocument

Kernels = Mapping[str, str | Kernel]
Operations = Mapping[str, str | Operation]


@dataclass(frozen=True, eq=False)
class Library:
    """A library: its kernels by their full names (`library.kernel`), and the operations that it declares by name."""

    name: str
    kernels: Kernels | str  # each a Kernel or "module:attribute"; a text names a mapping of them
    operations: Operations = field(default_factory=dict)
    meaning: str = ""
    backends: tuple[str, ...] = ()  # that its kernels may run on; empty: each kernel says so itself
    runs: bool = True  # False: another program runs its kernels, which are only predicted here
    alone: bool = False  # in use, it replaces other libraries' kernels for the operations that it solves
    checkpoint: str | None = None  # name or folder of the checkpoint that answers for its kernels
    folder: Path | None = None  # of its files
    document: LibraryDocument | None = None  # that declares it, where one does
    own_modules: bool = False  # whether its code is in modules of its folder
    code: Mapping[str, str] = field(default_factory=dict)  # operation or kernel -> place that names code
    allowed: bool = True  # whether that code and those commands may run
    place: Callable[[tuple[str | int, ...]], str] = str  # where in its file a part of its document is
    origin: str = "seqtune"  # where it comes from, for people: a path, a distribution

    @property
    def table(self) -> Kernels:
        """The kernels by their full names: each a Kernel, or "module:attribute"."""
        if not isinstance(self.kernels, str):
            return self.kernels
        table = resolve(self.kernels)
        assert isinstance(table, Mapping)
        return table

    def kernel(self, name: str) -> Kernel:
        """The kernel of this full name. Raises KernelError."""
        entry = self.table.get(name)
        if entry is None:
            raise KernelError(f"no kernel {name!r:.60}; there are {', '.join(self.table)} (seqtune kernels lists them)")
        kernel = resolve(entry) if isinstance(entry, str) else entry
        assert isinstance(kernel, Kernel)
        return kernel

    def check_allowed(self, kernel: Kernel) -> None:
        """Check that the code and commands that running this kernel takes may run. Raises MisuseError."""
        place = next((self.code[name] for name in (kernel.name, kernel.operation) if name in self.code), None)
        if place is not None and not self.allowed:
            raise MisuseError(f"{place} runs code of the library {self.name}; if you trust it, add --allow-commands")

    def may_run_on(self, backend: str) -> bool:
        """Whether a kernel of the library may run on the backend, judged without resolving its kernels."""
        return not self.backends or backend in self.backends
