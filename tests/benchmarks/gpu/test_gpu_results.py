"""The page of GPU days and the measurements that are shipped: made from what the days brought home."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import gpu_results, home
from benchmarks.gpu.results_page import page, peers_said, ratio_table, ratios, right_of
from seqtune.data.dataset import Dataset
from seqtune.data.shipped_machines import SHIPPED, shipped_devices
from seqtune.errors import FormatError, MisuseError
from tests.support.paths import ROOT

GPUS = sorted((SHIPPED / "gpus").glob("*.parquet"))
MOST_BYTES = 1_000_000


def results_in(folder: Path, content: dict[str, Any]) -> Path:
    """A folder with these results."""
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(content))
    return folder


def test_the_first_folder_with_a_slice_gives_its_result(tmp_path: Path) -> None:
    first = results_in(tmp_path / "a", {"results": {"contracts": {"day": 1}}})
    second = results_in(tmp_path / "b", {"results": {"contracts": {"day": 2}, "sanitizer": {"day": 2}}})
    assert gpu_results.slices_of([first, second]) == {"contracts": {"day": 1}, "sanitizer": {"day": 2}}
    with pytest.raises(MisuseError, match="no measurements of a GPU"):
        gpu_results.measurements_of([first])
    with pytest.raises(MisuseError, match="dry run"):
        gpu_results.slices_of([results_in(tmp_path / "c", {"dry_run": "x", "results": {}})])
    with pytest.raises(FormatError, match="no results of slices"):
        gpu_results.slices_of([results_in(tmp_path / "d", {"results": {"contracts": 3}})])


def test_ratios_are_means_by_group_of_the_fastest_peer_and_ours() -> None:
    times = {("gemm bf16", "p"): {"torch.matmul": 2.0, "tuned": 1.0},
             ("gemm bf16", "q"): {"torch.matmul": 4.0, "torch.compile max-autotune": 1.0, "tuned": 8.0},
             ("conv2d fp16", "r"): {"conv2d NCHW": 3.0, "default": 6.0, "tuned": 1.0}}
    rows = [{"group": group, "problem": problem, "method": method, "seconds": seconds}
            for (group, problem), methods in times.items() for method, seconds in methods.items()]
    found = {(group, method): value for group, methods in ratios(rows).items() for method, value in methods.items()}
    assert {key: count for key, (_, count) in found.items()} == {
        ("gemm bf16", "tuned"): 2, ("conv2d fp16", "default"): 1, ("conv2d fp16", "tuned"): 1}
    assert [mean for mean, _ in found.values()] == pytest.approx([0.5, 0.5, 3.0])


def test_means_with_and_without_torch_compile_have_lines_of_their_own() -> None:
    times = {("gemm bf16", "p"): {"torch.matmul": 2.0, "tuned": 1.0},
             ("gemm bf16", "q"): {"torch.matmul": 4.0, "torch.compile max-autotune": 1.0, "tuned": 4.0},
             ("conv2d fp16", "r"): {"conv2d NCHW": 3.0, "tuned": 1.0}}
    rows = [{"group": group, "problem": problem, "method": method, "seconds": seconds}
            for (group, problem), methods in times.items() for method, seconds in methods.items()]
    lines = ratio_table(rows).splitlines()[2:]
    assert [(line.split(" | ")[0], line.split(" | ")[-1].removesuffix(" |")) for line in lines] == [
        ("| gemm bf16 (2)", "0.71"), ("| gemm bf16, with torch.compile (1)", "0.25"),
        ("| gemm bf16, with libraries only (1)", "2.00"), ("| conv2d fp16 (1)", "3.00")]
    assert peers_said(rows) == "1 of 3"


def test_the_page_counts_wrong_results_and_missing_checks() -> None:
    assert right_of(None) == "–"
    assert right_of({"kernel": "k", "dtype": "fp16", "correct": 2, "correctness": 3}) == "2 of 5"
    results = json.loads((ROOT / "docs" / "results" / "gpu_day.json").read_text())
    results["records"] = [{"kernel": "k", "dtype": "fp16", "correct": 2, "correctness": 3}]
    assert "of 5 records on 245 problems 3 have a wrong result" in page(results).claim
    assert "| k | fp16 | – | – | – | 2 of 5 |" in page(results).tables


def test_measurements_of_gpus_are_shipped_apart_from_those_that_the_shipped_checkpoint_learned_from() -> None:
    assert GPUS
    for path in GPUS:
        assert "held out" in home.check_shippable(path)
        assert path.stat().st_size < MOST_BYTES
        assert {device.backend for device in Dataset.read(path).devices.values()} == {"cuda", "triton"}
    assert not {"cuda", "triton"} & {device.backend for device in shipped_devices()}


def test_the_analytic_model_is_judged_among_what_the_data_slices_measured() -> None:
    data = Dataset.read(GPUS[0])
    wanted = sorted(key for key in data.rows["problem"].unique() if "fp16" in key and key.startswith("gemm"))
    rows = data.rows[data.rows["problem"].isin(wanted)]
    small = home.of_problems(replace(data, rows=rows), wanted, rows)
    judged = gpu_results.judged_rows(small, lambda step: None)
    assert {(row["group"], row["method"], row["measured"]) for row in judged} == {
        ("gemm fp16", method, count) for method in ("analytic model", "random") for count in (0, 3, 5)}
    assert all(0 < row["share"] <= 1 and row["configurations"] >= gpu_results.LEAST_MEASURED for row in judged)
    counted = gpu_results.counts_of(small)
    assert sum(row["correct"] for row in counted) == len(small)
    (product, *_) = gpu_results.products_of(small)
    assert product["flop"] == max(problem.size("flop") for problem in small.problems())
    assert product["seconds"]["cuda"] == small.rows[small.rows["problem"] == product["problem"]]["seconds"].min()
