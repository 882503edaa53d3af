"""Label checkpoints: a saved one makes the same proposals, and a damaged one is refused."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save, save_file

from seqtune.__main__ import main
from seqtune.errors import CheckpointError
from seqtune.integrations.miopen.formats.importing import read_files
from seqtune.integrations.miopen.predictor.labels import TIMED, read_solver_timings
from seqtune.integrations.miopen.predictor.learned import FILE as PACKED
from seqtune.integrations.miopen.predictor.learned import LearnedLabels, filter_of
from seqtune.integrations.miopen.predictor.learning import propose
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.checkpoint_folder import find
from seqtune.predictor.predictors import cached_checkpoint
from seqtune.predictor.trees.forest import read_arrays
from tests.support.label_toys import MLIR, Parts
from tests.support.planted_labels import find_file


def test_a_checkpoint_makes_the_same_proposals_after_it_was_saved(label_checkpoint: Path, tmp_path: Path,
                                                                  label_parts: Parts) -> None:
    loaded = Checkpoint.load(label_checkpoint)
    again = Checkpoint.load(loaded.save(tmp_path / "copy"))
    labels = label_parts[1][MLIR]
    first, second = (propose(checkpoint.next_word(), labels, 5) for checkpoint in (loaded, again))
    assert (first == second).all()
    assert cached_checkpoint(label_checkpoint).vocabulary == loaded.vocabulary


@pytest.mark.parametrize("damage", ["left", "feature", "coded", "missing", "roots"])
def test_inconsistent_trees_are_refused(damage: str, label_checkpoint: Path, tmp_path: Path) -> None:
    copy = Checkpoint.load(label_checkpoint).save(tmp_path / "copy")
    trees = load(zlib.decompress((copy / PACKED).read_bytes()))
    name = next(key for key in trees if key.endswith(f"/{damage}") or damage == "missing")
    if damage == "missing":
        del trees[name]
    elif damage == "coded":
        trees[name][:] = 0xFFFF  # neither a number nor a threshold
    elif damage == "roots":
        trees[name][-1] = 10**6
    else:
        trees[name][0] = 250
    (copy / PACKED).write_bytes(zlib.compress(save(trees)))
    remove_digests(copy)
    with pytest.raises(CheckpointError, match=r"trees\.zlib: its tree"):
        Checkpoint.load(copy)


@pytest.mark.parametrize("known", [False, True], ids=["as it is", "with more types of numbers"])
def test_trees_of_a_type_that_numpy_lacks_are_refused(label_checkpoint: Path, tmp_path: Path, known: bool) -> None:
    if known:
        pytest.importorskip("ml_dtypes")  # teaches NumPy bfloat16 for the rest of the process
    copy = Checkpoint.load(label_checkpoint).save(tmp_path / "copy")
    remove_digests(copy)
    for kind in (torch.bfloat16, torch.float8_e4m3fn):
        (copy / PACKED).write_bytes(zlib.compress(save({"0/0/value": torch.zeros(2).to(kind)})))
        save_file({"0/value": torch.zeros(2).to(kind)}, tmp_path / "trees.safetensors")
        with pytest.raises(CheckpointError, match="is no safetensors file"):
            read_arrays(tmp_path / "trees.safetensors")
        with pytest.raises(CheckpointError, match=r"trees\.zlib is no compressed safetensors file"):
            Checkpoint.load(copy)


def remove_digests(folder: Path) -> None:
    """Remove the digests, as somebody who forges a checkpoint would."""
    about = json.loads((folder / "seqtune.json").read_text())
    assert set(about.pop("sha256")) == {"model.safetensors", PACKED}
    (folder / "seqtune.json").write_text(json.dumps(about))


@pytest.mark.parametrize("name", ["model.safetensors", PACKED])
def test_a_flipped_bit_in_weights_or_trees_is_found(name: str, label_checkpoint: Path, tmp_path: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    copy = Checkpoint.load(label_checkpoint).save(tmp_path / "copy")
    content = bytearray((copy / name).read_bytes())
    content[-200] ^= 1
    (copy / name).write_bytes(content)
    arguments = ["predict", "conv2d n=32 c=64 h=28 k=96 r=3 pad=1", "--device", "miopen:gfx906_60", "--checkpoint"]
    assert main([*arguments, str(copy)]) == 2
    message = capsys.readouterr().err
    assert len(message.splitlines()) == 1
    assert f"{name} is not the file" in message


def test_a_damaged_checkpoint_of_labels_is_refused_in_one_line(label_checkpoint: Path, tmp_path: Path) -> None:
    copy = Checkpoint.load(label_checkpoint).save(tmp_path / "copy")
    text = (copy / "seqtune.json").read_text()
    for wrong in ('{"format": 2}', text.replace('"weight":', '"wait":'), text[:100]):
        (copy / "seqtune.json").write_text(wrong)
        with pytest.raises(CheckpointError) as caught:
            cached_checkpoint(copy)
        assert "\n" not in str(caught.value)


def test_a_shipped_checkpoint_without_its_tables_or_trees_is_refused(tmp_path: Path) -> None:
    copy = shutil.copytree(find("miopen"), tmp_path / "copy")
    text = (copy / "seqtune.json").read_text()
    about = json.loads(text)
    about["choices"]["tables"] = {name: [] for name in about["choices"]["tables"]}
    (copy / "seqtune.json").write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match="has no row"):
        Checkpoint.load(copy)
    (copy / "seqtune.json").write_text(text)
    (copy / PACKED).unlink()
    (copy / PACKED).mkdir()
    with pytest.raises(CheckpointError, match=r"trees\.zlib is not the file"):
        Checkpoint.load(copy)


def test_what_was_learned_from_is_known_and_little_else() -> None:
    hashes = np.random.default_rng(0).integers(0, 2**64, 5000, dtype=np.uint64)
    learned = LearnedLabels(filter_of(hashes[:3000]))
    assert learned.has_learned(hashes[:3000]).all()
    assert learned.has_learned(hashes[3000:]).mean() < 0.03
    assert len(learned.seen) <= 2 * 3000
    assert not LearnedLabels(filter_of(np.zeros(0, np.uint64))).has_learned(hashes).any()


def test_who_has_learned_a_problems_times_has_not_learned_its_labels(tmp_path: Path) -> None:
    timings = read_solver_timings(read_files([find_file(tmp_path)])[0])
    learned = LearnedLabels(filter_of(timings.hashes ^ TIMED))
    assert learned.has_learned(timings.hashes ^ TIMED).all()
    assert learned.has_learned(timings.hashes).mean() < 0.1
