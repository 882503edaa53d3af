"""Contract of the checkpoints of every kind of model: they come back as they were, and nothing in them is trusted."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seqtune.errors import CheckpointError
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.checkpoint_folder import find
from seqtune.predictor.predictors import SHIPPED


class Trap:
    """An object whose unpickling makes a folder."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("sprung",)


def change(name: str, **fields: object) -> Callable[[Path], object]:
    """Damage: other fields in a JSON file."""
    def apply(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**content, **fields}))
    return apply


def flip_bit(folder: Path) -> None:
    """Damage: one bit among the weights."""
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-100] ^= 1
    (folder / "model.safetensors").write_bytes(content)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {  # the damage, and what the line must say
    "no config.json": (lambda folder: (folder / "config.json").unlink(), "config.json"),
    "no seqtune.json": (lambda folder: (folder / "seqtune.json").unlink(), "seqtune.json"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
    "empty weights": (lambda folder: (folder / "model.safetensors").write_bytes(b""), "safetensors"),
    "truncated weights": (lambda folder: os.truncate(folder / "model.safetensors", 5_000), "safetensors"),
    "a flipped bit": (flip_bit, "model.safetensors"),
    "a pickle as weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(pickle.dumps(Trap())), "safetensors"),
    "a config.json that is no JSON": (lambda folder: (folder / "config.json").write_bytes(b"\xff{"), "config.json"),
    "deep JSON": (lambda folder: (folder / "seqtune.json").write_bytes(b"[" * 100_000), "JSON"),
    "an enormous width": (change("config.json", width=1 << 40), "width"),
    "a width that the weights have not": (change("config.json", width=256), ""),
    "heads that do not divide the width": (change("config.json", heads=7), "heads"),
    "a later format": (change("seqtune.json", format=99), "format"),
    "an unknown field": (change("seqtune.json", surprise=1), "surprise"),
    "another tool's model": (change("config.json", model_type="bert"), "bert"),
    "a model type of many lines": (change("config.json", model_type="a\n" * 40), ""),
    "a vocabulary of numbers": (change("seqtune.json", vocabulary=[1, 2]), "vocabulary"),
}


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a shipped checkpoint, in the current folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(find(request.param), tmp_path / "copy"))


@pytest.mark.parametrize("folder", SHIPPED, indirect=True)
class TestCheckpoint:
    def test_what_is_saved_comes_back(self, folder: Path) -> None:
        model = Checkpoint.load(folder)
        again = Checkpoint.load(model.save(folder.with_name("again")))
        assert type(again) is type(model)
        assert (again.vocabulary, again.provenance, again.metrics) == (
            model.vocabulary, model.provenance, model.metrics)
        assert {path.name: path.read_bytes() for path in folder.glob("*.safetensors")} == {
            path.name: path.read_bytes() for path in folder.with_name("again").glob("*.safetensors")}

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_or_foreign_one_is_refused_in_one_line(self, folder: Path, damage: str) -> None:
        apply, says = DAMAGES[damage]
        apply(folder)
        with pytest.raises(CheckpointError) as caught:
            Checkpoint.load(folder)
        assert 10 < len(str(caught.value)) < 600
        assert "\n" not in str(caught.value)
        assert says in str(caught.value)
        assert not Path("sprung").exists()

    def test_a_folder_that_is_no_checkpoint_is_not_overwritten(self, folder: Path) -> None:
        model = Checkpoint.load(folder)
        (folder / "seqtune.json").unlink()
        with pytest.raises(CheckpointError, match="is no checkpoint"):
            model.save(folder)
        assert (folder / "config.json").is_file()
