"""What learns from labels: trees, the transformer, the LSTM and rankers, behind one beam; and their checkpoint."""

from __future__ import annotations

import json
import shutil
import tracemalloc
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save, save_file

from seqtune.__main__ import main
from seqtune.api import evaluate_labels, predict
from seqtune.data.dataset import Dataset
from seqtune.data.formats.miopen_import import read_files
from seqtune.data.labels import Labels, read_labels, read_races
from seqtune.data.queries import Questions
from seqtune.errors import CheckpointError, FormatError, MisuseError
from seqtune.inputs import load_checkpoint, load_translator
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.miopen.gpus import device
from seqtune.kernels.space import SearchSpace
from seqtune.label_learning import fit_baselines, train_labels
from seqtune.learning import train as train_command
from seqtune.predictor.checkpoint_folder import find
from seqtune.predictor.labels.baselines import by_device
from seqtune.predictor.labels.checkpoint import TREES as PACKED
from seqtune.predictor.labels.checkpoint import LabelCheckpoint
from seqtune.predictor.labels.classifier_chain import ChainOptions, ChainWords, KernelChain, plain
from seqtune.predictor.labels.methods import Beam, Greedy, Places
from seqtune.predictor.labels.mixture_weights import best_weights
from seqtune.predictor.labels.rankers import TwoTowers
from seqtune.predictor.labels.scores import judge, race_rows
from seqtune.predictor.labels.solver_choice import TreeChoice, choose
from seqtune.predictor.labels.training import train, vocabulary_of
from seqtune.predictor.labels.translator import LabelWords
from seqtune.predictor.sequence.beam import beam_search
from seqtune.predictor.sequence.mixture import Average
from seqtune.predictor.training.loop import LabelOptions, LabelProgress
from seqtune.predictor.trees.forest import Forest, read_arrays
from tests.support.planted_labels import find_file, perf_files

QUICK = LabelOptions(epochs=25, width=32, heads=2, layers=1, hidden=64, batch=64, rate=6e-3, average=0.9, dropout=0.0,
                     threads=1, validation=0, most=10.0, even=0.8, races=0.25, race_batch=512, smoothing=0.05,
                     bf16=False)
TREES = ChainOptions(rounds=15, rate=0.3, depth=4, threads=1)
MLIR, WINOGRAD = "miopen.ConvMlirIgemmFwd", "miopen.ConvBinWinogradRxSf2x3"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("miopen")
    return [*perf_files(folder), find_file(folder)]


@pytest.fixture(scope="module")
def data(files: list[Path]) -> Dataset:
    return read_files(files)[0]


@pytest.fixture(scope="module")
def parts(data: Dataset) -> tuple[dict[str, Labels], dict[str, Labels]]:
    every = {name: labels.split() for name, labels in read_labels(data).items()}
    return {name: part[0] for name, part in every.items()}, {name: part[1] for name, part in every.items()}


