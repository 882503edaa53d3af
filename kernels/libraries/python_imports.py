"""Python imports: the files of a library's folder that a Python file imports, found by its syntax and never executed.

As for a script, a module beside the file comes before an installed one of the same name. The modules in a library's
folder belong to a package of their own, so their loader turns `import helper` into an import within this package.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from seqtune.errors import FormatError

from .files import exists_inside

_DYNAMIC = ("import_module", "__import__", "run_path", "run_module", "exec", "spec_from_file_location")

_SUBMODULE = "_imported_submodule"  # a name that the module does not use


@dataclass(frozen=True, slots=True)
class Imports:
    """The paths in the folder that a Python file imports, and the calls that import what only running tells."""

    paths: tuple[str, ...]
    calls: tuple[str, ...] = ()


def imports_of(text: str, path: str, folder: Path, roots: tuple[str, ...]) -> Imports:
    """The imports of a Python source at a path in the folder; `roots` are the folders in it where modules are sought.

    Raises SyntaxError, ValueError, RecursionError, MemoryError, as `ast.parse` does.
    """
    paths: dict[str, None] = {}
    calls: dict[str, None] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                paths.update(dict.fromkeys(_found(folder, roots, alias.name.split("."))))
        elif isinstance(node, ast.ImportFrom):
            places = roots if not node.level else (_above(path, node.level),)
            module = node.module.split(".") if node.module else []
            for alias in node.names:
                paths.update(dict.fromkeys(_found(folder, places, [*module, alias.name])))
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0] if node.args else None
            if name in ("import_module", "__import__") and isinstance(first, ast.Constant) and isinstance(
                    first.value, str):
                word = first.value
                places = (_above(path, len(word) - len(word.lstrip("."))),) if word.startswith(".") else roots
                paths.update(dict.fromkeys(_found(folder, places, word.lstrip(".").split("."))))
            elif name in _DYNAMIC and not (name == "exec" and isinstance(node.func, ast.Attribute)):
                calls[name] = None
    return Imports(tuple(paths), tuple(calls))


def _above(path: str, level: int) -> str:
    """The folder that a relative import of this level begins from."""
    parts = path.split("/")[:-level]
    return "/".join(parts)


def _found(folder: Path, roots: tuple[str, ...], words: list[str]) -> Iterator[str]:
    """The files of a dotted name, with those of the packages around it; nothing of a name that is not in the folder."""
    for root in roots:
        place, files = root, list[str]()
        for word in words:
            place = f"{place}/{word}" if place else word
            file = module_file(folder, place)
            if file is None:
                if not _is_folder(folder, place):
                    break
            else:
                files.append(file)
        if files:
            yield from files
            return


def module_file(folder: Path, place: str) -> str | None:
    """The file of a module or package at a place in the folder; None if there is none."""
    return next((name for name in (f"{place}.py", f"{place}/__init__.py") if _is_there(folder, name)), None)


def _is_there(folder: Path, name: str) -> bool:
    try:
        return exists_inside(folder, name) and (folder / name).is_file()
    except FormatError:  # it leads out of the folder
        return False


def _is_folder(folder: Path, name: str) -> bool:
    try:
        return exists_inside(folder, name) and (folder / name).is_dir()
    except FormatError:
        return False


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
        """The name of a module's place in the package; None if the folder has no such module."""
        first = name.partition(".")[0]
        for root in self._roots:
            if any(module_file(self._folder, f"{root}/{place}" if root else place) is not None
                   for place in (first, name.replace(".", "/"))):  # a folder of modules need not be a package
                return ".".join([self._package, *filter(None, root.split("/")), name])
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        """`from helper import f` -> `from package.helper import f`."""
        place = self._within(node.module) if node.module and not node.level else None
        return node if place is None else ast.copy_location(ast.ImportFrom(place, node.names, 0), node)

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """`import helper` -> `from package import helper`; a submodule is imported before."""
        statements: list[ast.stmt] = []
        for alias in node.names:
            place = self._within(alias.name)
            if place is None:
                statements.append(ast.Import([alias]))
                continue
            if "." in alias.name and alias.asname is None:  # imports the submodule, and binds the first name
                statements.append(ast.Import([ast.alias(place, _SUBMODULE)]))
                place = place.removesuffix(alias.name.partition(".")[2]).rstrip(".")
            parent, _, last = place.rpartition(".")
            statements.append(ast.ImportFrom(parent, [ast.alias(last, alias.asname or last)], 0))
        return [ast.copy_location(statement, node) for statement in statements]

