"""The command `dispatch`: what it passes on, what it prints, and what it refuses in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seqtune.__main__ import main
from seqtune.kernels.problem import Problem
from tests.support.command_line import Refused, Run
from tests.support.dispatched import dispatched

Given = dict[str, Any]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """What the command passes to `api.dispatch`, which answers at once."""
    passed: Given = {}

    def answer(operation: str, shapes: object, device: str, **options: Any) -> object:
        options.pop("progress")("chose 2 kernels")
        passed.update(options, operation=operation, shapes=shapes, device=device)
        return dispatched(options["goal"])

    monkeypatch.setattr("seqtune.api.dispatch", answer, raising=False)
    return passed


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "shapes.csv").write_text("m,n,k,share\n1,64,64,1\n2,64,64,3\n")
    return tmp_path / "shapes.csv"


def test_the_words_of_the_command_reach_the_function(given: Given, table: Path, run: Run) -> None:
    answer = run("dispatch", "gemm", "--shapes", table, "--device", "opencl:0", "--kernels", 8, "--slowdown", 1.2,
                 "--minutes", 5, "--domain", "m=1..64", "--domain", "n % 8 == 0", "--out", "out", "--seed", 3,
                 "--prefix", "products")
    shapes = {Problem.make("gemm", m=m, n=64, k=64): share for m, share in ((1, 0.25), (2, 0.75))}
    wanted = {"shapes": shapes, "operation": "gemm", "device": "opencl:0", "kernels": 8, "goal": "within",
              "slowdown": 1.2, "minutes": 5.0, "seed": 3, "fresh": 100, "prefix": "products",
              "domain": ["m=1..64", "n % 8 == 0"]}
    assert {name: given[name] for name in wanted} == wanted
    assert answer["kernels"] == 2


def test_the_answer_is_shown_with_the_knee_and_progress_stands_on_stderr(
        given: Given, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dispatch", "gemm", "--shapes", str(table), "--bytes", "20000", "--out", "out"]) == 0
    shown = capsys.readouterr()
    assert "chose 2 kernels" in shown.err
    assert (given["kernels"], given["bytes"], given["goal"]) == ("auto", 20000, "mean")
    text = " ".join(shown.out.split())
    for part in ("2 0.951 0.923 0.942 <- these ship", "m=3 n=64 k=64; m=64 n=64 k=64; m=128 n=64 k=64; and 1 more",
                 "on the given shapes: rule 0.932, single 0.670, default 0.549", "written: out/dispatch.json"):
        assert part in text, part


@pytest.mark.parametrize(("words", "said"), [
    (["gemm", "--shapes", "resnet18"], "name the folder to write (--out FOLDER)"),
    (["gemm", "--out", "out"], "name the shapes (--shapes"),
    (["gemm", "--shapes", "resnet18", "--out", "out"], "resnet18 has no shape of gemm (12 of conv2d)"),
    (["conv2d", "--shapes", "resnet18", "--out", "out", "--kernels", "0"], "--kernels '0' is neither"),
    (["conv2d", "--shapes", "resnet18", "--out", "out", "--kernels", "9" * 5000], "is neither a number of kernels"),
    (["conv2d", "--shapes", "nothing.csv", "--out", "out"], "no problem set and no file 'nothing.csv'")])
def test_a_misuse_is_one_line(words: list[str], said: str, given: Given, refused: Refused) -> None:
    assert said in refused("dispatch", *words)
    assert not given
