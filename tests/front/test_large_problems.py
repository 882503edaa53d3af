"""Problems with tensors of more than 2^31 elements: they are predicted, and refused in one line where one measures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.api import predict
from tests.support.command_line import Refused, Run
from tests.support.installation.optional import skip_without_device

PRODUCT = ("gemm", "m=100000", "n=100000", "k=64")
LARGEST = ("conv2d", "n=1048576", "c=1048576", "size=1000", "k=1048576", "r=3", "pad=1")  # 2^59.9 elements


@pytest.mark.parametrize(("problem", "device"), [
    (PRODUCT, "llvm:0"), (LARGEST, "llvm:0"), (("gemm", "m=1048576", "n=1048576", "k=1048576"), "llvm:0"),
    (("attention", "n=1024", "heads=1024", "q_len=1000000", "head_dim=1024"), "llvm:0"),
    ((*PRODUCT, "dtype=fp16"), "cuda:h100"), (("fused_moe", "tokens=1000000", "experts=128", "top_k=8", "hidden=7168",
                                               "intermediate=2048"), "triton:h200"),
    (("conv2d", "n=512", "c=256", "size=224", "k=256", "r=3", "pad=1"), "miopen:gfx942_304")])
def test_a_large_problem_is_predicted_with_finite_numbers(run: Run, problem: tuple[str, ...], device: str) -> None:
    answer = run("predict", *problem, "--device", device, "--top", 2)
    assert len(answer["candidates"]) == 2
    assert all(0 <= candidate["probability"] <= 1 for candidate in answer["candidates"])
    assert "NaN" not in json.dumps(answer)
    assert "Infinity" not in json.dumps(answer)


def test_a_file_with_large_problems_is_predicted(tmp_path: Path) -> None:
    path, out = tmp_path / "large.csv", tmp_path / "answers.jsonl"
    path.write_text("m,n,k\n64,64,64\n100000,100000,64\n")
    assert main(["predict", "--problems", str(path), "--out", str(out)]) == 0
    small, large = map(json.loads, out.read_text().splitlines())
    assert (small["problem"]["m"], large["problem"]["m"]) == (64, 100000)
    alone = predict("gemm m=100000 n=100000 k=64").winner.configuration
    assert large["candidates"][0]["configuration"] == dict(alone.settings)
    assert 0 < large["candidates"][0]["probability"] <= 1


@pytest.mark.parametrize("device", ["opencl:0", "cuda:h100", "triton:h200"])
def test_kernels_that_index_with_32_bits_say_so(refused: Refused, device: str) -> None:
    if device == "opencl:0":
        skip_without_device(device)
    line = refused("predict", *PRODUCT, "--device", device)
    assert "C has more than 2^31 elements, and its code indexes with 32 bits" in line


def test_whatever_measures_refuses_a_large_problem_in_one_line(refused: Refused, tmp_path: Path) -> None:
    path, journal = tmp_path / "large.txt", tmp_path / "journal"
    path.write_text(" ".join(PRODUCT))
    for words in (("tune", *PRODUCT, "--journal", journal), ("predict", *PRODUCT, "--verify", "--journal", journal),
                  ("collect", "--problems", path, "--device", "llvm:0", "--out", tmp_path / "collected"),
                  ("calibrate", "--problems", path, "--journal", journal)):
        line = refused(*words)
        assert "y has 10000000000 elements, and a tensor that is measured has at most 2147483648 (2^31)" in line
        assert "`seqtune predict` answers where nothing is measured" in line
    assert not journal.exists()
    assert not (tmp_path / "collected").exists()
