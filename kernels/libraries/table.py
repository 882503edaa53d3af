"""Table of libraries: those of this package, and the libraries in use in this process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from seqtune.errors import KernelError, MisuseError

from ..kernel import Kernel
from ..lookup import resolve
from ..operations.table import OPERATIONS, operation
from ..problem import forget_names
from .library import Library

# A new library of this package is one new folder and one line here.
LIBRARIES: dict[str, str] = {
    "llvm": "seqtune.kernels.llvm.library:LIBRARY",
    "opencl": "seqtune.kernels.opencl.library:LIBRARY",
    "cuda": "seqtune.kernels.cuda.library:LIBRARY",
    "triton": "seqtune.kernels.triton.library:LIBRARY",
    "miopen": "seqtune.integrations.miopen.kernels.library:LIBRARY",
    "gemlite": "seqtune.integrations.gemlite.kernels.library:LIBRARY",
    "clblast": "seqtune.integrations.clblast.kernels.library:LIBRARY",
}
ALWAYS = ("llvm", "opencl", "cuda", "triton", "miopen", "gemlite")  # libraries in use without being named
# The libraries in use, in the order of use; an entry is resolved when it is needed.
IN_USE: dict[str, str | Library] = {name: LIBRARIES[name] for name in ALWAYS}


def library_in_use(name: str) -> Library:
    """The library of this name that is in use. Raises KernelError."""
    entry = IN_USE.get(name)
    if entry is None:
        raise KernelError(f"no library {name!r:.60} is in use (--library names one); there are {', '.join(IN_USE)}")
    return _resolved(entry)


def kernel_in_use(name: str) -> Kernel | None:
    """The kernel of this full name, if a library in use has one; no other library is imported."""
    own = name.partition(".")[0]
    library = library_in_use(own) if own in IN_USE else None
    return library.kernel(name) if library is not None and name in library.table else None


def libraries_in_use() -> Iterator[Library]:
    """All libraries in use, in the order of use."""
    return map(_resolved, list(IN_USE.values()))


def _resolved(entry: str | Library) -> Library:
    return _imported(entry) if isinstance(entry, str) else entry


@cache
def _imported(entry: str) -> Library:
    value = resolve(entry)
    assert isinstance(value, Library)
    return value


def use(new: Library) -> None:
    """Make the kernels and operations of a library known to this process.

    A library of the same name and origin is replaced. Raises MisuseError if a name is
    taken by another library.
    """
    former = None if new.name not in IN_USE else library_in_use(new.name)
    if former is new:
        return
    if former is not None and (new.name in ALWAYS or former.origin != new.origin):
        raise _taken(new, "name", message=f"a library {new.name!r} of {former.origin} is in use already; rename one "
                                          "of the two")
    taken = {name: other for other in libraries_in_use() if other is not former for name in other.operations}
    known = {word: work.name for work in map(operation, OPERATIONS) for word in (work.name, *work.words)
             if former is None or work.name not in former.operations}
    for name in new.operations:
        if name in known:
            owner = taken[name].origin if name in taken else "seqtune"
            raise _taken(new, "operations", name, message=f"the operation {name!r} is declared by {owner} already")
    if former is not None:
        for name in former.operations:
            OPERATIONS.pop(name, None)
        forget_names()  # derived by the replaced operations
    OPERATIONS.update(new.operations)
    IN_USE[new.name] = new


def _taken(library: Library, *path: str, message: str) -> MisuseError:
    """The error for a name that is taken, with its location in the library's document."""
    return MisuseError(f"{library.locate(path) if library.document is not None else library.name}: {message}")
