"""Layout: the folders are linked into the package, extras exist, and heavy packages are loaded only when needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.installation.wheel import FLOORS, shipped
from tests.support.interpreter import loaded_after
from tests.support.paths import ROOT


def test_every_extra_that_a_message_names_exists_and_measuring_on_gpus_includes_compiling() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {extra for floor in ("seqtune", *FLOORS) for path in shipped(floor) if path.suffix == ".py"
             for extra in re.findall(r"(?:seqtune\[|check_installed\(\")(\w+)", path.read_text())}
    assert {"cuda", "nvrtc", "triton"} <= named <= extras.keys()
    assert "seqtune[nvrtc]" in extras["cuda"]


def test_kernels_is_no_regular_package() -> None:
    assert not (ROOT / "kernels" / "__init__.py").exists()  # it would hide Hugging Face's own `kernels`


def test_the_folders_are_linked_into_the_package() -> None:
    for floor in FLOORS:
        assert (ROOT / "seqtune" / floor).resolve() == ROOT / floor
    assert (ROOT / "src" / "seqtune").resolve() == ROOT / "seqtune"


def test_a_script_beside_a_clone_imports_the_installed_package(tmp_path: Path) -> None:
    (tmp_path / "seqtune").symlink_to(ROOT)  # the folder of a clone has the package's name
    (tmp_path / "script.py").write_text("import seqtune\nprint(seqtune.predict.__name__)\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, check=False,
                          capture_output=True, text=True)
    assert done.stdout == "predict\n", done.stderr


def test_importing_seqtune_loads_nothing_heavy() -> None:
    assert loaded_after("import seqtune; dir(seqtune)") == set()


@pytest.mark.parametrize("arguments", [["--help"], ["predict", "--help"], ["tune", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_after(f"from seqtune.__main__ import main\nassert main({arguments!r}) == 0") == set()


def test_a_mistyped_problem_is_refused_without_loading_torch_or_a_driver() -> None:
    found = loaded_after("from seqtune.__main__ import main\nassert main(['predict', 'conv2d', 'c=-1']) == 2")
    assert not found & {"torch", "transformers", "accelerate", "llvmlite", "pyopencl", "xgboost", "pandas"}


def test_predicting_does_not_load_transformers() -> None:
    code = "import seqtune.api, seqtune.predictor.sequence.beam, seqtune.predictor.checkpoint"
    assert not loaded_after(code) & {"torch", "transformers", "accelerate", "xgboost", "pandas", "pyopencl", "llvmlite"}


def test_searching_by_chance_loads_neither_translator_nor_trees(tmp_path: Path) -> None:
    journal = str(tmp_path / "journal.sqlite")
    code = ("import seqtune\nfor strategy in ('random', 'exhaustive'):\n    "
            f"seqtune.tune('gemm m=1 n=1 k=1', strategy=strategy, trials=1, journal={journal!r})")
    assert not loaded_after(code) & {"torch", "transformers", "accelerate", "xgboost", "pandas", "pyarrow"}


def test_everything_public_can_be_had_and_nothing_else() -> None:
    import seqtune

    assert all(getattr(seqtune, name) is not None for name in seqtune.__all__)
    assert set(seqtune.__all__) <= set(dir(seqtune))
    with pytest.raises(AttributeError, match="no attribute 'predikt'"):
        _ = seqtune.predikt


def test_names_of_the_release_before_still_work_and_name_todays() -> None:
    import seqtune

    with pytest.warns(DeprecationWarning, match=r"seqtune\.Candidate is now called Answer"):
        assert seqtune.Candidate is seqtune.Answer
    assert "Candidate" not in seqtune.__all__
