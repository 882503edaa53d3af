"""Tests of programs that make tables and figures: only the parts that measure nothing."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from benchmarks import __main__ as runner
from benchmarks.common.contest import Contestant, rows_of, take_turns
from benchmarks.common.layer_sets import LAYER_SETS
from benchmarks.common.report import apart
from benchmarks.kernels import end_to_end, gemm, linear_layers, network_layers, opencl_layers, runtime_speed
from benchmarks.prediction.results import draw, table
from benchmarks.programs import PROGRAMS
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from tests.support.installation.optional import skip_without
from tests.support.paths import ROOT
from tests.support.programs.programs import Programs

NEED_TORCH = ("miopen_paper", "networks", "verification")


def rows(share: float, low: float) -> list[dict[str, object]]:
    """Make rows of seqtune and of a fixed configuration that reaches `share` of the speed."""
    return [{"device": "toy:0", "method": method, "measured": count, "share": 0.9 if method == "seqtune" else share,
             "problems": 7, "low": None if method == "seqtune" else low, "high": None if method == "seqtune" else 0.1,
             "worse": False} for method in ("seqtune", "fixed") for count in (0, 3, 5)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_what_it_does_without_data(program: str, programs: Programs) -> None:
    if program in NEED_TORCH:
        skip_without("torch")
    done = programs.run("benchmarks", program, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: python -m benchmarks {program} ")


def test_the_list_of_programs_names_their_questions_and_pages(capsys: pytest.CaptureFixture[str]) -> None:
    runner.main([])
    listed = capsys.readouterr().out
    for name, program in PROGRAMS.items():
        line, = (line for line in listed.splitlines() if line.split()[:1] == [name])
        assert program.question in line
        assert all(page in line for page in program.pages)


def test_an_unknown_program_is_one_line(programs: Programs) -> None:
    done = programs.run("benchmarks", "nothing")
    assert done.returncode == 2
    assert done.stderr == "benchmarks: no program is called 'nothing' (python -m benchmarks lists them)\n"


def test_a_data_set_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks", "results", "--out", str(tmp_path / "out"), "--data",
                           str(tmp_path / "none.parquet")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none.parquet" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("program", "option"), [
    ("latency", "--problems"), ("latency", "--times"), ("gemm", "--rounds"), ("end_to_end", "--threads")])
@pytest.mark.parametrize("number", ["0", "many"])
def test_counts_are_above_0(program: str, option: str, number: str, programs: Programs) -> None:
    done = programs.run("benchmarks", program, option, number)
    assert done.returncode == 2
    assert "above 0" in done.stderr.splitlines()[-1]


def test_what_cannot_be_told_apart_is_marked() -> None:
    assert "| toy:0 (7) | 0 | **0.900** | 0.800 |" in table(rows(0.8, low=0.02))
    assert "| toy:0 (7) | 0 | **0.900** | 0.800* |" in table(rows(0.8, low=-0.02))


def test_the_figure_is_the_same_for_the_same_numbers(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw(rows(0.8, low=0.02), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_labels_are_moved_apart_and_no_further_than_needed() -> None:
    assert apart([1.0, 3.0], 1.0) == [1.0, 3.0]
    assert apart([1.0, 1.2, 5.0], 1.0) == pytest.approx([0.6, 1.6, 5.0])
    found = apart([2.0, 1.9, 2.1, 2.4], 1.0)
    assert sorted(found) == [found[1], found[0], found[2], found[3]]
    assert min(b - a for a, b in zip(sorted(found), sorted(found)[1:], strict=False)) >= 1.0 - 1e-12


def timed(label: str, threads: int, **seconds: float) -> list[dict[str, object]]:
    """Make the rows of a contest with these times; `__` stands for a dot, `_first` for NCHW."""
    contestants = [Contestant(name.replace("__", ".").replace("_first", " nchw"), int, 1e-6) for name in seconds]
    return rows_of(label, threads, contestants, {contestant.method: value for contestant, value
                                                 in zip(contestants, seconds.values(), strict=True)}, 9)


LAYERS = [*timed("C1", 1, onednn=2.0, conv2d_channels_last=3.0, conv2d_nchw=4.0, llvm__direct=1.0,
                 llvm__direct_first=2.0),
          *timed("C2", 1, onednn=9.0, conv2d_channels_last=4.0, conv2d_nchw=8.0, llvm__direct=8.0, llvm__other=2.0,
                 llvm__direct_first=1.0)]


def test_ratios_are_of_the_fastest_on_both_sides() -> None:
    found, = network_layers.summaries(LAYERS)
    assert (found["layer"], found["threads"]) == ("geomean", 1)
    assert found["ratio_direct"] == pytest.approx((2.0 * 0.5) ** 0.5)
    assert found["ratio_best"] == pytest.approx((2.0 * 2.0) ** 0.5)
    assert found["ratio_nchw"] == pytest.approx((2.0 * 8.0) ** 0.5)
    assert found["least"]["ratio_direct"] == {"layer": "C2", "ratio": 0.5}
    assert found["least"]["ratio_best"] == {"layer": "C1", "ratio": 2.0}


def test_products_are_compared_with_the_plain_and_with_the_packed_ways() -> None:
    label = next(iter(gemm.SHAPES))
    found, = gemm.summaries(timed(label, 2, mm=3.0, onednn_packed=2.0, mkl_packed=4.0, llvm__gemm=1.0))
    assert [found[name] for name in ("ratio_mm", "ratio_packed", "ratio_best")] == pytest.approx([3.0, 2.0, 2.0])


def test_a_linear_layer_is_compared_with_the_longer_of_reading_and_multiplying() -> None:
    device = Device("llvm:avx2:2", "llvm", "x86-64", "avx2", threads=2, peak_gflops=100.0)
    seconds = {"ours 1: a": 4.0, "ours 2: b": 2.0, "linear": 8.0, "packed": 6.0, "read": 1.0}
    few, many = (linear_layers.row_of("toy", Problem.make("gemm", m=m, n=1000, k=50000), device, seconds)
                 for m in (1, 1600))  # 0.001 and 1.6 seconds of multiplications
    assert [few["share"], few["first_share"], few["configuration"]] == [0.5, 0.25, "b"]
    assert [many["share"], many["first_share"]] == pytest.approx([0.8, 0.4])
    lines = linear_layers.table([few, {**many, "packed_seconds": None}]).splitlines()
    assert lines[2].endswith("| 4.00 | 3.00 |")
    assert lines[3].endswith("| 4.00 | – |")



def test_few_rows_find_no_weights_in_the_caches() -> None:
    few, many = (linear_layers.copies_of(Problem.make("gemm", m=m, n=1024, k=1024)) for m in (8, 64))
    assert (few, many) == (64, 1)


def test_layers_that_are_fast_enough_are_counted() -> None:
    rows = [*timed("C1", 2, onednn=8.0, conv2d_channels_last=9.0, opencl__direct=10.0),
            *timed("C2", 2, onednn=9.0, conv2d_channels_last=8.9, opencl__direct=99.0, opencl__gemm=10.0)]
    assert opencl_layers.summary(rows)["layers_at_least_0.85"] == 1


def test_every_kernel_table_and_figure_can_be_drawn(tmp_path: Path) -> None:
    label = next(iter(gemm.SHAPES))
    products = timed(label, 1, mm=3.0, onednn_packed=2.0, llvm__gemm=1.0)
    opencl = timed("C1", 2, onednn=8.0, conv2d_channels_last=9.0, opencl__direct=10.0)
    runtimes = [{**row, "device": device, "default": method == "default", "kernel": "opencl.direct"}
                for device in ("opencl:cpu", "opencl:intel-cpu") for method in ("default", "opencl.direct")
                for row in timed("C1", 2, **{method: 2.0 if device == "opencl:cpu" else 4.0})]
    models = [{"model": "ResNet-18", "threads": 2, "method": name, "seconds": one, "error": 0.0}
              for name, one in (("eager", 2.0), ("seqtune", 1.0))]
    layers = LAYER_SETS["resnet18"].layers()
    assert network_layers.table(LAYERS + network_layers.summaries(LAYERS), layers).startswith("|")
    network_layers.draw(LAYERS, tmp_path / "layers.svg")
    assert (tmp_path / "layers.svg").stat().st_size > 1000
    for module, rows in ((gemm, products + gemm.summaries(products)),
                         (opencl_layers, [*opencl, opencl_layers.summary(opencl)]),
                         (runtime_speed, runtimes),
                         (end_to_end, [*models, {"model": "ResNet-18", "method": "ratios", "ratio_eager": 2.0}])):
        assert module.table(rows).startswith("|")
        module.draw(rows, tmp_path / "figure.svg")
        assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_runtimes_are_compared_by_their_best_kernels_defaults_included() -> None:
    rows = [{"layer": layer, "device": device, "seconds": seconds} for layer, device, seconds in (
        ("C1", "a", 4.0), ("C1", "a", 2.0), ("C1", "b", 1.0), ("C2", "a", 2.0), ("C2", "b", 16.0), ("C2", "b", 32.0))]
    assert runtime_speed.best_seconds(rows) == {"C1": {"a": 2.0, "b": 1.0}, "C2": {"a": 2.0, "b": 16.0}}
    assert runtime_speed.speed(rows, "b") == pytest.approx((2 / 1 * 2 / 16) ** 0.5)


def test_turns_are_taken_by_all_in_random_orders() -> None:
    order: list[str] = []
    seconds = take_turns([Contestant(name, partial(order.append, name), 0.0) for name in "abc"], rounds=8)
    turns = [name for name, _ in groupby(order)]
    assert {previous for previous, name in pairwise(turns) if name == "a"} == {"b", "c"}  # no fixed predecessor
    assert seconds.keys() == set("abc")
    assert min(seconds.values()) > 0
