"""Libraries of kernels from outside: finds one by name, file or object, and makes its kernels known to this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.kernels.libraries.foreign_code import use_with_modules
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.table import IN_USE, LIBRARIES, library_in_use
from seqtune.kernels.lookup import resolve

from ..errors import MisuseError

if TYPE_CHECKING:
    from seqtune.kernels.libraries.document import LibraryDocument


def read_library(path: str | Path) -> Library:
    """Read a library from a TOML file, or from the `library.toml` of a folder, for a package that trusts its own file.

    Its Python modules are in the file's folder; they and its commands may run. Raises FormatError.
    """
    from seqtune.kernels.libraries.reading import read_library

    return read_library(path, allowed=True)


def use_library(library: str | Path | Library | LibraryDocument, *, folder: str | Path | None = None,
                allow_commands: bool = False) -> Library:
    """Make the kernels and operations of a library known to this process, and return the library.

    `library` is a TOML file or a folder with a `library.toml`, the name of one of our libraries or of an installed one,
    or an object: a Library, or a LibraryDocument with the `folder` of its files. Code and commands that a file names
    run only with `allow_commands`. Raises MisuseError, or FormatError with the line and column of a mistake.
    """
    new = _library(library, None if folder is None else Path(folder), allow_commands)
    use_with_modules(new)
    return new


def own_library(name: str) -> Library:
    """One of our libraries by its name."""
    library = resolve(LIBRARIES[name])
    assert isinstance(library, Library)
    return library


def _library(library: str | Path | Library | LibraryDocument, folder: Path | None, allowed: bool) -> Library:
    if isinstance(library, Library):
        return library
    if not isinstance(library, str | Path):
        from seqtune.kernels.libraries.declared_library import declared_library

        return declared_library(library, folder)
    name = str(library)
    if name in IN_USE:
        return library_in_use(name)
    if name in LIBRARIES:
        return own_library(name)
    if is_path(name):
        from seqtune.kernels.libraries.reading import read_library

        return read_library(name, allowed)
    from seqtune.kernels.libraries.installed import installed_library

    installed = installed_library(name)
    if installed is None:
        raise MisuseError(f"no library {name!r:.200}: no such file, and no package with such a library is installed "
                          f"(seqtune kernels lists them)")
    return installed


def is_path(name: str) -> bool:
    """Whether a text names a file or folder rather than a library."""
    try:
        return Path(name).suffix in (".toml", ".json") or "/" in name or Path(name).exists()
    except (OSError, ValueError):  # a name too long for a file, or with a NUL
        return False
