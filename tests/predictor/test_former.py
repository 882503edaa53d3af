"""Retrained checkpoints keep their former one: which layer answers for a device, and how layers are stored."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.api import predict
from seqtune.api.bulk import predict_many
from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.libraries.library import Library
from seqtune.kernels.libraries.table import IN_USE
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.checkpoint_folder import MOST_LAYERS
from seqtune.predictor.checkpoint_parts import TreesAlone, parts_of
from seqtune.predictor.predictors import cached_checkpoint
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import Ranker
from tests.support.learning.translators import small_translator
from tests.support.synthetic import DIRECT, MIDDLE, NARROW, WIDE, data, problems

pytestmark = pytest.mark.usefixtures("fake_kernel")

PROBLEM = problems(1)[0]
DEVICES = (WIDE, NARROW, MIDDLE)
NEW = Kernel("fake.new", "conv2d", ("fake",), (Parameter("lanes", (4, 8)),), (), (("lanes", 4),))


def task(device: Device) -> Task:
    return Task.of(PROBLEM, device)


def tiny(seed: int, former: Checkpoint | None = None, *devices: Device, kernels: tuple[Kernel, ...] = (DIRECT,)
         ) -> Checkpoint:
    """An untrained checkpoint, retrained for the devices by its own account."""
    vocabulary = Vocabulary.build(kernels, [WIDE])
    model = Checkpoint.of_translator(small_translator(vocabulary, seed=seed), vocabulary, seed=seed)
    return replace(model, former=former, retrained_for=frozenset(device.key for device in devices))


BASE = tiny(0)
NARROWER = tiny(1, BASE, NARROW)
LAYERED = tiny(2, NARROWER, MIDDLE)


def test_a_device_is_answered_by_the_layer_that_was_retrained_for_it_and_others_by_the_oldest() -> None:
    assert [LAYERED.on(device).seed for device in DEVICES] == [0, 1, 2]
    assert LAYERED.layers == (LAYERED, NARROWER, BASE)
    wanted = [layer.propose([task(device)], 5)[0]
              for layer, device in zip((BASE, replace(NARROWER, former=None), replace(LAYERED, former=None)), DEVICES,
                                       strict=True)]
    tasks = [task(device) for device in DEVICES]
    assert LAYERED.propose(tasks, 5) == wanted
    assert LAYERED.propose([], 5) == []
    assert len({str(candidates) for candidates in wanted}) == 3, "the layers differ"


def test_a_kernel_that_older_layers_lack_is_answered_by_the_newest_that_knows_it() -> None:
    newer = tiny(3, BASE, MIDDLE, kernels=(DIRECT, NEW))
    top = tiny(4, newer, NARROW)
    assert top.on(WIDE, [DIRECT]) is BASE
    assert top.on(WIDE, [DIRECT, NEW]) is newer
    assert top.on(NARROW, [NEW]) is newer, "the layer that was retrained for it lacks the kernel"
    assert top.on(replace(WIDE, name="other:a", backend="other")) is top
    top.check_kernels([NEW])
    with pytest.raises(CheckpointError, match=r"fake\.third is not in it"):
        top.check_kernels([replace(NEW, name="fake.third")])


def test_there_is_a_most_of_layers_and_the_error_says_what_to_do() -> None:
    top = BASE
    for number in range(MOST_LAYERS - 1):
        device = replace(WIDE, name=f"fake:{number}")
        assert top.former_for([device]) is not None
        top = tiny(number, top, device)
    with pytest.raises(MisuseError, match="train one on the records of all of them"):
        top.former_for([MIDDLE])
    top.former_for([device])  # its own layer makes room


def test_all_layers_are_stored_in_one_another_and_answer_the_same_when_they_come_back(tmp_path: Path) -> None:
    folder = LAYERED.save(tmp_path / "toy")
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]
    assert (folder / "former" / "former" / "model.safetensors").is_file()
    assert list(json.loads((folder / "seqtune.json").read_text())["sha256"]) == ["model.safetensors",
                                                                                "former/seqtune.json"]
    loaded = Checkpoint.load(folder)
    assert [layer.retrained_for for layer in loaded.layers] == [{MIDDLE.key}, {NARROW.key}, set()]
    tasks = [task(device) for device in DEVICES]
    assert loaded.propose(tasks, 5) == LAYERED.propose(tasks, 5)
    assert Checkpoint.load(folder / "former").on(MIDDLE).seed == 0
    BASE.save(folder)
    assert not (folder / "former").exists(), "a checkpoint without a former one replaces the whole folder"


def _endless(folder: Path) -> None:
    shutil.rmtree(folder / "former")
    about = json.loads((folder / "seqtune.json").read_text())
    (folder / "seqtune.json").write_text(json.dumps({**about, "sha256": {}}))
    os.symlink(folder, folder / "former", target_is_directory=True)


def _pipe(folder: Path) -> None:
    (folder / "former" / "model.safetensors").unlink()
    os.mkfifo(folder / "former" / "model.safetensors")


def _about(**fields: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        about = json.loads((folder / "seqtune.json").read_text())
        (folder / "seqtune.json").write_text(json.dumps({**about, **fields}))
    return change


@pytest.mark.parametrize(("damage", "message"), [
    (lambda folder: shutil.rmtree(folder / "former"), "copy the whole checkpoint again"),
    (lambda folder: NARROWER.save(folder / "former" / "former"), "copy the whole checkpoint again"),
    (lambda folder: (folder / "former" / "model.safetensors").write_bytes(b"spam"), "nothing else is read"),
    (_pipe, "is not a regular file"),
    (_endless, f"seqtune writes {MOST_LAYERS} layers at most"),
    (_about(retrained_for=[3]), "retrained_for"), (_about(retrained_for=["a" * 2000]), "retrained_for"),
    (_about(retrained_for=["a"] * 2000), "retrained_for")])
def test_a_damaged_former_checkpoint_is_refused_in_one_line(
        damage: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    folder = LAYERED.save(tmp_path / "toy")
    damage(folder)
    with pytest.raises(CheckpointError, match=message) as caught:
        Checkpoint.load(folder)
    assert "\n" not in str(caught.value)


def test_predictions_of_one_problem_and_of_many_and_their_evidence_are_of_the_layer_of_the_device(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = LAYERED.save(tmp_path / "toy")
    asked: list[int] = []
    for module in ("predictor.answering", "api.bulk"):
        monkeypatch.setattr(f"seqtune.{module}.device_evidence", lambda model, *others: asked.append(model.seed))
    for device, layer in zip(DEVICES, (BASE, NARROWER, LAYERED), strict=True):
        wanted = [candidate.configuration for candidate in layer.on(device).propose([task(device)], 3)[0]]
        assert [proposal.configuration for proposal in predict(
            PROBLEM, device, top=3, checkpoint=folder).candidates] == wanted
        (many,) = predict_many([PROBLEM], device, 3, checkpoint=folder)
        assert [candidate.configuration for candidate in many.candidates] == wanted
    assert asked == [0, 0, 0, 1, 1, 1, 2, 2, 2], "one prediction, then the check and the answer of many"


def test_many_problems_may_need_kernels_that_different_layers_know(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    product = replace(NEW, name="fake.product", operation="gemm")
    monkeypatch.setitem(IN_USE, "fake", Library("fake", {kernel.name: kernel for kernel in (DIRECT, NEW, product)}))
    convolves = tiny(3, BASE, MIDDLE, kernels=(DIRECT, NEW))
    multiplies = tiny(4, convolves, NARROW, kernels=(DIRECT, product))
    asked = (PROBLEM, parse_problem("gemm m=4 n=8 k=16"))
    answers = list(predict_many(asked, WIDE, 3, checkpoint=multiplies.save(tmp_path / "toy")))
    for problem, layer, answer in zip(asked, (convolves, multiplies), answers, strict=True):
        (wanted,) = replace(layer, former=None).propose([Task.of(problem, WIDE)], 3)
        assert [candidate.configuration for candidate in answer.candidates] == [
            candidate.configuration for candidate in wanted]


@pytest.mark.parametrize(("link", "target"), [("former", "former"), ("former/broken", "nowhere")])
def test_a_link_to_nothing_or_to_itself_is_refused_in_one_line(link: str, target: str, tmp_path: Path) -> None:
    folder = LAYERED.save(tmp_path / "toy")
    if link == "former":
        shutil.rmtree(folder / "former")
    os.symlink(target, folder / link)
    with pytest.raises(CheckpointError, match="cannot read"):
        cached_checkpoint(folder)


def test_the_parts_of_a_retrained_checkpoint_are_those_of_the_layer_that_answers() -> None:
    fitting = measured_tasks(data(4, held_out=0, sampled=40), held_out=False)
    first, second = (Ranker.of(Trees(fitting[index:index + 2], TreesOptions(rounds=5, models=1))) for index in (0, 2))
    base = replace(BASE, ranker=first)
    parts = parts_of(replace(LAYERED, ranker=second, former=base))
    for device, layer, ranker in ((WIDE, BASE, first), (MIDDLE, replace(LAYERED, former=None), second)):
        assert parts["transformer"].propose([task(device)], 3) == layer.propose([task(device)], 3)
        alone = TreesAlone(lambda task, own=ranker: own)  # type: ignore[misc]
        assert parts["trees"].propose([task(device)], 3) == alone.propose([task(device)], 3)
    assert "trees" not in parts_of(replace(LAYERED, ranker=second))
