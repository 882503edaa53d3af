"""Tests of checkpoints: a saved checkpoint is read back, and damaged or foreign ones are refused."""

from __future__ import annotations

import json
import os
import pickle
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from seqtune.errors import CheckpointError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.checkpoint_folder import LARGEST_JSON, LARGEST_WEIGHTS, find
from seqtune.predictor.sequence.beam import beam_search
from seqtune.predictor.sequence.vocabulary import Vocabulary
from tests.support.interpreter import loaded_after
from tests.support.learning.translators import small_translator
from tests.support.tasks import task_of

DEVICE = Device("toy:a", "toy", "arch1", "simd")
KERNEL = Kernel("toy.direct", "conv2d", ("toy",), (Parameter("tile_w", (1, 2, 4, 7)), Parameter("order", ("a", "b"))),
                (Constraint.of("tile_w <= row_w", "too wide"),), (("tile_w", 1),),
                derived=(("times", Expression("ceil_div(row_w, tile_w)")),))
PROBLEM = Problem.make("conv2d", c=64, h=56, w=56, k=48, r=3, s=3)
VOCABULARY = Vocabulary.build([KERNEL], [DEVICE])


def made(seed: int = 0) -> Checkpoint:
    return Checkpoint.of_translator(small_translator(VOCABULARY, 32, seed), VOCABULARY,
                                    {"data": "toy.parquet", "rows": 12}, {"share": 0.93}, seed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made().save(tmp_path / "toy")


def answer(checkpoint: Checkpoint) -> list[tuple[str, float | None]]:
    found = beam_search(checkpoint.next_word(), task_of(SearchSpace(KERNEL, PROBLEM, DEVICE)), 8, 8)
    return [(candidate.configuration.key, candidate.log_probability) for candidate in found]


def test_what_was_saved_comes_back_and_answers_the_same(folder: Path) -> None:
    loaded = Checkpoint.load(folder)
    assert loaded.vocabulary == VOCABULARY
    assert (loaded.provenance, loaded.metrics, loaded.seed) == ({"data": "toy.parquet", "rows": 12}, {"share": 0.93}, 0)
    assert answer(loaded) == answer(made())
    assert answer(loaded) != answer(made(1))
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "seqtune.json"}
    declared = json.loads((folder / "seqtune.json").read_text())["kernels"][0]
    assert declared["name"] == "toy.direct"
    assert declared["constraints"] == ["tile_w <= row_w"]


def test_a_loaded_checkpoint_can_be_trained_and_saved_again(folder: Path) -> None:
    loaded = Checkpoint.load(folder)
    assert all(weight.requires_grad for weight in loaded.network.parameters())
    loaded.metrics = {"share": 0.95}
    loaded.save(folder)
    assert Checkpoint.load(folder).metrics == {"share": 0.95}
    assert [path.name for path in folder.parent.iterdir()] == ["toy"], "nothing is left beside it"