@pytest.fixture(scope="module")
def folder(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("checkpoints") / "labels"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqtune.predictor.labels.classifier_chain.ChainOptions", lambda **given: TREES)
        report = train_labels(data, out, QUICK)
    assert report["races"] > 100
    assert report["labels"] > 500
    return out


def test_trees_as_arrays_say_what_xgboost_says(parts: tuple[dict[str, Labels], dict[str, Labels]]) -> None:
    from seqtune.predictor.labels.inputs import tree_columns

    some = parts[0][MLIR]
    chain = KernelChain.fit(some, TREES)
    arrays = KernelChain(chain.kernel, plain(chain.links))
    columns = tree_columns(some.questions)
    for column in range(some.places.shape[1]):
        fast = chain.logs(columns, some.places[:, :column])
        slow = arrays.logs(columns, some.places[:, :column])
        np.testing.assert_allclose(fast, slow, atol=3e-3)  # leaves have 11 bits


def test_a_chain_learns_a_rule_and_its_beam_keeps_to_the_space(
        parts: tuple[dict[str, Labels], dict[str, Labels]]) -> None:
    fitting, judged = parts
    chains = {group: KernelChain.fit(some, TREES) for group, some in by_device(fitting).items()}
    words = ChainWords(chains, vocabulary_of(fitting, None))
    for row in judge(Beam(words), judged):
        assert row.score.invalid == 0
        assert row.score.exact > 0.8
        assert row.score.teacher_forced is not None
        assert row.score.teacher_forced >= row.score.per_parameter - 0.05


def test_a_translator_learns_all_solvers_and_devices_at_once(
        folder: Path, parts: tuple[dict[str, Labels], dict[str, Labels]]) -> None:
    loaded = LabelCheckpoint.load(folder)
    for row in judge(Beam(LabelWords(loaded.model, loaded.vocabulary)), parts[1]):
        assert row.score.invalid == 0
        assert row.score.exact > 0.4, row
    for row in judge(Beam(loaded.next_word()), parts[1]):  # with the trees
        assert row.score.exact > 0.7, row


def test_the_same_seed_gives_the_same_weights_and_an_interrupted_training_goes_on(
        parts: tuple[dict[str, Labels], dict[str, Labels]], tmp_path: Path) -> None:
    few = replace(QUICK, epochs=3, validation=5, state=tmp_path / "state")
    told: list[LabelProgress] = []

    def stop(progress: LabelProgress) -> None:
        told.append(progress)
        if progress.epoch == 2 and len(told) == 2:
            raise KeyboardInterrupt

    train(parts[0], None, few, stop)
    said: list[str] = []
    resumed = train(parts[0], None, few, told.append, say=said.append)
    assert said == ["going on after epoch 2 of 3"]
    whole = train(parts[0], None, replace(few, state=None))
    assert [progress.epoch for progress in told] == [1, 2, 3]
    assert told[-1].right is not None
    for one, other in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_training_is_not_resumed_with_anything_else(parts: tuple[dict[str, Labels], dict[str, Labels]],
                                                      tmp_path: Path) -> None:
    labels, options = parts[0][MLIR], replace(QUICK, epochs=1, state=tmp_path / "state")
    first = train({MLIR: labels}, None, options)
    wider = tuple(replace(one, compute_units=one.compute_units + 4) for one in labels.questions.devices)
    others = (replace(labels, questions=replace(labels.questions, devices=wider)),
              replace(labels, questions=labels.questions.take(np.roll(np.arange(len(labels)), 1))),
              replace(labels, places=labels.places[::-1].copy()))
    for other in others:
        with pytest.raises(FormatError, match="other data"):
            train({MLIR: other}, None, options)
    with pytest.raises(FormatError, match="other data"):
        train({MLIR: labels}, None, options, start=first)
    TwoTowers.fit({MLIR: labels}, replace(options, state=tmp_path / "towers"))
    with pytest.raises(FormatError, match="other data"):
        TwoTowers.fit({MLIR: others[0]}, replace(options, state=tmp_path / "towers"))


def test_trees_count_by_half_where_nothing_was_set_aside(parts: tuple[dict[str, Labels], dict[str, Labels]]) -> None:
    trained = train({MLIR: parts[0][MLIR]}, None, replace(QUICK, epochs=1))
    nothing = {name: labels.take(np.zeros(0, np.int64)) for name, labels in parts[0].items()}
    assert best_weights(trained.model, trained.vocabulary, {}, nothing) == (0.5, {})


def test_a_model_goes_on_from_another(parts: tuple[dict[str, Labels], dict[str, Labels]]) -> None:
    first = train({MLIR: parts[0][MLIR]}, None, replace(QUICK, epochs=1))
    again = train({MLIR: parts[0][MLIR]}, None, replace(QUICK, epochs=1, rate=1e-9), start=first)
    for one, other in zip(first.model.parameters(), again.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


class Fixed:
    """Next words whose scores are what a function of the word says."""

    vocabulary: Any

    def __init__(self, vocabulary: Any, score: Any) -> None:
        self.vocabulary, self._score = vocabulary, score

    def start(self, questions: Sequence[Any], allowed: Any) -> tuple[Any, Any]:
        return None, self._score(allowed.words).astype(np.float32)

    def advance(self, state: Any, said: Any, allowed: Any) -> tuple[Any, Any]:
        return None, self._score(allowed.words).astype(np.float32)


def test_an_average_of_sources_is_one_source(parts: tuple[dict[str, Labels], dict[str, Labels]]) -> None:
    vocabulary = vocabulary_of(parts[0], None)
    up, down = (Fixed(vocabulary, lambda words, sign=sign: sign * np.sin(words * 12.9)) for sign in (1, -1))
    problem, place = parts[0][MLIR].questions.pairs()[0]
    space = SearchSpace(parts[0][MLIR].kernel, problem, place)
    silent = Fixed(vocabulary, lambda words: words * np.nan)
    blend = Average([(up, 3.0), (up, 1.0), (silent, 9.0)])
    alone, same = beam_search(up, [space], 8, 5), beam_search(blend, [space], 8, 5)
    assert [one.configuration for one in alone] == [one.configuration for one in same]
    assert [one.probability for one in alone] == pytest.approx([one.probability for one in same], rel=1e-4)
    even = beam_search(Average([(up, 1.0), (down, 1.0)]), [space], len(space), len(space))
    flat = beam_search(Fixed(vocabulary, lambda words: words * 0.0), [space], len(space), len(space))
    assert sum(one.probability for one in even) == pytest.approx(1.0, abs=1e-5)
    assert [one.probability for one in even] == pytest.approx([one.probability for one in flat], rel=1e-4)


class Likes:
    """A ranker that wants small or large values."""

    def __init__(self, sign: int) -> None:
        self.sign = sign

    def rank(self, kernel: Kernel, questions: Questions, places: Places) -> Any:
        return np.float32(self.sign) * places.sum(axis=2)


def test_a_ranker_reorders_what_the_beam_proposes(parts: tuple[dict[str, Labels], dict[str, Labels]]) -> None:
    words = Fixed(vocabulary_of(parts[0], None), lambda words: words * 0.0)
    some = parts[1][MLIR]
    for sign in (-1, 1):
        sums = Beam(words, ranker=Likes(sign), trust=100.0).answer(some, 5).proposed.sum(axis=2) * sign
        assert (np.diff(sums, axis=1) <= 0).all()


def test_greedy_batches_say_what_look_ahead_says(folder: Path, parts: tuple[dict[str, Labels], dict[str, Labels]]
                                                 ) -> None:
    loaded = LabelCheckpoint.load(folder)
    for words in (loaded.next_word(), Fixed(loaded.vocabulary, lambda words: words * -1.0)):  # the second runs out
        for some in parts[1].values():
            quick = Greedy(words).answer(some, 1).proposed
            assert (quick == Beam(words, width=1).propose(some, 1)).all()
            assert (quick >= 0).all()


def test_every_baseline_learns_the_rule_to_some_degree(parts: tuple[dict[str, Labels], dict[str, Labels]],
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    from seqtune.predictor.labels.rankers import TreeRankerOptions

    monkeypatch.setattr("seqtune.predictor.labels.classifier_chain.ChainOptions", lambda **given: TREES)
    monkeypatch.setattr("seqtune.predictor.labels.rankers.TreeRankerOptions",
                        lambda **given: TreeRankerOptions(rounds=10, threads=1))
    found = fit_baselines(parts[0], options=replace(QUICK, epochs=6))
    rows = judge(found.pop("majority"), parts[1], found)
    for name in ("nearest", "trees", "trees_beam", "tree_ranker"):  # the two that are no trees take longer
        better = [row.baselines[name].exact > row.score.exact for row in rows]
        assert sum(better) >= 2, name
    for name in ("trees", "trees_beam", "tree_ranker", "two_towers", "lstm"):
        assert all(row.baselines[name].invalid == 0 for row in rows)


def test_the_choice_of_solvers_learns_who_wins(folder: Path, data: Dataset) -> None:
    races = read_races(data)
    assert races is not None
    training, held_out = (races.take(np.flatnonzero(side)) for side in (~races.questions.held_out,
                                                                        races.questions.held_out))
    loaded = LabelCheckpoint.load(folder)
    chosen = choose(loaded.model, loaded.vocabulary, held_out)
    (row,) = race_rows(held_out, chosen, TreeChoice(training, rounds=10, threads=1).choose(held_out))
    assert row.top1 > 0.9
    assert row.share > 0.95 > row.default_share
    assert row.trees_share is not None
    assert row.trees_share > 0.95
    stranger = held_out.named(("miopen.Unheard",))
    assert (choose(loaded.model, loaded.vocabulary, stranger) == chosen).all()


def test_a_checkpoint_says_the_same_after_it_was_saved(folder: Path, tmp_path: Path,
                                                       parts: tuple[dict[str, Labels], dict[str, Labels]]) -> None:
    loaded = LabelCheckpoint.load(folder)
    again = LabelCheckpoint.load(loaded.save(tmp_path / "copy"))
    some = parts[1][MLIR]
    first, second = (Beam(one.next_word()).answer(some, 5).proposed for one in (loaded, again))
    assert (first == second).all()
    assert load_checkpoint(folder).vocabulary == loaded.vocabulary
    with pytest.raises(MisuseError, match="measurements"):
        load_translator(folder)


@pytest.mark.parametrize("damage", ["left", "feature", "coded", "missing", "roots"])
def test_trees_that_are_none_are_refused(damage: str, folder: Path, tmp_path: Path) -> None:
    copy = LabelCheckpoint.load(folder).save(tmp_path / "copy")
    trees = load(zlib.decompress((copy / PACKED).read_bytes()))
    name = next(key for key in trees if key.endswith(f"/{damage}") or damage == "missing")
    if damage == "missing":
        del trees[name]
    elif damage == "coded":
        trees[name][:] = 0xFFFF  # no number, and no threshold
    elif damage == "roots":
        trees[name][-1] = 10**6
    else:
        trees[name][0] = 250
    (copy / PACKED).write_bytes(zlib.compress(save(trees)))
    undigested(copy)
    with pytest.raises(CheckpointError, match=r"trees\.zlib: its trees are"):
        LabelCheckpoint.load(copy)


def test_trees_of_a_type_that_numpy_lacks_are_refused(folder: Path, tmp_path: Path) -> None:
    copy = LabelCheckpoint.load(folder).save(tmp_path / "copy")
    undigested(copy)
    for kind in (torch.bfloat16, torch.float8_e4m3fn):
        (copy / PACKED).write_bytes(zlib.compress(save({"0/0/value": torch.zeros(2).to(kind)})))
        save_file({"0/value": torch.zeros(2).to(kind)}, tmp_path / "trees.safetensors")
        with pytest.raises(CheckpointError, match="is no safetensors file"):
            read_arrays(tmp_path / "trees.safetensors")
        with pytest.raises(CheckpointError, match=r"trees\.zlib is no compressed safetensors file"):
            LabelCheckpoint.load(copy)


def undigested(folder: Path) -> None:
    """Leaves out the digests, as who forges a checkpoint would."""
    about = json.loads((folder / "seqtune.json").read_text())
    assert set(about.pop("sha256")) == {"model.safetensors", PACKED}
    (folder / "seqtune.json").write_text(json.dumps(about))


@pytest.mark.parametrize("name", ["model.safetensors", PACKED])
def test_a_flipped_bit_in_weights_or_trees_is_found(name: str, folder: Path, tmp_path: Path,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    copy = LabelCheckpoint.load(folder).save(tmp_path / "copy")
    content = bytearray((copy / name).read_bytes())
    content[-200] ^= 1
    (copy / name).write_bytes(content)
    asked = ["predict", "conv2d n=32 c=64 h=28 k=96 r=3 pad=1", "--device", "miopen:gfx906_60", "--checkpoint"]
    assert main([*asked, str(copy)]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert f"{name} is not the file" in told


def test_trees_that_unpack_to_more_than_any_are_refused(folder: Path, tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    copy = LabelCheckpoint.load(folder).save(tmp_path / "copy")
    (copy / PACKED).write_bytes(zlib.compress(bytes(50_000_000)))
    undigested(copy)
    monkeypatch.setattr("seqtune.predictor.labels.checkpoint.MOST_TREES", 1_000_000)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=r"trees\.zlib unpacks to more than"):
        LabelCheckpoint.load(copy)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_a_damaged_checkpoint_of_labels_is_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    copy = LabelCheckpoint.load(folder).save(tmp_path / "copy")
    text = (copy / "seqtune.json").read_text()
    for wrong in ('{"format": 2}', text.replace('"weight":', '"wait":'), text[:100]):
        (copy / "seqtune.json").write_text(wrong)
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(copy)
        assert "\n" not in str(caught.value)


def test_a_shipped_checkpoint_whose_tables_or_trees_are_gone_is_refused(tmp_path: Path) -> None:
    copy = shutil.copytree(find("miopen"), tmp_path / "copy")
    text = (copy / "seqtune.json").read_text()
    about = json.loads(text)
    about["tables"] = {name: [] for name in about["tables"]}
    (copy / "seqtune.json").write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match="has no row"):
        LabelCheckpoint.load(copy)
    (copy / "seqtune.json").write_text(text)
    (copy / PACKED).unlink()
    (copy / PACKED).mkdir()
    with pytest.raises(CheckpointError, match=r"trees\.zlib is not the file"):
        LabelCheckpoint.load(copy)


def test_a_prediction_names_the_solver_and_its_parameters(folder: Path) -> None:
    answer = predict("conv2d n=32 c=64 h=28 k=96 r=3 pad=1", device="miopen:gfx906_60", checkpoint=folder, top=3)
    assert answer.candidates[0].configuration.kernel == WINOGRAD  # which wins where batches are large
    assert answer.candidates[0].configuration["n_groups"] == 60
    with pytest.raises(MisuseError, match="cannot be run here"):
        predict("conv2d c=64 h=28 k=96 r=3 pad=1", device="miopen:gfx906_60", checkpoint=folder, verify=True)


def test_an_evaluation_judges_what_was_not_learned(folder: Path, files: list[Path]) -> None:
    notes: list[str] = []
    rows = evaluate_labels(files, checkpoint=folder, by=True, warn=notes.append)
    assert len(notes) == 1
    assert [(row["device"], row.get("solver")) for row in rows] == [
        ("miopen:gfx906_60", "ConvMlirIgemmFwd"), ("miopen:gfx906_60", "ConvBinWinogradRxSf2x3"),
        ("miopen:gfx900_56", "ConvBinWinogradRxSf2x3"), ("miopen:gfx906_60", None)]
    assert {"n", "exact", "exact_top5", "per_parameter", "teacher_forced", "invalid", "parts"} <= rows[0].keys()
    assert rows[-1].keys() == {"device", "n", "top1", "share", "default_share"}
    assert json.dumps(rows)


def test_baselines_do_not_learn_from_what_is_judged(folder: Path, tmp_path: Path) -> None:
    strangers = perf_files(tmp_path, seed=5)  # of which the checkpoint has seen next to none
    notes: list[str] = []
    rows = evaluate_labels(strangers, checkpoint=folder, baselines=True, warn=notes.append)
    assert rows
    assert not any(row.get("baselines") for row in rows)
    assert any("no baselines" in note for note in notes)


def test_the_command_line_evaluates_miopens_files(folder: Path, files: list[Path], capsys: pytest.CaptureFixture[str]
                                                  ) -> None:
    asked = ["evaluate", "miopen", "--checkpoint", str(folder)]
    assert main([*asked, "--data", *map(str, files[:2]), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["solver"] for row in rows] == ["ConvMlirIgemmFwd", *["ConvBinWinogradRxSf2x3"] * 2]
    assert all(row["invalid"] == 0 for row in rows)
    assert main([*asked, "--data", str(files[1]), "--data", str(files[2])]) == 0
    table = capsys.readouterr().out
    assert "exact_top5" in table
    assert "default_share" in table
    for wrong in (asked, [*asked, "--data", str(folder / "none.db")], [*asked, "--data", str(files[0]), "--live"],
                  ["evaluate", str(files[0]), str(files[1])], ["evaluate", "--by"]):
        assert main(wrong) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_training_from_a_data_set_of_labels_makes_a_checkpoint_of_labels(
        data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.predictor.training.loop.LabelOptions", lambda **given: replace(QUICK, **given))
    data.write(tmp_path / "labels.parquet")
    said: list[str] = []
    report = train_command(tmp_path / "labels.parquet", tmp_path / "out", epochs=1, say=said.append)
    assert said == ["reading the labels", "growing trees"]
    assert report["epochs"] == 1
    assert isinstance(load_checkpoint(tmp_path / "out"), LabelCheckpoint)


def test_a_training_on_everything_is_judged_before_it_sees_what_is_held_out(
        data: Dataset, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.predictor.labels.classifier_chain.ChainOptions", lambda **given: TREES)
    train_labels(data, tmp_path / "out", replace(QUICK, epochs=2), everything=True)
    loaded = LabelCheckpoint.load(tmp_path / "out")
    rows = loaded.metrics["held_out"]
    assert isinstance(rows, list)
    assert [row.get("solver") for row in rows if isinstance(row, dict)] == [
        "ConvMlirIgemmFwd", "ConvBinWinogradRxSf2x3", "ConvBinWinogradRxSf2x3", None]
    assert "finished" in loaded.provenance
    with pytest.raises(MisuseError, match="learned from every problem"):
        evaluate_labels(files, checkpoint=tmp_path / "out")


def test_a_forest_of_one_leaf_is_a_constant() -> None:
    forest = Forest(1, np.zeros(1, np.int32), np.zeros(1, np.uint8), np.array([0.5], np.float32),
                    np.zeros(1, np.uint16))
    assert forest.margins(np.zeros((3, 2), np.float32)).tolist() == [[0.5]] * 3


def test_devices_told_by_the_user_are_judged_too(folder: Path, files: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "mine.udb.txt"
    path.write_bytes(files[0].read_bytes())
    rows = evaluate_labels([path], checkpoint=folder, devices=["gfx906_48 compute_units=48"], warn=lambda note: None)
    assert {row["device"] for row in rows} == {"miopen:gfx906_48"}
    assert device("gfx906_48").compute_units == 48


def test_the_shipped_checkpoint_tells_solver_and_parameters_on_gpus_it_knows_and_others() -> None:
    loaded = load_checkpoint("miopen")
    assert isinstance(loaded, LabelCheckpoint)
    assert json.loads((find("miopen") / "seqtune.json").read_text())["sha256"].keys() == {"model.safetensors", PACKED}
    for name in ("gfx906_60", "gfx942130", "gfx1030_36"):
        answer = predict("conv2d n=32 c=64 h=28 k=256 r=1", device=f"miopen:{name}", checkpoint="miopen", top=3)
        assert len(answer.candidates) == 3
        assert answer.candidates[0].configuration.kernel in loaded.kernels()
