"""Foreign code: the Python modules in a library's folder, as a package of their own, if they are allowed to run.

A module `stencil_reference` of the library `stencil` is imported as `seqtune_library_stencil.stencil_reference`, so
that modules of two libraries, or of the user's program, never share a name. It may import the files beside it as a
script does (`import helper`), or relatively.

The modules' loader turns `import helper` into an import within the package where the folder has such a module: as for a
script, a module beside the file comes before an installed one of the same name.
"""

from __future__ import annotations

import ast
import importlib
import posixpath
import re
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from seqtune.errors import FormatError

from .files import inside
from .library import Library
from .python_imports import module_file
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


_SUBMODULE = "_imported_submodule"  # a name that the module does not use


class FolderFinder(MetaPathFinder):
    """Finds the modules of libraries' folders, the packages named by `prefix`."""

    def __init__(self, prefix: str, folders: dict[str, Path]) -> None:
        self._prefix, self._folders = prefix, folders

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module with the loader that finds its neighbours; None for other modules."""
        package = fullname.partition(".")[0]
        if not fullname.startswith(self._prefix) or package == fullname or package not in self._folders:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader) and spec.origin is not None:
            spec.loader = _NeighbourLoader(fullname, spec.origin, package, self._folders[package])
        return spec


class _NeighbourLoader(SourceFileLoader):
    """Loads a module whose absolute imports of files beside it, or in the library's folder, are those of its package.

    Compiled files are neither read nor written: they would serve the same file as a script.
    """

    def __init__(self, fullname: str, path: str, package: str, folder: Path) -> None:
        super().__init__(fullname, path)
        self._package, self._folder = package, folder

    def get_code(self, fullname: str) -> CodeType:
        """The module's code, with its imports."""
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        folder = self._folder.resolve()
        beside = Path(path).resolve().parent
        own = beside.relative_to(folder).as_posix() if beside.is_relative_to(folder) else ""
        roots = tuple(dict.fromkeys(("" if own == "." else own, "")))
        tree = ast.fix_missing_locations(_Neighbours(self._package, folder, roots).visit(tree))
        return compile(tree, path, "exec", dont_inherit=True)


class _Neighbours(ast.NodeTransformer):
    """Turns absolute imports of modules in a folder into imports from the package of the folder."""

    def __init__(self, package: str, folder: Path, roots: tuple[str, ...]) -> None:
        self._package, self._folder, self._roots = package, folder, roots

    def _within(self, name: str) -> str | None:
        """The name of a module in the package; None if the folder has no such module."""
        first = name.partition(".")[0]
        for root in self._roots:
            if any(module_file(self._folder, posixpath.join(root, module)) is not None
                   for module in (first, name.replace(".", "/"))):  # a folder of modules need not be a package
                return ".".join([self._package, *filter(None, root.split("/")), name])
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        """`from helper import f` -> `from package.helper import f`."""
        module = self._within(node.module) if node.module and not node.level else None
        return node if module is None else ast.copy_location(ast.ImportFrom(module, node.names, 0), node)

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """`import helper` -> `from package import helper`; a submodule is imported before."""
        statements: list[ast.stmt] = []
        for alias in node.names:
            module = self._within(alias.name)
            if module is None:
                statements.append(ast.Import([alias]))
                continue
            if "." in alias.name and alias.asname is None:  # imports the submodule, and binds the first name
                statements.append(ast.Import([ast.alias(module, _SUBMODULE)]))
                module = module.removesuffix(alias.name.partition(".")[2]).rstrip(".")
            parent, _, last = module.rpartition(".")
            statements.append(ast.ImportFrom(parent, [ast.alias(last, alias.asname or last)], 0))
        return [ast.copy_location(statement, node) for statement in statements]
