"""Library: a set of kernels with the operations that they solve, from this package, another package or a file.

A library written in Python names its kernels and operations as `module:attribute` and its kernels are imported when
they are looked up, so a look-up imports no other library. One that lists them by operation does not import those of
other operations, either. A library read from a document holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.errors import KernelError, MisuseError

from ..kernel import Kernel
from ..lookup import resolve
from ..operations.operation import Operation

if TYPE_CHECKING:
    from .document import LibraryDocument
    from .fault import KeyPath

Kernels = Mapping[str, str | Kernel]
Operations = Mapping[str, str | Operation]


@dataclass(frozen=True, eq=False)
class Library:
    """A library: its kernels by their full names (`library.kernel`), and the operations that it declares by name."""

    name: str
    kernels: Kernels | str  # each a Kernel or "module:attribute"; a text names a mapping of them
    operations: Operations = field(default_factory=dict)
    meaning: str = ""
    backends: tuple[str, ...] = ()  # where its kernels may run; empty: each kernel names its own
    runs: bool = True  # False: another program runs its kernels, which are only predicted here
    alone: bool = False  # while in use, replaces other libraries' kernels for the operations that it solves
    checkpoint: str | None = None  # name or folder of the checkpoint that answers for its kernels
    folder: Path | None = None  # holds the library's files
    document: LibraryDocument | None = None  # its declaration; None: declared in Python
    own_modules: bool = False  # whether its code is in modules of its folder
    code: Mapping[str, str] = field(default_factory=dict)  # operation or kernel -> the entry that names code
    # operation or kernel -> (path in its part of the document, message): what may read files that its version lacks
    unfollowed: Mapping[str, Sequence[tuple[KeyPath, str]]] = field(default_factory=dict)
    allowed: bool = True  # whether that code and those commands may run
    locate: Callable[[KeyPath], str] = str  # gives the location of a part of the document in its file
    origin: str = "seqtune"  # its source in messages: a path, a distribution
    solved: Mapping[str, str] = field(default_factory=dict)  # kernel -> its operation, where its table tells

    @classmethod
    def by_operation(cls, name: str, kernels: Mapping[str, Mapping[str, str]], meaning: str,
                     backends: tuple[str, ...]) -> Library:
        """A library whose table tells the operation of each kernel: operation -> kernel -> "module:attribute"."""
        return cls(name, {full: entry for own in kernels.values() for full, entry in own.items()}, meaning=meaning,
                   solved={full: operation for operation, own in kernels.items() for full in own}, backends=backends)

    @property
    def table(self) -> Kernels:
        """The kernels by their full names: each a Kernel, or "module:attribute"."""
        if not isinstance(self.kernels, str):
            return self.kernels
        return _table(self.kernels)

    def kernel(self, name: str) -> Kernel:
        """The kernel of this full name. Raises KernelError."""
        entry = self.table.get(name)
        if entry is None:
            raise KernelError(f"no kernel {name!r:.60}; there are {', '.join(self.table)} (seqtune kernels lists them)")
        return _kernel(entry) if isinstance(entry, str) else entry

    def may_solve(self, name: str, operation: str) -> bool:
        """Whether a kernel may solve problems of the operation; no kernel is resolved to find out."""
        return self.solved.get(name, operation) == operation

    def check_allowed(self, kernel: Kernel) -> None:
        """Check that the code and commands that this kernel needs may run. Raises MisuseError."""
        entry = next((self.code[name] for name in (kernel.name, kernel.operation) if name in self.code), None)
        if entry is not None and not self.allowed:
            raise MisuseError(f"{entry} runs code of the library {self.name}; if you trust it, add --allow-commands")

    def may_run_on(self, backend: str) -> bool:
        """Whether a kernel of the library may run on the backend; no kernel is resolved to find out."""
        return not self.backends or backend in self.backends


# A library's own modules may be replaced in a process; those of this package are imported once.
@cache
def _table(reference: str) -> Mapping[str, str | Kernel]:
    table = resolve(reference)
    assert isinstance(table, Mapping)
    return table


def _kernel(reference: str) -> Kernel:
    return _own_kernel(reference) if reference.startswith("seqtune.") else _imported(reference)


def _imported(reference: str) -> Kernel:
    kernel = resolve(reference)
    assert isinstance(kernel, Kernel)
    return kernel


_own_kernel = cache(_imported)