def test_saving_writes_all_or_nothing(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))  # bytes of a file: config.json fits, no weights do
    try:
        with pytest.raises(SeqtuneError, match="File too large"):
            made(1).save(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["toy"]


def test_whoever_may_read_a_checkpoint_may_read_its_weights(folder: Path) -> None:
    modes = {path.name: path.stat().st_mode for path in folder.iterdir()}
    assert len(set(modes.values())) == 1, modes


def test_the_shipped_checkpoint_fits_the_kernels_here() -> None:
    found = Checkpoint.load(find("default"))
    untrained = ("llvm.attention_bf16", "llvm.gemm_amx", "llvm.gemm_int8")  # none is proposed beside a trained one
    families = [kernel(name) for name in names() if name.startswith(("llvm.", "opencl.")) and name not in untrained]
    assert found.vocabulary.differences(families) == []


def test_a_folder_that_is_no_checkpoint_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years")
    (tmp_path / "file").write_text("years")
    for name in ("precious", "file"):
        with pytest.raises(CheckpointError, match="is no checkpoint"):
            made().save(tmp_path / name)
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years"
    (tmp_path / "empty").mkdir()
    made().save(tmp_path / "empty")


def test_names_are_looked_up_among_the_shipped_and_the_users_own(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    shipped = Checkpoint.load()
    for name in ("default", "mine"):
        made(2).save(tmp_path / "seqtune" / "checkpoints" / name)
    assert Checkpoint.load().vocabulary == shipped.vocabulary
    assert Checkpoint.load("mine").seed == 2
    with pytest.raises(CheckpointError, match="default, gpu, mine"):
        Checkpoint.load("other")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        Checkpoint.load(tmp_path / "absent")
    for name in ("", ".", "..", "a" * 5000, "a\0b", "../default", "a/" * 3000):
        with pytest.raises(CheckpointError) as caught:
            Checkpoint.load(name)
        assert len(str(caught.value)) < 600


def test_a_checkpoint_of_another_vocabulary_says_what_differs(folder: Path) -> None:
    here = Kernel("toy.direct", "conv2d", ("toy",), (Parameter("tile_w", (1, 2, 4, 8)), KERNEL.parameters[1]), (), ())
    with pytest.raises(CheckpointError, match=r"toy\.direct\.tile_w has the values 1,2,4,7 in it and 1,2,4,8 here"):
        Checkpoint.load(folder).vocabulary.check([here])


class Trap:
    """A pickle that runs code when it is loaded."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.mkdir, ("sprung",))


def _json(name: str, change: Callable[[dict[str, object]], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        found = json.loads((folder / name).read_text())
        change(found)
        (folder / name).write_text(json.dumps(found))
    return apply


def _words(change: Callable[[dict[str, list[object]]], object]) -> Callable[[Path], object]:
    return _json("seqtune.json", lambda found: change(found["vocabulary"]))  # type: ignore[arg-type]


def _kernels(change: Callable[[list[dict[str, object]]], object]) -> Callable[[Path], object]:
    return _json("seqtune.json", lambda found: change(found["kernels"]))  # type: ignore[arg-type]


def _tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        found = load_file(folder / "model.safetensors")
        change(found)
        save_file({name: tensor.contiguous() for name, tensor in found.items()}, folder / "model.safetensors")
    return apply


def _write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def _huge_header(folder: Path) -> None:
    header = json.dumps({"position.weight": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}})
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode())


def _folder(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a pickle named .safetensors": _write("model.safetensors", pickle.dumps(Trap())),
    "a torch file named .safetensors": lambda folder: torch.save({"a": torch.ones(2)}, folder / "model.safetensors"),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "weights that are a folder": _folder,
    "empty weights": _write("model.safetensors", b""),
    "truncated weights": lambda folder: os.truncate(folder / "model.safetensors", 20_000),
    "a header that claims terabytes": _huge_header,
    "a header length beyond the file": _write("model.safetensors", struct.pack("<Q", 1 << 60) + b"{}"),
    "a tensor missing": _tensors(lambda found: found.pop("position.weight")),
    "a tensor too many": _tensors(lambda found: found.update(extra=torch.ones(2))),
    "a tensor of another shape": _tensors(lambda found: found.update({"position.weight": torch.ones(3, 5)})),
    "a tensor of another type": _tensors(
        lambda found: found.update({"position.weight": found["position.weight"].half()})),
    "not a number among the weights": _tensors(lambda found: found["position.weight"].fill_(float("nan"))),
    "words that mean something else": _tensors(lambda found: found["target.groups"].add_(1)),
    "codes of another kind": _tensors(lambda found: found["target.codes"].add_(1)),
    "no configuration": lambda folder: (folder / "config.json").unlink(),
    "a configuration that is no JSON": _write("config.json", b"width: 128"),
    "a configuration that is a list": _write("config.json", b"[]"),
    "a configuration in another encoding": _write("config.json", b"\xff\xfe\x00"),
    "deep JSON": _write("config.json", b"[" * 100_000),
    "a width missing": _json("config.json", lambda found: found.pop("width")),
    "a width in words": _json("config.json", lambda found: found.update(width="wide")),
    "a negative width": _json("config.json", lambda found: found.update(width=-32)),
    "an enormous width": _json("config.json", lambda found: found.update(width=1 << 40)),
    "a larger width than the weights have": _json("config.json", lambda found: found.update(width=64)),
    "heads that do not divide the width": _json("config.json", lambda found: found.update(heads=3)),
    "more layers than the weights have": _json("config.json", lambda found: found.update(layers=100)),
    "a dropout of 1": _json("config.json", lambda found: found.update(dropout=1.0)),
    "sizes of another vocabulary": _json("config.json", lambda found: found.update(targets=99)),
    "numeric codes of another version": _json("config.json", lambda found: found.update(code=7)),
    "no vocabulary": lambda folder: (folder / "seqtune.json").unlink(),
    "another format version": _json("seqtune.json", lambda found: found.update(format=2)),
    "a field nobody knows": _json("seqtune.json", lambda found: found.update(surprise=1)),
    "a seed in words": _json("seqtune.json", lambda found: found.update(seed="lucky")),
    "kernels that are no list": _json("seqtune.json", lambda found: found.update(kernels={"a": 1})),
    "a kernel twice": _kernels(lambda found: found.append(found[0])),
    "a kernel of an enormous version": _kernels(lambda found: found[0].update(version=10**400)),
    "a kernel whose name has lines": _kernels(lambda found: found[0].update(name="a\nb" * 60)),
    "a derived quantity too few": _words(lambda found: found["derived"].pop()),
    "a derived quantity too many": _words(lambda found: found["derived"].append("waste")),
    "a derived quantity twice": _words(lambda found: found["derived"].append("times")),
    "a word too few": _words(lambda found: found["targets"].pop()),
    "a word too many": _words(lambda found: found["words"].append("a=b")),
    "a word twice": _words(lambda found: found["words"].__setitem__(-1, found["words"][-2])),
    "no <pad>": _words(lambda found: found["targets"].__setitem__(0, "tile_w=9")),
    "a word without a value": _words(lambda found: found["targets"].append("tile_w")),
    "a word with an enormous value": _words(lambda found: found["targets"].append("tile_w=1" + "0" * 400)),
    "a word with a deep value": _words(lambda found: found["targets"].append("tile_w=" + "[" * 100_000)),
    "a word that is a number": _words(lambda found: found["names"].append(3)),
}


def test_a_kernel_that_is_newer_than_the_training_leaves_the_others_in_the_task() -> None:
    device = Device("llvm:avx2:2", "llvm", "haswell", "avx2", threads=2, vector_bits=256, vector_registers=16)
    problem = Problem.make("conv2d", c=32, h=9, w=9, k=32, r=3, s=3, groups=4, layout="NHWC")
    direct, grouped = kernel("llvm.direct"), kernel("llvm.grouped")
    for trained, expected in (([direct], [direct]), ([direct, grouped], [direct, grouped]),
                              ([kernel("llvm.gemm")], [direct, grouped])):
        vocabulary = Vocabulary.build(trained, [device])
        checkpoint = Checkpoint.of_translator(small_translator(vocabulary, 32), vocabulary, {}, {}, 0)
        assert list(checkpoint.task(problem, device).kernels) == expected


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_checkpoint_is_refused_in_one_line(
        name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Checkpoint.load(folder)
    monkeypatch.chdir(folder)
    HOSTILE[name](folder)
    with pytest.raises(CheckpointError) as caught:
        Checkpoint.load(folder)
    assert 10 < len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)
    assert not (folder / "sprung").exists()


def test_a_flipped_bit_among_the_weights_is_found(folder: Path) -> None:
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-100] ^= 1
    weights.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is not the file"):
        Checkpoint.load(folder)
    _json("seqtune.json", lambda found: found.pop("sha256"))(folder)
    Checkpoint.load(folder)  # older checkpoints have no digests


@pytest.mark.parametrize(("limit", "file"), [
    (LARGEST_JSON, "seqtune.json"), (LARGEST_WEIGHTS, "model.safetensors")])
def test_an_enormous_file_is_not_read(limit: int, file: str, folder: Path) -> None:
    os.truncate(folder / file, limit + 1)  # a sparse file
    with pytest.raises(CheckpointError, match=rf"{file} .*bytes"):
        Checkpoint.load(folder)


def test_a_prediction_in_a_new_process_imports_neither_torch_nor_pandas() -> None:
    code = "import seqtune\nseqtune.predict('conv2d c=64 h=28 k=96 r=3', device='llvm:0')"
    assert not loaded_after(code) & {"torch", "transformers", "pandas", "pyarrow", "xgboost", "sympy"}
