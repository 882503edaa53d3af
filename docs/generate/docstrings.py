"""Public names without a docstring. Read from the sources, so nothing heavy is imported."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

PUBLIC = ("seqtune", "seqtune.errors", "seqtune.figures", "seqtune.integrations.huggingface.hook",
          "seqtune.integrations.kernel_tuner.hook.strategy", "seqtune.integrations.pytorch.hook")


def missing() -> list[str]:
    """List `module.name` of every class, function, method or property of the PUBLIC modules without a docstring."""
    undocumented: list[str] = []
    for module in PUBLIC:
        path = _file(module)
        if path is not None:
            undocumented += _undocumented(module, path)
    return undocumented


def _file(module: str) -> Path | None:
    """The file of a module, None if there is none. The packages that hold it are not imported."""
    package, *names = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    if names:
        folder = path.parent.joinpath(*names)
        path = folder / "__init__.py" if folder.is_dir() else folder.with_name(f"{names[-1]}.py")
    return path if path.is_file() else None


def _undocumented(module: str, path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    if ast.get_docstring(tree) is None:
        yield module
    names = _exported(tree)
    for name in names or [node.name for node in _definitions(tree) if not node.name.startswith("_")]:
        node = _find(module, path, tree, name)
        if node is not None:
            yield from (f"{module}.{inner}" for inner in _without(node))


def _exported(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return [name for name in ast.literal_eval(node.value) if not name.startswith("__")]
    return []


_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(node: ast.Module | ast.ClassDef) -> list[_Definition]:
    return [child for child in node.body if isinstance(child, _Definition)]


def _find(module: str, path: Path, tree: ast.Module, name: str) -> _Definition | None:
    """The definition of a public name, in this file or in the one from which it is imported."""
    for node in _definitions(tree):
        if node.name == name:
            return node
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ImportFrom) and any(alias.name == name for alias in statement.names):
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            target = importlib.util.resolve_name("." * statement.level + (statement.module or ""), package)
            file = _file(target)
            if file is not None:
                return _find(target, file, ast.parse(file.read_text()), name)
    return None


def _without(node: _Definition) -> Iterator[str]:
    if ast.get_docstring(node) is None:
        yield node.name
    if isinstance(node, ast.ClassDef):
        for member in _definitions(node):
            if not member.name.startswith("_") and ast.get_docstring(member) is None:
                yield f"{node.name}.{member.name}"
