"""The page of a GPU: means over problems, counts of wrong results, and the predictor's shares."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from benchmarks.gpu import page
from benchmarks.gpu.peers import COMPILED
from benchmarks.gpu.problems import Problems
from benchmarks.gpu.run import RECORDED, Gpu, Options, Run
from seqtune.data.dataset import Dataset
from tests.support.measuring.instant import Instant


def test_means_with_and_without_torch_compile_have_lines_of_their_own() -> None:
    times = {("gemm bf16", "p"): {"torch.matmul": 2.0, "tuned": 1.0},
             ("gemm bf16", "q"): {"torch.matmul": 4.0, COMPILED: 1.0, "tuned": 4.0},
             ("conv2d fp16", "r"): {"conv2d NCHW": 3.0, "default": 6.0, "tuned": 1.0},
             ("conv2d fp16", "alone"): {"tuned": 1.0}}
    rows = [{"group": group, "problem": problem, "method": method, "seconds": seconds}
            for (group, problem), methods in times.items() for method, seconds in methods.items()]
    assert {group: {method: (round(mean, 9), count) for method, (mean, count) in methods.items()}
            for group, methods in page.means(rows).items()} == {
        "gemm bf16": {"tuned": (round(0.5 ** 0.5, 9), 2)}, "conv2d fp16": {"default": (0.5, 1), "tuned": (3.0, 1)}}
    lines = page.mean_table(rows).splitlines()[2:]
    assert [(line.split(" | ")[0], line.split(" | ")[-1].removesuffix(" |")) for line in lines] == [
        ("| gemm bf16 (2)", "0.71"), ("| gemm bf16, with torch.compile (1)", "0.25"),
        ("| gemm bf16, with libraries only (1)", "2.00"), ("| conv2d fp16 (1)", "3.00")]
    asked = [{**row, "compiled": True} for row in rows if row["problem"] == "r"]  # it was asked, and failed
    assert page.with_compiler([*rows[:5], *asked]) == {"q", "r"}


def test_the_predictor_is_evaluated_among_what_was_measured_at_random(tmp_path: Path) -> None:
    data = Dataset.read(RECORDED)
    rows = data.rows[data.rows["problem"].isin({key for key in data.rows["problem"].unique()
                                                if "fp16" in key and key.startswith("gemm")})]
    device = next(device for device in data.devices.values() if device.backend == "cuda")
    run = Run(tmp_path, Gpu(device, lambda: nullcontext(Instant(device))), Options(Problems(()), checkpoint="analytic"))
    evaluated = page.evaluated_rows(run, replace(data, rows=rows.reset_index(drop=True)))
    assert {(row["group"], row["method"], row["measured"]) for row in evaluated} == {
        ("gemm fp16", method, count) for method in ("analytic model", "random") for count in (0, 3, 5)}
    assert all(0 < row["share"] <= 1 and row["configurations"] >= page.LEAST_MEASURED for row in evaluated)
