"""Labels and solver timings as arrays, what models see of their queries, and how answers are scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.formats.miopen_import import read_files
from seqtune.data.labels import Labels, SolverTimings, read_labels, read_solver_timings
from seqtune.data.queries import DistinctProblems, Queries
from seqtune.kernels.miopen.gpus import device
from seqtune.kernels.problem import Problem
from seqtune.predictor.labels.inputs import NUMBERS, TREE_FEATURES, Inputs, tree_columns
from seqtune.predictor.labels.predictors import LabelPredictions, valid
from seqtune.predictor.labels.scores import Score, first_best, solver_choice_rows
from seqtune.predictor.labels.seen_problems import SeenProblems
from tests.support.miopen_files import LABELS, NEW_FIND, perf_text
from tests.support.planted_labels import find_file, perf_files

MI50, VEGA = device("gfx906_60"), device("gfx900_56")


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return read_files(perf_files(tmp_path_factory.mktemp("perf")))[0]


@pytest.fixture(scope="module")
def labels(planted: Dataset) -> dict[str, Labels]:
    return read_labels(planted)


def test_a_label_is_the_index_of_each_value(planted: Dataset, labels: dict[str, Labels]) -> None:
    assert sum(map(len, labels.values())) == len(planted)
    for name, some in labels.items():
        rows = planted.rows[planted.rows["kernel"] == name]
        pairs = some.queries.pairs()
        for (problem, gpu), indices, row in zip(pairs, some.value_indices, rows.itertuples(), strict=True):
            assert (problem.key, gpu.key) == (row.problem, row.device)
            parameters = zip(some.kernel.parameters, indices, strict=True)
            settings = {parameter.name: parameter.values[index] for parameter, index in parameters}
            assert settings == json.loads(str(row.configuration))


def test_a_problem_is_on_one_side_for_all_gpus_and_solvers(labels: dict[str, Labels]) -> None:
    sides: dict[str, set[bool]] = {}
    for some in labels.values():
        for (problem, _), side in zip(some.queries.pairs(), some.queries.held_out.tolist(), strict=True):
            sides.setdefault(problem.key, set()).add(side)
    assert all(len(side) == 1 for side in sides.values())
    share = np.mean([side == {True} for side in sides.values()])
    assert 0.04 < share < 0.2
    training, held_out = next(iter(labels.values())).split()
    assert len(training) + len(held_out) == len(next(iter(labels.values())))
    assert not set(training.queries.hashes.tolist()) & set(held_out.queries.hashes.tolist())


def test_what_a_perf_db_leaves_open_changes_neither_side_nor_features() -> None:
    known: dict[str, Any] = {"n": 4, "c": 64, "k": 96, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1, "stride_h": 2,
                             "stride_w": 2, "direction": "backward_data"}
    problems = [Problem.make("convnd", **known, h=55, w=55), Problem.make("convnd", **known, h=56, w=56),
                Problem.make("convnd", **known, h=None, w=None, out_h=28, out_w=28),
                Problem.make("conv2d", **known, h=56, w=56)]
    assert len(set(DistinctProblems.of(problems).hashes.tolist())) == 1
    queries = Queries.of([(problem, MI50) for problem in problems])
    columns = tree_columns(queries)
    assert columns.shape == (4, TREE_FEATURES)
    assert (columns == columns[0]).all()
    words = ("<pad>", "<unknown>", "direction=backward_data", "architecture=gfx906")
    codes, magnitudes, said = Inputs.of(queries, words).batch(np.arange(4))
    assert codes.shape[:2] == (4, len(NUMBERS))
    assert (codes == codes[0]).all()
    assert (magnitudes == magnitudes[0]).all()
    assert (said == said[0]).all()
    assert said[0, 0] == 2
    assert said[0, -1] == 3


def test_sizes_that_differ_in_divisibility_alone_look_different() -> None:
    made = [Problem.make("convnd", n=8, c=c, h=28, w=28, k=64, r=1, s=1) for c in (256, 257)]
    first, second = tree_columns(Queries.of([(problem, MI50) for problem in made]))
    assert (first != second).sum() > 8
    near = tree_columns(Queries.of([(made[0], MI50), (made[0], VEGA)]))
    assert (near[0] != near[1]).any()


def test_labels_in_another_kernels_words_are_found_again(labels: dict[str, Labels]) -> None:
    from dataclasses import replace

    some = labels["miopen.ConvBinWinogradRxSf2x3"]
    parameter = some.kernel.parameters[0]
    other = replace(some.kernel, parameters=(replace(parameter, values=(60, 30, 28)),))
    there = some.for_kernel(other).value_indices[:, 0]
    values = np.array(parameter.values)[some.value_indices[:, 0]]
    assert [60, 30, 28, None][there[values == 60][0]] == 60
    assert set(there[values == 56]) == {-1}
    assert some.for_kernel(some.kernel) is some


def test_a_race_holds_the_times_of_its_solvers(tmp_path: Path) -> None:
    path = tmp_path / "gfx90878.HIP.fdb.txt"
    path.write_text(NEW_FIND)
    races = read_solver_timings(read_files([path])[0])
    assert races is not None
    assert len(races) == 3
    lengths = np.diff(races.starts)
    (both,) = np.flatnonzero(lengths == 2)
    entries = range(int(races.starts[both]), int(races.starts[both + 1]))
    assert {races.names[races.solver[one]]: races.seconds[one] for one in entries} == pytest.approx(
        {"miopen.ConvAsm1x1U": 0.5e-3, "miopen.GemmFwd1x1_0_1": 0.25e-3})
    some = races.take(np.array([both, both]))
    assert some.starts.tolist() == [0, 2, 4]
    renamed = some.named(("miopen.Other", "miopen.GemmFwd1x1_0_1"))
    assert [renamed.names[one] for one in renamed.solver] == [races.names[one] for one in some.solver]


def test_the_share_of_a_choice_is_what_its_times_say() -> None:
    queries = Queries.of([(Problem.make("convnd", n=n, c=8, h=8, w=8, k=8, r=1, s=1), MI50) for n in (1, 2, 3)])
    races = SolverTimings(("a", "b"), queries, np.array([0, 2, 4, 5]), np.array([0, 1, 0, 1, 1]),
                  np.array([1.0, 2.0, 1.0, 4.0, 3.0]))
    assert first_best(races, -races.seconds).tolist() == [0, 2, 4]
    (row,) = solver_choice_rows(races, np.array([1, 2, 4]))
    assert row.n == 3
    assert row.top1 == pytest.approx(2 / 3)
    assert row.share == pytest.approx(0.5 ** (1 / 3))
    assert row.default_share == pytest.approx(1.0)  # `a` wins most often, and where it isn't, `b` is alone
    assert row.to_json().keys() == {"device", "n", "top1", "share", "default_share"}


def test_what_lies_outside_of_its_space_is_counted(labels: dict[str, Labels]) -> None:
    some = labels["miopen.ConvMlirIgemmFwd"]
    assert valid(some.kernel, some.queries, some.value_indices).all()
    wrong = some.value_indices.copy()
    wrong[:3] = [0, 2, 2, 0, 1, 1]
    wrong[3] = [2, 0, 0, 0, 0, 0]  # 256 threads cannot split so small tiles
    proposed = np.stack([wrong, np.full_like(wrong, -1)], axis=1)
    score = Score.of(some, LabelPredictions(proposed, None))
    assert score.invalid == 1
    assert score.teacher_forced is None
    assert score.exact == pytest.approx(1 - 4 / len(some), abs=4 / len(some))


def test_what_was_learned_from_is_known_and_little_else() -> None:
    generator = np.random.default_rng(0)
    hashes = generator.integers(0, 2**64, 5000, dtype=np.uint64)
    learned = SeenProblems.of(hashes[:3000])
    assert learned.contains(hashes[:3000]).all()
    assert learned.contains(hashes[3000:]).mean() < 0.03
    assert len(learned.bits) <= 2 * 3000
    assert not SeenProblems.of(np.zeros(0, np.uint64)).contains(hashes).any()


def test_who_has_learned_a_problems_times_has_not_learned_its_labels(tmp_path: Path) -> None:
    races = read_solver_timings(read_files([find_file(tmp_path)])[0])
    assert races is not None
    learned = SeenProblems.of(races.hashes)
    assert learned.contains(races.hashes).all()
    assert learned.contains(races.queries.hashes).mean() < 0.1


def test_a_find_db_and_a_perf_db_agree_on_what_is_held_out(tmp_path: Path) -> None:
    data, _ = read_files([perf_text(tmp_path / "gfx906_60.udb.txt", LABELS), find_file(tmp_path)])
    some, races = read_labels(data), read_solver_timings(data)
    assert races is not None
    assert len(races) > 150
    assert 0 < races.queries.held_out.mean() < 0.2
    assert {name.removeprefix("miopen.") for name in some} >= {"ConvAsm1x1U", "ConvOclDirectFwd"}
