"""Packaging: heavy packages are loaded only when needed, and the wheel contains every folder."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.interpreter import loaded_after
from tests.support.paths import ROOT

FLOORS = ("kernels", "data", "tuner", "predictor")


def test_every_extra_that_a_message_names_exists_and_measuring_on_gpus_includes_compiling() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {extra for floor in ("seqtune", *FLOORS) for path in shipped(floor) if path.suffix == ".py"
             for extra in re.findall(r"seqtune\[(\w+)\]", path.read_text())}
    assert {"cuda", "nvrtc", "triton"} <= named <= extras.keys()
    assert "seqtune[nvrtc]" in extras["cuda"]


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
    for path in front():
        target = tree / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
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
    """All files of a floor that a user needs."""
    return sorted(path for path in (ROOT / floor).rglob("*")
                  if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."))


def front() -> list[Path]:
    """Every file of the top floor, links not followed."""
    return [path for path in shipped("seqtune") if path.relative_to(ROOT).parts[1] not in FLOORS]


def test_the_wheel_carries_every_module_and_every_data_file(wheel: set[str]) -> None:
    wanted = {f"seqtune/{path.relative_to(ROOT).as_posix()}" for floor in FLOORS for path in shipped(floor)}
    wanted |= {path.relative_to(ROOT).as_posix() for path in front()}
    assert wanted <= wheel


def test_the_wheel_installs_nothing_under_a_generic_name(wheel: set[str]) -> None:
    assert {name.split("/")[0].partition("-")[0] for name in wheel} == {"seqtune"}
    assert any(name.endswith("licenses/LICENSE") for name in wheel)


def test_importing_seqtune_loads_nothing_heavy() -> None:
    assert loaded_after("import seqtune; dir(seqtune)") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["predict", "--help"], ["tune", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_after(f"from seqtune.__main__ import main\nassert main({arguments!r}) == 0") == set()


def test_a_mistyped_problem_is_refused_without_loading_torch_or_a_driver() -> None:
    found = loaded_after("from seqtune.__main__ import main\nassert main(['predict', 'conv2d', 'c=-1']) == 2")
    assert not found & {"torch", "transformers", "llvmlite", "pyopencl", "xgboost", "pandas"}


def test_predicting_does_not_load_transformers() -> None:
    code = "import seqtune.api, seqtune.predictor.sequence.beam, seqtune.predictor.times.checkpoint"
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
