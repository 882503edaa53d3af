"""Shapes of tables, logs, models and named sets: what each counts, what is left out, and lines that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.api.dispatching.shapes import read_shapes
from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from tests.support.installation.optional import needs
from tests.support.onnx_files import write_network


def gemm(m: int, n: int = 8, k: int = 8) -> Problem:
    return Problem.make("gemm", m=m, n=n, k=k)


def write(folder: Path, text: str, name: str = "a.csv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def read(kind: str, *sources: str, seed: int = 0, said: list[str] | None = None) -> dict[Problem, float]:
    lines = list[str]() if said is None else said
    shapes, _ = read_shapes(kind, sources, seed, lines.append)
    return {problem: round(weight, 6) for problem, weight in shapes.items()}


@pytest.mark.parametrize("text", [
    "m,n,k,weight\n1,8,8,1\n2,8,8,3\n", "share;m;n;k\n25%;1;8;8\n0,75;2;8;8\n",
    "m,n,k,count\n1,8,8,2\n2,8,8,5\n2,8,8,1\n", "type,m,n,k\ngemm,1,8,8\n" + 3 * "gemm,2,8,8\n"])
def test_a_column_or_repeated_rows_tell_the_weights_of_a_table(tmp_path: Path, text: str) -> None:
    assert read("gemm", write(tmp_path, text)) == {gemm(1): 0.25, gemm(2): 0.75}


def test_the_lines_of_a_log_are_counted_and_sources_count_the_same(tmp_path: Path) -> None:
    log = write(tmp_path, 3 * "gemm m=1 n=8 k=8\n" + '{"type": "gemm", "m": 2, "n": 8, "k": 8}\n', "shapes.log")
    table = write(tmp_path, "m,n,k,count\n2,8,8,400\n")
    assert read("gemm", log, table) == {gemm(1): 0.375, gemm(2): 0.625}


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    said: list[str] = []
    lines = write(tmp_path, "gemm m=1 n=8 k=8\nconv2d c=4 h=8 k=4 r=3\ngemm m=2 n=8 k=8\n", "a.txt")
    rows = write(tmp_path, "m,n,k,count\n1,8,8,0\n2,8,8,1\n3,8,8,1\n")
    assert len(read("gemm", lines, rows, said=said)) == 3
    assert said == [f"{lines}: left out 1 of conv2d", f"{rows}: left out 1 of weight 0"]


@needs("onnx")
def test_the_layers_of_a_model_count_as_often_as_they_occur(tmp_path: Path) -> None:
    shapes = read("gemm", str(write_network(tmp_path / "model.onnx")), write(tmp_path, "m,n,k\n1,8,8\n"))
    assert sum(shapes.values()) == pytest.approx(1, abs=1e-5)
    assert len(read("conv2d", "resnet18:2")) == 12


def test_aiters_untuned_table_is_read_as_aiter_means_it(tmp_path: Path) -> None:
    rows = "M,N,K\n16, 1536, 7168\n32, 576, 7168\n"
    table = write(tmp_path, rows, "a8w8_blockscale_untuned_gemm.csv")
    first = next(iter(read("quantized_gemm", table)))
    assert first.brief() == "quantized_gemm m=16 n=1536 k=7168 dtype=fp8 weight_dtype=fp8 scale_n=128 scale_k=128"


def test_ranges_are_drawn_by_the_seed_and_are_the_domain(tmp_path: Path) -> None:
    shapes, domain = read_shapes("gemm", ["m=1..4096", "n=64,128 k=256"], 1, print)
    assert domain == ("m=1..4096", "n=64,128", "k=256")
    assert len(shapes) == 60
    assert {problem["n"] for problem in shapes} == {64, 128}
    rows = sorted(problem.size("m") for problem in shapes)
    assert rows[0] < 4
    assert rows[-1] > 2048
    assert read("gemm", *domain, seed=1).keys() == shapes.keys() != read("gemm", *domain, seed=2).keys()
    assert len(read("gemm", "m=1..80", "n=64", "k=64")) == 60, "narrow ranges draw the same shapes again"
    assert len(read("gemm", "m=1..5", "n=64", "k=64")) == 5
    both, domain = read_shapes("gemm", ["m=1..4", "n=8", "k=8", write(tmp_path, "m,n,k\n7,7,7\n")], 0, print)
    assert domain == ()
    assert both[gemm(7, 7, 7)] == pytest.approx(0.5)


@pytest.mark.parametrize(("text", "name", "said"), [
    ("m,n,k,weight\n1,8,8,1\n2,8,8,many\n", "a.csv", r"a\.csv:3: the weight 'many' is not a number of at least 0"),
    ("m,n,k,weight\n1,8,8,0\n2,8,8,0\n", "a.csv", r"a\.csv has no shape of gemm \(2 of weight 0\)"),
    ("gemm m=1 n=8 k=8\ngemm m=1\n", "a.log", r"a\.log:2: gemm needs n"),
    ("conv2d c=4 h=8 k=4 r=3\n", "a.txt", r"a\.txt has no shape of gemm \(1 of conv2d\)")])
def test_what_is_no_shape_is_said_in_one_line(tmp_path: Path, text: str, name: str, said: str) -> None:
    with pytest.raises(MisuseError, match=said) as error:
        read("gemm", write(tmp_path, text, name))
    assert "\n" not in str(error.value)
