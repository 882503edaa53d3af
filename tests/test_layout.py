"""The house: imports point down, nothing heavy is loaded unasked, and the wheel carries every folder."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("kernels", "data", "tuner", "predictor")  # each may import itself and what stands before it
# the modules of seqtune itself
TOP = ("errors", "inputs", "answers", "miopen", "labels", "learn", "foreign", "kerneltuner", "seeds", "api", "searches",
       "choices", "layers", "chain", "graph", "duels", "pytorch", "figure", "curves", "progress", "show", "words",
       "commands", "__main__")
HEAVY = ("torch", "transformers", "llvmlite", "pyopencl", "xgboost", "pandas", "pyarrow", "numpy", "scipy")


def modules(floor: str) -> list[Path]:
    return sorted(path for path in (ROOT / floor).rglob("*.py") if "__pycache__" not in path.parts)


def imported(path: Path, package: str) -> Iterator[str]:
    """Absolute names of everything that a module imports, wherever it stands in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = package.split(".")[:len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*home, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def package_of(path: Path) -> str:
    return ".".join(["seqtune", *path.relative_to(ROOT).parent.parts])


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_point_down(floor: str) -> None:
    above = FLOORS[FLOORS.index(floor) + 1:]
    wrong = [f"{path.relative_to(ROOT)} imports {name}" for path in modules(floor)
             for name in imported(path, package_of(path))
             if name.split(".")[0] in FLOORS
             or (name.startswith("seqtune.") and (name.split(".")[1] in above or name.split(".")[1] in TOP[1:]))]
    assert modules(floor)
    assert not wrong


def test_the_top_modules_import_only_those_before_them() -> None:
    found = {path.stem for path in (ROOT / "seqtune").glob("*.py")} - {"__init__"}
    assert found == set(TOP)
    wrong = [f"{stem} imports {name}" for stem in TOP for name in imported(ROOT / "seqtune" / f"{stem}.py", "seqtune")
             if name.startswith("seqtune.") and name.split(".")[1] in TOP[TOP.index(stem):]
             and (stem, name.split(".")[1]) != ("show", "answers")]
    assert not wrong


def test_names_of_tables_point_down_too() -> None:
    for floor in FLOORS:
        above = FLOORS[FLOORS.index(floor) + 1:]
        for path in modules(floor):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
                    assert not any(node.value.startswith(f"seqtune.{name}.") for name in above), path


def test_a_border_crossing_shows() -> None:
    for floor in FLOORS:
        for path in modules(floor):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.level:
                    assert node.level <= len(path.relative_to(ROOT).parent.parts), f"{path}: a relative import out"


def test_kernels_is_no_regular_package() -> None:
    assert not (ROOT / "kernels" / "__init__.py").exists()  # it would hide Hugging Face's own `kernels`


def test_the_folders_are_linked_into_the_package() -> None:
    for floor in FLOORS:
        assert (ROOT / "seqtune" / floor).resolve() == ROOT / floor


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel built from a copy of the tree, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (tree / name).write_bytes((ROOT / name).read_bytes())
    (tree / "seqtune").mkdir()
    for path in (ROOT / "seqtune").iterdir():
        if path.is_file():
            (tree / "seqtune" / path.name).write_bytes(path.read_bytes())
    for floor in FLOORS:
        (tree / "seqtune" / floor).symlink_to(Path("..") / floor)
        for path in shipped(floor):
            target = tree / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(tree)],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    built, = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def shipped(floor: str) -> list[Path]:
    """Every file of a floor that a user needs."""
    return sorted(path for path in (ROOT / floor).rglob("*")
                  if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."))


def test_the_wheel_carries_every_module_and_every_data_file(wheel: set[str]) -> None:
    wanted = {f"seqtune/{path.relative_to(ROOT).as_posix()}" for floor in FLOORS for path in shipped(floor)}
    wanted |= {f"seqtune/{path.name}" for path in (ROOT / "seqtune").iterdir() if path.is_file()}
    assert wanted <= wheel


def test_the_wheel_installs_nothing_under_a_generic_name(wheel: set[str]) -> None:
    assert {name.split("/")[0].partition("-")[0] for name in wheel} == {"seqtune"}
    assert any(name.endswith("licenses/LICENSE") for name in wheel)


def loaded_after(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after running the code."""
    report = f"\nimport sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_seqtune_loads_nothing_heavy() -> None:
    assert loaded_after("import seqtune; dir(seqtune)") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["predict", "--help"], ["tune", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_after(f"from seqtune.__main__ import main\nassert main({arguments!r}) == 0") == set()


def test_a_mistyped_problem_is_refused_without_loading_torch_or_a_driver() -> None:
    found = loaded_after("from seqtune.__main__ import main\nassert main(['predict', 'conv2d', 'c=-1']) == 2")
    assert not found & {"torch", "transformers", "llvmlite", "pyopencl", "xgboost", "pandas"}


def test_predicting_does_not_load_transformers() -> None:
    code = "import seqtune.api, seqtune.predictor.beam, seqtune.predictor.checkpoint"
    assert not loaded_after(code) & {"transformers", "xgboost", "pandas", "pyopencl", "llvmlite"}


@pytest.mark.parametrize("strategy", ["random", "exhaustive"])
def test_searching_by_chance_loads_neither_translator_nor_trees(strategy: str, tmp_path: Path) -> None:
    journal = str(tmp_path / "journal.sqlite")
    code = f"import seqtune\nseqtune.tune('gemm m=1 n=1 k=1', strategy={strategy!r}, trials=1, journal={journal!r})"
    assert not loaded_after(code) & {"torch", "transformers", "xgboost", "pandas", "pyarrow"}


def test_everything_public_can_be_had_and_nothing_else() -> None:
    import seqtune

    assert all(getattr(seqtune, name) is not None for name in seqtune.__all__)
    assert set(seqtune.__all__) <= set(dir(seqtune))
    with pytest.raises(AttributeError, match="no attribute 'predikt'"):
        _ = seqtune.predikt
