"""Tests of the ranker: trees as arrays predict as xgboost does, no proposal is lost, damaged trees are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import spaces_for
from seqtune.kernels.task import MeasuredTask
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.tasks.examples import vocabulary_of
from seqtune.predictor.sequence.beam import beam_search
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.forest import Forest
from seqtune.predictor.trees.ranker import PROPOSALS, Ranker
from seqtune.tuner.cost_models.features import features
from tests.support.learning.translators import small_translator
from tests.support.synthetic import data, registered

pytestmark = pytest.mark.usefixtures("fake_kernel")

DATA = data(8, held_out=2, sampled=60)
with registered():
    TRAINING, TEST = measured_tasks(DATA, held_out=False), measured_tasks(DATA, held_out=True)
TREES = Trees(TRAINING, TreesOptions(rounds=40, models=2, threads=1))
RANKER = Ranker.of(TREES)
VOCABULARY = vocabulary_of(TRAINING)


def made(ranker: Ranker | None = RANKER) -> Checkpoint:
    return Checkpoint.of_translator(small_translator(VOCABULARY, 32).eval(), VOCABULARY, ranker=ranker)


def test_the_arrays_say_what_xgboost_says() -> None:
    for measured in TEST:
        wanted = TREES.predict(measured.task.spaces)
        assert _said(measured) == pytest.approx(wanted, abs=2e-3)  # leaves have 11 bits


def _said(measured: MeasuredTask) -> NDArray[np.float32]:
    table = features(measured.task.spaces[0])
    return np.asarray(np.stack([forest.margins(table)[:, 0] for forest in RANKER.forests["fake.direct"]]).mean(axis=0))


def test_what_trees_expect_to_be_faster_comes_first_and_nothing_is_lost() -> None:
    moved = 0
    for measured in TEST:
        before = beam_search(made().next_word(), measured.task, PROPOSALS, PROPOSALS)
        after = made().propose([measured.task], PROPOSALS)[0]
        assert {one.configuration for one in after} == {one.configuration for one in before}
        assert sum(one.probability or 0 for one in after) == pytest.approx(sum(one.probability or 0 for one in before))
        expected = _said(measured)
        numbers = [measured.task.number(one.configuration) for one in before]
        wanted = {one.configuration: (expected[number], number) for one, number in zip(before, numbers, strict=True)}
        assert [one.configuration for one in after] == sorted(wanted, key=lambda one: wanted[one])
        assert made().propose([measured.task], 3) == [after[:3]]
        moved += after[0].configuration != before[0].configuration
    assert moved, "an untrained translator is put right somewhere"


def half_of(forest: Forest) -> Forest:
    """Every second tree of a forest, for one class."""
    ends = np.append(forest.roots[1:], len(forest.value))[::2]
    trees = [np.arange(begin, end) for begin, end in zip(forest.roots[::2].tolist(), ends.tolist(), strict=True)]
    nodes = np.concatenate(trees)
    roots = np.cumsum([0, *map(len, trees)])[:-1].astype(np.int32)
    return Forest(1, roots, forest.feature[nodes], forest.value[nodes], forest.left[nodes])


def test_the_members_of_an_ensemble_answer_for_themselves_with_as_many_trees_or_not() -> None:
    first, second = RANKER.forests["fake.direct"]
    task, numbers = TEST[0].task, np.arange(10)
    for pair in ((first, second), (half_of(first), second)):
        both, *alone = (Ranker(RANKER.features, {"fake.direct": forests}).members(task, numbers)
                        for forests in (pair, pair[:1], pair[1:]))
        assert both == pytest.approx(np.hstack(alone), abs=1e-5)
        assert np.abs(both[:, 0] - both[:, 1]).max() > 1e-3, "the members differ"


def test_every_feature_of_the_kernels_here_is_a_number(a_device: Device) -> None:
    counts: dict[str, set[int]] = {}
    for kind in ("conv2d", "gemm"):
        for problem in sample_problems(kind, 12, seed=5):
            for space in spaces_for(problem, a_device, [kernel(name) for name in names() if name.startswith(
                    f"{a_device.backend}.")]):
                rows = np.zeros(len(space), np.bool_)
                rows[:20] = True
                table = features(space.only(rows))
                assert np.isfinite(table).all(), "trees in plain arrays know no missing values"
                counts.setdefault(space.kernel.name, set()).add(table.shape[1])
    assert counts
    assert all(len(found) == 1 and max(found) <= 256 for found in counts.values())


@pytest.fixture(params=["llvm", "opencl"])
def a_device(request: pytest.FixtureRequest) -> Device:
    return replace(
        Device(f"{request.param}:x", request.param, "znver5", "avx512"), threads=2, compute_units=2, vector_bits=512,
        vector_registers=32, l1_bytes=32768, l2_bytes=1 << 20, l3_bytes=1 << 24, local_memory=32768,
        max_work_group=4096, peak_gflops=200.0, bandwidth_gbs=20.0)


def test_a_saved_ranker_comes_back_and_orders_the_same(tmp_path: Path) -> None:
    loaded = Checkpoint.load(made().save(tmp_path / "with"))
    for measured in TEST:
        assert loaded.propose([measured.task], 5) == made().propose([measured.task], 5)
    plain = Checkpoint.load(made(None).save(tmp_path / "without"))
    assert plain.ranker is None
    assert not (tmp_path / "without" / "trees.safetensors").exists()


Arrays = dict[str, NDArray[np.generic]]


def _changed(change: Callable[[Arrays], object]) -> Callable[[Path], None]:
    def apply(file: Path) -> None:
        found = {name: array.copy() for name, array in load_file(file).items()}
        change(found)
        save_file(found, file)
    return apply


DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": lambda file: file.unlink(),
    "cut short": lambda file: os.truncate(file, file.stat().st_size // 2),
    "no safetensors": lambda file: file.write_bytes(b"\x80\x04 trees"),
    "a forest missing": _changed(lambda found: [found.pop(name) for name in list(found) if "/1/" in name]),
    "a forest of other arrays": _changed(lambda found: found.update({"fake.direct/0/extra": np.ones(3, np.float32)})),
    "a feature that there is not": _changed(lambda found: found["fake.direct/0/feature"].fill(255)),
    "a tree that bites its tail": _changed(lambda found: found["fake.direct/0/left"].fill(1)),
    "a threshold that is no number": _changed(lambda found: found["fake.direct/0/thresholds"].fill(np.nan)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_trees_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    folder = made().save(tmp_path / "toy")
    DAMAGE[name](folder / "trees.safetensors")
    with pytest.raises(CheckpointError) as caught:
        Checkpoint.load(folder)
    assert 10 < len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


def test_trees_that_know_other_features_are_refused() -> None:
    stranger = Ranker({"fake.direct": 3}, RANKER.forests)
    with pytest.raises(CheckpointError, match="have 3 features"):
        made(stranger).propose([TEST[0].task], 3)
