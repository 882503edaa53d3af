"""The house as a reader sees it: import arrows drawn from the source files alone, without importing them.

Relative imports are resolved from where a file lies, as editors and indexers do. Absolute imports go through the links
in `seqtune/` and are therefore kept for crossings between floors.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from os.path import commonpath
from pathlib import Path

import pytest

from docs.generate.import_arrows import FLOORS, FRONT, GUESTS, LINKS, PUBLIC, inner_room, sources, statements
from tests.support.paths import ROOT


def name_of(path: Path) -> str:
    """The dotted name by which a file is imported."""
    parts = [*path.with_suffix("").parts]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts if parts[0] == "seqtune" else ["seqtune", *parts])


ALL = (*FLOORS, GUESTS)
# Parts of a guest, a module or a folder each -> the highest floor that they may import; its tables name them.
PARTS = {"kernels": "kernels", "formats": "data", "backend": "tuner", "predictor": "predictor", "hook": "seqtune"}
NAMES = {name_of(path): path for floor in ALL for path in sources(floor)}


def floor_of(name: str) -> str:
    """The floor of a dotted name that begins with seqtune."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LINKS else "seqtune"


def file_of(name: str) -> tuple[str, ...]:
    """The path of a module's file without its suffix, from the root of the repository."""
    return NAMES[name].with_suffix("").parts


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """The modules of seqtune that a file imports, anywhere in it, and the level of each import (0: absolute)."""
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    found: list[tuple[str, int]] = []
    for node in statements(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            found.extend((alias.name, 0) for alias in node.names if alias.name.split(".")[0] == "seqtune")
        elif isinstance(node, ast.ImportFrom):
            home = package.split(".")
            base = ".".join([*home[:len(home) - node.level + 1], *filter(None, [node.module])]) if node.level else (
                node.module or "")
            if base.split(".")[0] == "seqtune":
                for alias in node.names:
                    whole = f"{base}.{alias.name}"
                    found.append((whole if whole in NAMES else base, node.level))
    return tuple(found)


def arrows(floor: str) -> dict[str, set[str]]:
    """Module to module, within one floor."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sources(floor):
        for target, _ in imports(path):
            if floor_of(target) == floor and target in NAMES and target != name_of(path):
                found[name_of(path)].add(target)
    return found


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The modules of one circle in the order of its arrows; empty where there is none."""
    state: dict[str, int] = {}
    trail: list[str] = []

    def visit(node: str) -> list[str]:
        state[node] = 1
        trail.append(node)
        for following in sorted(graph.get(node, ())):
            if state.get(following) == 1:
                return trail[trail.index(following):]
            if following not in state and (found := visit(following)):
                return found
        state[node] = 2
        trail.pop()
        return []

    for node in sorted(graph):
        if node not in state and (found := visit(node)):
            return found
    return []


def is_alias(path: Path) -> bool:
    """Whether a file is a hook under its public name: a docstring and one import."""
    lines = r'""".+"""\n\nfrom seqtune\.integrations\.\w+\.hook[.\w]* import \*  # noqa: F403\n'
    return re.fullmatch(lines, (ROOT / path).read_text()) is not None


@pytest.mark.parametrize("floor", FLOORS)
def test_no_arrow_runs_up(floor: str) -> None:
    above = (*FLOORS[FLOORS.index(floor) + 1:], GUESTS)
    wrong = [f"{path} imports {target}" for path in sources(floor) for target, _ in imports(path)
             if floor_of(target) in above and tuple(target.split(".")) not in FRONT and not is_alias(path)]
    assert sources(floor)
    assert not wrong


@pytest.mark.parametrize("floor", ALL)
def test_imports_are_relative_within_a_floor_and_absolute_across(floor: str) -> None:
    wrong = [f"{path}: {target}" for path in sources(floor) for target, level in imports(path)
             if (floor_of(target) == floor) != bool(level)]
    assert not wrong


@pytest.mark.parametrize("floor", ALL)
def test_every_floor_shows_its_arrows_and_no_circle(floor: str) -> None:
    graph = arrows(floor)
    for path in sources(floor):  # a package's own __init__ passes names on; that is no dependency of its modules
        if path.name == "__init__.py":
            graph.pop(name_of(path), None)
    assert len(graph) >= len(sources(floor)) / 3 or floor == GUESTS
    assert circle(graph) == []


@pytest.mark.parametrize("floor", ALL)
def test_strings_in_tables_point_down_too(floor: str) -> None:
    for path in sources(floor):
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
                module = node.value.partition(":")[0]
                if module.startswith("seqtune.") and module in NAMES:
                    assert highest(module) in up_to(highest(name_of(path))), f"{path}: {node.value}"


def highest(name: str) -> str:
    """The highest floor that a module may import: its own, or that of its part of a guest."""
    return PARTS[name.split(".")[3]] if floor_of(name) == GUESTS else floor_of(name)


def up_to(floor: str) -> tuple[str, ...]:
    """A floor and those below it."""
    return FLOORS[:FLOORS.index(floor) + 1]


def test_a_guest_is_a_folder_of_known_parts_and_a_line_of_the_page() -> None:
    page = (ROOT / GUESTS / "README.md").read_text()
    folders = sorted({path.parts[1] for path in sources(GUESTS) if len(path.parts) > 2})
    assert re.findall(r"^\| `(\w+)/` \|", page, re.M) == folders
    for folder in folders:
        assert (ROOT / GUESTS / folder / "__init__.py").read_text() == ""
    parts = {path.with_suffix("").parts[2] for path in sources(GUESTS) if len(path.parts) > 2}
    assert parts <= {"__init__", *PARTS}


def test_a_part_of_a_guest_imports_no_floor_above_its_table_and_no_other_guest() -> None:
    wrong = []
    for path in sources(GUESTS):
        for target, _ in imports(path):
            other = floor_of(target) == GUESTS and target.split(".")[2] != path.parts[1]
            if other or (highest(target) not in up_to(highest(name_of(path))) and file_of(target) not in FRONT):
                wrong.append(f"{path} imports {target}")
    assert wrong == []


@pytest.mark.parametrize("floor", ALL)
def test_what_stands_in_a_folder_forms_no_circle_at_any_depth(floor: str) -> None:
    """The modules and folders inside one folder; what a folder's modules import counts for the folder."""
    inside: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))  # by folder
    for module, targets in arrows(floor).items():
        if NAMES[module].name != "__init__.py":
            for target in targets:
                folder = commonpath([NAMES[module], NAMES[target]])
                importer, imported = (path.relative_to(folder).parts[0] for path in (NAMES[module], NAMES[target]))
                inside[folder][importer].add(imported)
    assert {folder: found for folder, graph in inside.items() if (found := circle(graph))} == {}


