"""Import arrows of the package, read from the source files without importing them.

A *floor* is one of the six top folders, a *room* is a folder inside a floor (or the floor itself, for the modules that
stand directly in it). Relative imports are resolved from where a file lies, as editors and indexers do.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("kernels", "data", "tuner", "predictor", "networks", "seqtune")  # each may import itself and those before it
GUESTS = "integrations"  # a folder for each foreign tool, beside the floors, which know it by strings in tables only
FRONT = {("seqtune", "errors")}  # modules of the top floor that every floor may import
LINKS = frozenset((*FLOORS[:-1], GUESTS))  # links in seqtune/ to the folders of the same name

# Rooms of each floor that the floors above it and guests may import: modules that stand directly in the floor, and
# folders, which do not include the folders inside them. All other rooms are private to their floor.
PUBLIC = {
    "kernels": (
        "arithmetic", "c_text", "combinations", "declaration", "devices", "enumeration", "expression", "files",
        "kernel", "launches", "libraries", "libraries/t1", "linting", "llvm", "llvm/text", "lookup",
        "membership", "operations", "own_folders", "problem", "problem_sets", "registry",
        "resource_usage", "row_index", "say", "space", "spaces", "task", "triton", "version"),
    "data": (
        "builds", "chosen_tasks", "csv_file", "dataset", "device_times", "formats", "gpu_names", "journal",
        "json_content", "machines", "measured_tasks", "parquet_file", "provenance", "record", "shipped_machines",
        "unpacking"),
    "tuner": (
        "backends", "backends/llvm", "backends/opencl", "backends/triton", "building",
        "compile_check", "cost_models", "fleet", "fleet/on_ray", "load", "measuring", "memory_check", "processes",
        "remembered", "run", "machine_state", "stop_request", "strategies", "task_verdict"),
    "predictor": (
        "answering", "c_source", "candidate", "checkpoint", "checkpoint_folder", "confidence",
        "correction", "dispatch", "labels", "learning", "learning/tasks", "predictors", "pretrained", "sequence",
        "training", "translator", "trees"),
    "networks": (
        "capture", "compiled", "compiler", "explanation", "nodes", "optimized", "parts",
        "peer_comparison", "peer_graph", "plan", "program", "selection"),
    "seqtune": ("api", "hooks"),
}

Module = tuple[str, ...]  # ("kernels", "llvm", "direct"): the path of a file without its suffix


def sources(floor: str) -> list[Path]:
    """Python files of a floor, relative to the root; links are not followed."""
    files = (path.relative_to(ROOT) for path in (ROOT / floor).rglob("*.py"))
    return sorted(path for path in files if "__pycache__" not in path.parts
                  and not (floor == "seqtune" and path.parts[1] in LINKS))


def modules() -> dict[Module, Path]:
    """Every module of the package with its file."""
    return {path.with_suffix("").parts: path for floor in FLOORS for path in sources(floor)}


def imports(path: Path, known: dict[Module, Path]) -> Iterator[Module]:
    """Modules of the package that a file imports, anywhere in it."""
    for node in statements(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            bases: list[tuple[Module, Module]] = [(_absolute(alias.name), ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folder = path.parts[:len(path.parts) - node.level]
            base = (*folder, *(node.module or "").split(".")) if node.level else _absolute(node.module or "")
            bases = [(tuple(filter(None, base)), (alias.name,)) for alias in node.names]
        else:
            continue
        for base, name in bases:
            target = next((module for module in (base + name, base, (*base, "__init__")) if module in known), None)
            if target is not None and target != path.with_suffix("").parts:
                yield target


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """A module, its statements and all those inside them; expressions, which cannot hold an import, are not visited."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes.extend(getattr(node, field, ()))


def _absolute(dotted: str) -> Module:
    """`seqtune.kernels.devices.device` -> ("kernels", "devices", "device"); names outside the package give ()."""
    parts = tuple(dotted.split("."))
    if parts[0] != "seqtune":
        return ()
    return parts[1:] if len(parts) > 1 and parts[1] in LINKS else parts


def room(module: Module) -> Module:
    """The folder in which a module stands, two levels deep at most."""
    return module[:-1][:2]


def inner_room(module: Module) -> str:
    """The room of a module within its floor, as `PUBLIC` writes it: its folder, or itself directly in the floor."""
    return "/".join(module[1:-1] or module[1:])


def between_rooms() -> Counter[tuple[Module, Module]]:
    """How many imports lead from each room to each other room; those of `seqtune.errors` are left out."""
    known = modules()
    count: Counter[tuple[Module, Module]] = Counter()
    for module, path in known.items():
        if module[-1] != "__init__":  # a package passes names on; that is no dependency of its modules
            count.update((room(module), room(target)) for target in imports(path, known)
                         if room(module) != room(target) and target not in FRONT)
    return count
