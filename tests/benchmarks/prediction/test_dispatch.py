"""The benchmark of dispatch: its reading of find-dbs, its best sets and its tables, on planted data."""

import bz2
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from benchmarks.prediction.dispatch.find_dbs import Part, solver_times
from benchmarks.prediction.dispatch.rules import rule_rows
from benchmarks.prediction.dispatch.sets import best_set, set_rows, swapped
from benchmarks.prediction.dispatch.validity import ValidityRow, validity_row
from seqtune.errors import MisuseError
from seqtune.kernels.task import Floats
from seqtune.predictor.dispatch.matrix import most_helpful
from tests.support.installation.optional import skip_without

PART = Part("gfx90a68", "F", "FP32")


def write_find_db(folder: Path, problems: int = 240) -> None:
    """Write a find-db where a matrix product is fastest for many channels, and Winograd for few."""
    lines = [
        "64-1-28-28-1x3x3-64-1-28-28-1-0x1x1-1x1x1-1x1x1-0-NCDHW-FP32-F=Naive:1.0,0,miopenConvolutionFwdAlgoDirect"]
    for number in range(problems):
        channels, size = 8 * (1 + number % 60), 7 + number // 60
        product, winograd = (1.0, 1.5) if channels > 200 else (2.0, 1.0)
        lines.append(f"{channels}-{size}-{size}-3x3-64-{size}-{size}-16-1x1-1x1-1x1-0-NCHW-FP32-F="
                     f"GemmFwd:{product},0,miopenConvolutionFwdAlgoGEMM;"
                     f"Winograd:{winograd},0,miopenConvolutionFwdAlgoWinograd")
    (folder / "gfx90a68.HIP.fdb.txt.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))


def planted(seed: int) -> Floats:
    """Slowness of eight candidates at 60 problems, most of them missing, as in find-dbs."""
    generator = np.random.default_rng(seed)
    slowness = np.where(generator.random((60, 8)) < 0.5, np.log(20.0), generator.random((60, 8)))
    slowness[np.arange(60), generator.integers(0, 8, 60)] = 0.0
    return slowness


def test_a_find_db_becomes_a_matrix_of_its_two_dimensional_problems(tmp_path: Path) -> None:
    write_find_db(tmp_path, 4)
    times = solver_times(tmp_path, PART)
    assert [candidate.kernel for candidate in times.matrix.candidates] == ["GemmFwd", "Winograd"]
    assert times.matrix.seconds[0].tolist() == pytest.approx([2e-3, 1e-3])
    assert times.device.compute_units == 104
    assert len(times.columns) == len(times.matrix.problems) == 4
    with pytest.raises(MisuseError, match="no find-db gfx942"):
        solver_times(tmp_path, Part("gfx942130", "F", "FP32"))


@pytest.mark.parametrize("seed", range(3))
def test_the_integer_program_finds_the_best_set_and_exchanges_never_harm(seed: int) -> None:
    skip_without("scipy")
    slowness = planted(seed)
    for count in (1, 2, 4):
        losses = {members: slowness[:, members].min(axis=1).mean() for members in combinations(range(8), count)}
        chosen = best_set(slowness, count)
        assert losses[tuple(chosen)] == pytest.approx(min(losses.values()))
        greedy = most_helpful(slowness, np.full(60, 1 / 60), count)
        exchanged = swapped(slowness, greedy)
        assert losses[tuple(sorted(exchanged))] <= losses[tuple(sorted(greedy))] + 1e-12


def test_the_rows_of_a_planted_find_db(tmp_path: Path) -> None:
    skip_without("scipy")
    write_find_db(tmp_path)
    times = solver_times(tmp_path, PART)
    assert all(row.holds for row in set_rows(times.matrix, times.columns))
    ours = rule_rows(times, 0)[0]
    assert ours.first == pytest.approx(1.0, abs=0.02)
    assert ours.two == ours.oracle == pytest.approx(1.0)
    assert 0 < ours.bytes < 20_000


def test_no_answer_for_a_strangers_kernels_is_invalid() -> None:
    row = validity_row("a stranger's library", shapes=2000)
    assert row == ValidityRow("a stranger's library", 52_000, 0, 0, row.none)
