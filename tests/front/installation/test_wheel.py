"""The wheel: it contains every folder, can be uploaded, and does without PyTorch whatever needs none."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from seqtune.kernels.version import VERSION
from tests.support.installation import distributions, environment
from tests.support.installation.optional import TRAINING, needs
from tests.support.installation.wheel import FLOORS, build, front, shipped
from tests.support.llvm import needs_llvm
from tests.support.paths import ROOT

# Modules that load PyTorch when they are imported; no others may. Those of `networks/` and of its hooks are not listed.
LEARNING = {
    "huggingface", "inductor", "integrations.huggingface.hook", "integrations.inductor.hook",
    "integrations.miopen.predictor.training",
    "predictor.learning.tasks.adaptation.retraining",
    "predictor.learning.tasks.loss", "predictor.learning.tasks.small.cross_validation",
    "predictor.learning.tasks.small.training", "predictor.learning.tasks.training", "predictor.training.state",
    "predictor.training.trainer", "predictor.training.unfinished", "predictor.translator.judge",
    "predictor.pretrained", "predictor.translator.quantity_codes", "predictor.translator.sentences",
    "predictor.translator.transformer", "predictor.translator.translator",
}
PROBLEM = ("gemm", "m=64", "n=64", "k=64")
COMMANDS = (
    ("predict", *PROBLEM, "--device", "llvm:0", "--explain"),
    ("predict", *PROBLEM, "--device", "llvm:0", "--verify", "--seconds", "3", "--top", "2"),
    ("predict", "conv2d", "c=64", "size=14", "k=64", "filter=3", "pad=1", "--device", "cuda:h200"),
    ("predict", "convnd", "n=8", "c=64", "h=28", "w=28", "k=64", "r=3", "s=3", "--device", "miopen:gfx906_60"),
    ("tune", *PROBLEM, "--device", "llvm:0", "--trials", "3"),
    ("export", "--out", "records.parquet"),
    ("export-c", "--out", "predictor.c", "--data", "records.parquet"),
    ("devices",),
)
LEARNED = (
    ("tune", "--problems", "five.txt", "--device", "llvm:0", "--trials", "6", "--journal", "five.sqlite"),
    ("export", "--journal", "five.sqlite", "--out", "five.parquet"),
    ("train", "five.parquet", "--out", "mine", "--epochs", "1", "--extra", "0", "--force"),
    ("predict", *PROBLEM, "--device", "llvm:0", "--checkpoint", "mine", "--json"),
)
RUN = """
import contextlib, importlib, io, json, pkgutil, sys, traceback
from seqtune.__main__ import main
from seqtune.predictor.c_source import difference

difference.COMPARED = 20  # problems about which an exported file and the checkpoint are asked
LOADING = ("seqtune.networks", "seqtune.integrations.pytorch", "seqtune.pytorch", "seqtune.__main__")

def modules():
    import seqtune
    for module in pkgutil.walk_packages(seqtune.__path__, "seqtune.", lambda name: None):
        if not module.name.startswith(LOADING):
            try:
                importlib.import_module(module.name)
            except ImportError as error:
                yield module.name, error.name
            except Exception as error:
                yield module.name, str(error)

def run(arguments):
    texts = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(texts[0]), contextlib.redirect_stderr(texts[1]):
        try:
            code = main(arguments)
        except Exception:
            traceback.print_exc()
            code = -1
    return [code, *(text.getvalue() for text in texts)]

if __name__ == "__main__":  # workers import this file
    wanted = json.loads(sys.argv[1])
    result = list(modules()) if wanted == "modules" else list(map(run, wanted))
    print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, beside the source distribution that it was made from, of a copy of the tree."""
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel, and without the packages of extras."""
    if sys.platform == "win32":
        pytest.skip("links need rights there")
    return environment.install(wheel, tmp_path_factory.mktemp("environment"))


def ran(python: Path, folder: Path, wanted: Sequence[Sequence[str]] | str) -> Any:
    """The results of RUN: exit code, stdout and stderr of each command, or the modules that cannot be imported."""
    (folder / "run.py").write_text(RUN)
    done = subprocess.run([python, "run.py", json.dumps(wanted)], cwd=folder, env=environment.variables(folder),
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_wheel_carries_every_module_and_every_data_file(wheel: Path) -> None:
    wanted = {f"seqtune/{path.relative_to(ROOT).as_posix()}" for floor in FLOORS for path in shipped(floor)}
    wanted |= {path.relative_to(ROOT).as_posix() for path in front()}
    assert wanted <= set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_installs_nothing_under_a_generic_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"seqtune"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_what_is_built_can_be_uploaded(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert distributions.main([str(wheel.parent)]) == 0  # as `make dist` checks it
    assert f"seqtune-{VERSION}.tar.gz (" in capsys.readouterr().out


@pytest.mark.slow
@needs_llvm
def test_predictions_searches_and_exports_need_no_pytorch(python: Path, tmp_path: Path) -> None:
    for arguments, (code, _, errors) in zip(COMMANDS, ran(python, tmp_path, COMMANDS), strict=True):
        assert code == 0, (arguments, errors)
    assert (tmp_path / "predictor.c").stat().st_size > 100_000
    assert (tmp_path / "records.parquet").is_file()


@pytest.mark.slow
@pytest.mark.anywhere
@needs_llvm
@needs(*TRAINING)
def test_with_the_extra_a_model_is_trained_and_predicts(wheel: Path, tmp_path: Path) -> None:
    python = environment.install(wheel, tmp_path / "environment", "train")
    (tmp_path / "five.txt").write_text("\n".join(f"gemm m={m} n=64 k=64" for m in (8, 16, 32, 48, 96)))
    results = ran(python, tmp_path, LEARNED)
    for arguments, (code, _, errors) in zip(LEARNED, results, strict=True):
        assert code == 0, (arguments, errors)
    assert json.loads(results[-1][1])["predictor"] == "mine"


@pytest.mark.parametrize("arguments", [
    ("train", "shipped", "--out", "mine"), ("retrain", "default", "new.parquet", "--out", "mine")])
def test_a_command_that_needs_pytorch_says_how_to_install_it(arguments: Sequence[str], python: Path,
                                                            tmp_path: Path) -> None:
    (code, _, errors), = ran(python, tmp_path, [arguments])
    assert code == 2, errors
    assert errors.splitlines()[-1] == "seqtune: PyTorch is not installed: pip install 'seqtune[train]'"
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(("module", "extra"), [("pytorch", "pytorch"), ("huggingface", "huggingface")])
def test_a_module_that_needs_pytorch_says_how_to_install_it(module: str, extra: str, python: Path) -> None:
    done = subprocess.run([python, "-c", f"import seqtune.{module}"], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        f"seqtune.errors.MissingPackageError: PyTorch is not installed: pip install 'seqtune[{extra}]'")


def test_no_other_module_loads_pytorch(python: Path, tmp_path: Path) -> None:
    failed = dict(ran(python, tmp_path, "modules"))
    failed = {name.removeprefix("seqtune."): missing for name, missing in failed.items()
              if missing != "triton"  # the sources of Triton's kernels
              and ".building.templates." not in name}  # files of built folders, which use what those need
    assert failed.keys() == LEARNING, failed
