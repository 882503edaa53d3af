"""The comparison in large spaces: definitions and costs, a tiny training, and the page."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.program import run_program
from benchmarks.prediction import large_landscapes, large_spaces
from benchmarks.prediction.large_landscapes import NOISE, defined, defined_kernel
from benchmarks.prediction.large_spaces import WAYS, judge_spaces, kinds, page, train
from seqtune.errors import FormatError
from tests.support.installation.optional import needs

VALUES = {"block_size_x": [16, 32, 64], "block_size_y": [1, 2, 4], "tile_size_x": [1, 2], "tile_size_y": [1, 2],
          "temporal_tiling_factor": [1, 2, 4], "loop_unroll_factor_t": [1, 2], "sh_power": [0, 1]}
FEW = 120  # known times of a training problem


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(large_landscapes, "KNOWN", FEW)
    content = {"hotspot_milo": {"params": [{"name": name, "values": values} for name, values in VALUES.items()],
                                "restrictions": ["block_size_x * block_size_y >= 32",
                                                 "temporal_tiling_factor % loop_unroll_factor_t == 0"]}}
    (tmp_path / "definitions.json").write_text(json.dumps(content))
    return tmp_path


def test_a_defined_space_has_its_restrictions_and_costs_of_every_configuration(folder: Path) -> None:
    spaces = defined(folder, "hotspot_milo", problems=3, judged=2)
    judged, training = list(spaces.judged()), spaces.training()
    assert (len(judged), len(training)) == (2, 3)
    columns = judged[0].task.spaces[0].columns()
    assert (columns["block_size_x"] * columns["block_size_y"]).min() >= 32
    assert judged[0].known.all()
    assert (judged[0].seconds > 0).all()
    assert int(training[0].known.sum()) == FEW
    assert not {measured.problem.key for measured in judged} & {measured.problem.key for measured in training}


def test_training_times_are_the_costs_with_noise(folder: Path) -> None:
    first, again = (defined(folder, "hotspot_milo", problems=2, judged=0).training()[0] for _ in range(2))
    assert np.array_equal(first.seconds, again.seconds, equal_nan=True)
    whole = next(defined(folder, "hotspot_milo", problems=0, judged=2).judged())
    assert whole.problem == first.problem
    ratios = np.log(first.seconds / whole.seconds)
    assert np.nanstd(ratios) == pytest.approx(NOISE, rel=0.3)


@pytest.mark.parametrize("content", ["[]", "{", '{"hotspot_milo": {"params": [{"name": "x"}], "restrictions": []}}'])
def test_a_broken_definition_is_one_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "definitions.json").write_text(content)
    with pytest.raises(FormatError, match="does not define hotspot_milo"):
        defined_kernel(tmp_path, "hotspot_milo")


@needs("torch")
def test_every_way_is_judged_on_a_tiny_space(folder: Path) -> None:
    spaces = defined(folder, "hotspot_milo", problems=2, judged=1)
    rows = judge_spaces(spaces, train(spaces, epochs=1, rounds=30, width=16))
    assert [row["way"] for row in rows] == list(WAYS)
    shares = {row["way"]: row["share"] for row in rows}
    assert all(0 < share <= 1 for share in shares.values())
    assert all(row["best_of_five"] >= row["share"] - 1e-12 for row in rows)
    assert shares["trees on all"] > shares["random"]
    written = page({"machine": {}, "rows": rows})
    assert f"{rows[0]['most']:,} configurations of hotspot_milo" in written.claim
    assert written.tables.count("\n") == len(WAYS) + 1
    assert all(math.isfinite(row["milliseconds"]) for row in rows)


def test_without_the_recorded_folder_our_own_kernels_remain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    assert list(kinds(None, 1, 1)) == ["own_gemm"]
    monkeypatch.setattr(sys, "argv", ["large_spaces", "--work", str(tmp_path / "work"), "--recorded",
                                      str(tmp_path / "none")])
    with pytest.raises(SystemExit) as ended:
        run_program("large_spaces", large_spaces.main)
    assert ended.value.code == 2
    line, = capsys.readouterr().err.splitlines()
    assert "is not a folder of recorded spaces" in line
    assert not (tmp_path / "work").exists()
