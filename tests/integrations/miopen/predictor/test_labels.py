"""Labels and solver timings as arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.dataset import Dataset
from seqtune.integrations.miopen.formats.importing import read_files
from seqtune.integrations.miopen.predictor.labels import Labels, read_labels, read_solver_timings
from tests.support.miopen_files import LABELS, perf_text
from tests.support.planted_labels import find_file, perf_files


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
        pairs = some.pairs()
        for (problem, gpu), indices, row in zip(pairs, some.value_indices, rows.itertuples(), strict=True):
            assert (problem.key, gpu.key) == (row.problem, row.device)
            parameters = zip(some.kernel.parameters, indices, strict=True)
            settings = {parameter.name: parameter.values[index] for parameter, index in parameters}
            assert settings == json.loads(str(row.configuration))


def test_a_problem_is_on_one_side_for_all_gpus_and_solvers(labels: dict[str, Labels]) -> None:
    sides: dict[str, set[bool]] = {}
    for some in labels.values():
        for (problem, _), side in zip(some.pairs(), some.held_out.tolist(), strict=True):
            sides.setdefault(problem.key, set()).add(side)
    assert all(len(side) == 1 for side in sides.values())
    share = np.mean([side == {True} for side in sides.values()])
    assert 0.04 < share < 0.2

def test_labels_in_another_kernels_words_are_found_again(labels: dict[str, Labels]) -> None:
    from dataclasses import replace

    some = labels["miopen.ConvBinWinogradRxSf2x3"]
    parameter = some.kernel.parameters[0]
    other = replace(some.kernel, parameters=(replace(parameter, values=(60, 30, 28)),))
    there = some.for_kernel(other).value_indices[:, 0]
    values = np.array(parameter.values)[some.value_indices[:, 0]]
    assert [60, 30, 28, None][there[values == 60][0]] == 60
    assert set(there[values == 56]) == {-1}


def test_a_find_db_and_a_perf_db_agree_on_what_is_held_out(tmp_path: Path) -> None:
    data, _ = read_files([perf_text(tmp_path / "gfx906_60.udb.txt", LABELS), find_file(tmp_path)])
    some, timings = read_labels(data), read_solver_timings(data)
    assert len(timings) > 150
    assert 0 < timings.held_out.mean() < 0.2
    assert {name.removeprefix("miopen.") for name in some} >= {"ConvAsm1x1U", "ConvOclDirectFwd"}
