"""Python imports: the files of a library's folder that a Python file imports, found by its syntax and never executed.

As for a script, a module beside the file comes before an installed one of the same name.
"""

from __future__ import annotations

import ast
import posixpath
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path

from .files import is_file_inside

_IMPORTING = ("import_module", "__import__")  # calls whose first argument may name a module
_DYNAMIC = (*_IMPORTING, "run_path", "run_module", "exec", "spec_from_file_location")


@dataclass(frozen=True, slots=True)
class Imports:
    """The paths in the folder that a Python file imports, and the functions and lists by which only running tells."""

    paths: tuple[str, ...]
    dynamic: tuple[str, ...] = ()


def imports_of(text: str, path: str, folder: Path, roots: tuple[str, ...]) -> Imports:
    """The imports of a Python source at a path in the folder; `roots` are the folders in it where modules are sought.

    Raises SyntaxError, ValueError, RecursionError, MemoryError, as `ast.parse` does.
    """
    paths: dict[str, None] = {}
    dynamic: dict[str, None] = {}
    for node in ast.walk(ast.parse(text)):
        modules = _imported_modules(node)
        for module in modules:
            paths.update(dict.fromkeys(_files_of(module, path, folder, roots)))
        if not modules and _is_dynamic(node):
            dynamic[_called(node)] = None
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path":
            dynamic["sys.path"] = None
    return Imports(tuple(paths), tuple(dynamic))


def _imported_modules(node: ast.AST) -> list[str]:
    """The modules that a node names and imports, or may import: `from a import b` imports a.b if it is a module."""
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=module, names=aliases, level=level):
            package = "." * level + (f"{module}." if module else "")
            return [package + alias.name for alias in aliases]
        case ast.Call(args=[ast.Constant(value=str() as name), *_]) if _called(node) in _IMPORTING:
            return [name]
    return []


def _is_dynamic(node: ast.AST) -> bool:
    """Whether a node calls what may import any module; a method `exec` does not."""
    name = _called(node)
    return name in _DYNAMIC and not (name == "exec" and isinstance(getattr(node, "func", None), ast.Attribute))


def _called(node: ast.AST) -> str:
    """The last name of the function that a node calls; empty for other nodes."""
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
    return ""


def _files_of(module: str, path: str, folder: Path, roots: tuple[str, ...]) -> list[str]:
    """The files of a module and of the packages around it, in the first root that has some; none of other modules.

    A relative name (`..helper`) is sought in a folder above the importing file at `path` alone.
    """
    name = module.lstrip(".")
    if level := len(module) - len(name):
        roots = ("/".join(path.split("/")[:-level]),)
    for root in roots:
        parts = islice(accumulate(name.split("."), posixpath.join, initial=root), 1, None)  # a, a/b, a/b/c of a.b.c
        files = [file for part in parts if (file := module_file(folder, part)) is not None]
        if files:
            return files
    return []


def module_file(folder: Path, part: str) -> str | None:
    """The file of a module or package from its path without an ending; None if the folder has no such file."""
    return next((name for name in (f"{part}.py", f"{part}/__init__.py") if is_file_inside(folder, name)), None)
