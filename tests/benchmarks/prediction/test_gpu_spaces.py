"""Whole spaces with each GPU left out: methods know the other GPUs' times alone."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.common.page import page_from
from benchmarks.prediction import gpu_spaces
from seqtune.api.replaying import recorded_spaces
from seqtune.data.formats.recorded_spaces import read_recorded
from seqtune.errors import MisuseError
from tests.support.recorded_files import CONFIGURATIONS, milliseconds, write_recorded


def test_the_nearest_gpus_configurations_are_tried_in_its_order(tmp_path: Path) -> None:
    spaces = {recorded.device: recorded
              for recorded in recorded_spaces(read_recorded(write_recorded(tmp_path / "a")), "leave-device-out")}
    here = spaces["odd"]
    numbers = gpu_spaces.METHODS["nearest"](here, 5, 0)
    configurations = [here.task[number] for number in numbers]
    elsewhere = [milliseconds(int(one["block"]), int(one["tile"]), int(one["order"])) for one in configurations]
    assert elsewhere == sorted(milliseconds(block, tile, order) for block, tile, order, _ in CONFIGURATIONS
                               if order == 1)[:5]  # half of them were measured on `odd`
    best = here.seconds[numbers[0]]
    assert gpu_spaces.copied(here) == pytest.approx(here.optimum / best)


def test_a_method_without_an_answer_in_a_space_is_left_out_of_the_tables(tmp_path: Path) -> None:
    spaces = recorded_spaces(read_recorded(write_recorded(tmp_path / "a")), "leave-device-out")
    rows = gpu_spaces.evaluate(spaces, repeats=1, draws=2)
    assert {row["part"] for row in rows} == {gpu_spaces.WHOLE, gpu_spaces.DRAWN}
    assert all(0 < row["share"] <= 1 for row in rows)
    assert gpu_spaces.over_cells(rows, gpu_spaces.WHOLE, "analytic", 0) is None  # no tiles are described
    assert "analytic" not in gpu_spaces.table(rows)
    assert gpu_spaces.over_cells(rows, gpu_spaces.WHOLE, gpu_spaces.OURS, 25) == 1  # the whole space was measured


def test_the_program_writes_its_page_and_refuses_what_has_one_device(tmp_path: Path) -> None:
    folder = write_recorded(tmp_path / "a")
    gpu_spaces.main(["--data", str(folder), "--repeats", "1", "--draws", "0", "--out", str(tmp_path)])
    results = json.loads((tmp_path / "results" / "gpu_spaces.json").read_text())
    page = page_from(gpu_spaces.page, results)
    assert (tmp_path / "results" / "gpu_spaces.md").read_text() == page.markdown()
    assert "in drawn spaces" not in page.tables
    alone = tmp_path / "toy.parquet"
    content = pq.read_table(folder / "toy.parquet")
    pq.write_table(content.filter([device == "fast" for device in content.column("device").to_pylist()]), alone)
    with pytest.raises(MisuseError, match="nothing can be left out"):
        gpu_spaces.main(["--data", str(alone)])
