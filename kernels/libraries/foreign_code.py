"""Foreign code: the Python modules in a library's folder, as a package of their own, if they are allowed to run.

A module `stencil_reference` of the library `stencil` is imported as `seqtune_library_stencil.stencil_reference`, so
that modules of two libraries, or of the user's program, never share a name. It may import the files beside it as a
script does (`import helper`), or relatively.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

from seqtune.errors import FormatError

from .files import inside
from .folder_finder import FolderFinder
from .library import Library
from .table import use

_REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", re.ASCII)

_PREFIX = "seqtune_library_"
_FOLDERS: dict[str, Path] = {}  # package -> the folder of its modules


def package_of(library: str) -> str:
    """The name of the package of a library's modules."""
    return _PREFIX + library.replace("-", "__")


def reference_in(library: str, folder: Path, text: str) -> tuple[str, Path]:
    """The importable form of `module:attribute` in a library's folder, and the module's file. Raises FormatError."""
    module, _ = _parts(text)
    file = inside(folder, module.replace(".", "/") + ".py")
    return f"{package_of(library)}.{text}", file


def check_reference(text: str) -> str:
    """Check that a text has the form `module:attribute`, and return it. Raises FormatError."""
    _parts(text)
    return text


def _parts(text: str) -> tuple[str, str]:
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise FormatError(f"{text!r:.80} is not module:attribute")
    return match[1], match[2]


def offer(library: str, folder: Path) -> None:
    """Make the modules of a folder importable in the library's package; modules imported before are forgotten."""
    name = package_of(library)
    for module in [module for module in sys.modules if module == name or module.startswith(name + ".")]:
        del sys.modules[module]
    package = ModuleType(name, f"The modules of the library {library}.")
    package.__path__ = [str(folder)]
    sys.modules[name] = package
    if not _FOLDERS:
        sys.meta_path.insert(0, FolderFinder(_PREFIX, _FOLDERS))
    _FOLDERS[name] = folder
    importlib.invalidate_caches()


def use_with_modules(library: Library) -> None:
    """Use a library, and make its folder's modules importable if they are allowed to run. Raises MisuseError."""
    use(library)
    if library.own_modules and library.allowed and library.folder is not None:
        offer(library.name, library.folder)