def crossings(floor: str) -> list[tuple[Path, tuple[str, ...]]]:
    """The files of a floor with each module of another floor that they import, `seqtune.errors` left out."""
    return [(path, file_of(target)) for path in sources(floor) for target, _ in imports(path)
            if floor_of(target) not in (floor, GUESTS) and file_of(target) not in FRONT]


@pytest.mark.parametrize("floor", ALL)
def test_a_floor_imports_only_the_public_rooms_of_others(floor: str) -> None:
    wrong = [f"{path} imports {'/'.join(target)}" for path, target in crossings(floor)
             if inner_room(target) not in PUBLIC[target[0]]]
    assert wrong == []


def test_every_public_room_is_imported_by_another_floor() -> None:
    imported = {(target[0], inner_room(target)) for floor in ALL for _, target in crossings(floor)}
    assert [(floor, room) for floor, rooms in PUBLIC.items() for room in rooms if (floor, room) not in imported] == []


@pytest.mark.parametrize("floor", ALL)
def test_no_floor_imports_a_private_name_of_another(floor: str) -> None:
    wrong = []
    for path in sources(floor):
        for node in statements(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("seqtune"):
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                wrong += [f"{path}: {name}" for name in names if name.startswith("_") and not name.endswith("__")]
    assert wrong == []


@pytest.mark.parametrize("floor", sorted(LINKS))
def test_the_tests_of_a_module_stand_in_its_folder_or_in_one_above(floor: str) -> None:
    modules: dict[str, list[Path]] = defaultdict(list)  # folders by the name of a module in them
    for path in sources(floor):
        modules[path.stem].append(path.parent)
    tests: dict[Path, list[Path]] = defaultdict(list)  # files of tests by the folder of the floor that they test
    for path in (ROOT / "tests" / floor).rglob("test_*.py"):
        tests[path.parent.relative_to(ROOT / "tests")].append(path.relative_to(ROOT))
    assert tests
    alone = 1 if floor != GUESTS else 0  # a folder of one file; the tests of a guest stand in its folder
    assert [folder for folder, files in tests.items() if not (ROOT / folder).is_dir() or len(files) == alone] == []
    for folder, files in tests.items():
        for path in files:
            homes = [home for home in modules.get(path.stem.removeprefix("test_"), [])
                     if floor != GUESTS or home.parts[1] == path.parts[2]]
            assert not homes or any(home.is_relative_to(folder) for home in homes), f"{path} tests {homes}"


def test_no_module_of_the_front_has_the_name_of_a_public_function() -> None:
    """Importing it would overwrite the function."""
    import seqtune

    assert {path.stem for path in sources("seqtune") if len(path.parts) == 2} & set(seqtune.__all__) == set()
