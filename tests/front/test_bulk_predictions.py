"""`seqtune predict --problems`: many problems, one answer after the other."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.api import bulk
from tests.support.command_line import Refused
from tests.support.dispatchers import by_size, changed, saved
from tests.support.installation.optional import skip_without_semaphores
from tests.support.paths import ROOT

TEXT = """# two layers and a product
conv2d c=16 h=14 k=32 r=3 pad=1
gemm m=8 n=16 k=32

{"type": "gemm", "m": 64, "n": 48, "k": 20}
"""


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.txt"
    path.write_text(TEXT)
    return path


def test_each_problem_gets_a_line_with_the_answer_that_it_gets_alone(problems: Path,
                                                                     capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--problems", str(problems), "--top", "2", "--jobs", "1"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["problem"]["type"] for answer in answers] == ["conv2d", "gemm", "gemm"]
    for answer in answers:
        alone = seqtune.predict(answer["problem"], top=2).to_json()["candidates"]
        assert isinstance(alone, list)
        assert [candidate["configuration"] for candidate in answer["candidates"]] == [
            candidate["configuration"] for candidate in alone]
        assert answer["candidates"][0]["probability"] == pytest.approx(alone[0]["probability"], rel=1e-3)


@pytest.mark.parametrize("device", ["miopen:gfx906_60", "cuda:h200"])
def test_every_kind_of_predictor_answers_many_problems(device: str, tmp_path: Path,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "layers.txt"
    path.write_text("conv2d c=64 h=28 k=64 r=3 pad=1\nconv2d c=128 h=14 k=128 r=3 pad=1\n")
    assert main(["predict", "--problems", str(path), "--device", device, "--jobs", "1", "--top", "1"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(answer["candidates"]) for answer in answers] == [1, 1]


def test_a_table_has_a_row_for_each_candidate(problems: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.csv"
    assert main(["predict", "gemm", "--problems", str(problems), "--top", "3", "--out", str(out), "--jobs", "1"]) == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [row["rank"] for row in rows] == ["1", "2", "3"] * 2
    assert [row["line"] for row in rows] == ["3"] * 3 + ["5"] * 3
    assert {row["winner_configuration"] for row in rows} == {
        row["configuration"] for row in rows if row["rank"] == "1"}
    assert set(rows[0]) == set(bulk.COLUMNS)
    assert json.loads(rows[0]["configuration"])


def test_labels_of_a_csv_file_stand_beside_the_answers(tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_text("layer,seconds,m,n,k\nfirst,1,8,16,32\nsecond,,8,16,32\n,,4,16,32\nfirst,1,8,16,32\n")
    ask = ["predict", "--problems", str(path), "--top", "2", "--jobs", "1", "--out"]
    assert main([*ask, str(tmp_path / "answers.csv")]) == main([*ask, str(tmp_path / "answers.jsonl")]) == 0
    with (tmp_path / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]][:4] == ["line", "layer", "label_seconds", "problem"]
    assert [(row["line"], row["layer"], row["label_seconds"]) for row in rows[::2]] == [
        ("2", "first", "1"), ("3", "second", ""), ("4", "", "")]
    assert rows[0]["configuration"] == rows[2]["configuration"]  # two layers of one problem
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [answer.get("labels") for answer in answers] == [
        {"layer": "first", "seconds": "1"}, {"layer": "second"}, None]
    assert answers[0]["problem"] == answers[1]["problem"] != answers[2]["problem"]


def test_a_bad_line_is_named_and_nothing_is_written(problems: Path, tmp_path: Path, refused: Refused) -> None:
    problems.write_text(TEXT + "gemm m=8 n=sixteen k=32\n")
    out = tmp_path / "answers.jsonl"
    assert "problems.txt:6:" in refused("predict", "--problems", problems, "--out", out)
    assert not out.exists()


def test_problems_are_read_from_stdin() -> None:
    """In processes of their own, as a shell would."""
    for text, code, shown in (("gemm m=8 n=16 k=32\ngemm m=9\n", 2, "seqtune: stdin:2:"),
                              ("gemm m=8 n=16 k=32\n", 0, "line,problem,device,rank,")):
        words = [sys.executable, "-m", "seqtune", "predict", "--problems", "-", "--format", "csv", "--jobs", "1"]
        done = subprocess.run(words, input=text, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == code
        assert (done.stdout or done.stderr).startswith(shown)


def test_a_problem_that_no_kernel_solves_gets_the_reason(problems: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems.write_text("gemm m=8 n=16 k=32 dtype=fp16\ngemm m=8 n=16 k=32\n")
    assert main(["predict", "--problems", str(problems), "--jobs", "1"]) == 1
    shown = capsys.readouterr()
    first, second = (json.loads(line) for line in shown.out.splitlines())
    assert "fp16" in first["reason"] or "fp32" in first["reason"]
    assert first["candidates"] == []
    assert second["candidates"]
    assert "1 of 2 problems" in shown.err


@pytest.mark.parametrize("arguments", [
    ["--verify", "--jobs", "2"], ["--verify", "--seconds", "0"], ["--seconds", "5"], ["--verify", "--top", "51"],
    ["--verify", "--device", "cuda:h200"], ["--json"], ["--format", "xml"],
    ["--out", "/nowhere/answers.csv"], ["--jobs", "0"]])
def test_misuse_is_one_line(arguments: list[str], problems: Path, refused: Refused) -> None:
    refused("predict", "--problems", problems, *arguments)


@pytest.mark.usefixtures("few_rounds")
def test_one_budget_verifies_all_problems_and_every_row_has_its_line_and_the_winner(
        problems: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems.write_text("# two products\ngemm m=8 n=16 k=32\n\ngemm m=8 n=16 k=32 dtype=fp16\ngemm m=8 n=16 k=64\n")
    words = ["predict", "--problems", str(problems), "--verify", "--top", "2", "--seconds", "180", "--journal",
             str(tmp_path / "journal.sqlite")]
    assert main(words) == 1  # no kernel solves the second one
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["line"] for answer in answers] == [2, 4, 5]
    assert "fp16" in answers[1]["reason"] or "fp32" in answers[1]["reason"]
    for answer in (answers[0], answers[2]):
        assert answer["budget_seconds"] == 60.0
        assert answer["winner"]["status"] == "correct"
        assert len(answer["candidates"]) == 2
    assert main([*words, "--format", "csv"]) == 1
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["line"] for row in rows] == ["2", "2", "4", "5", "5"]
    for row in rows:
        winner = answers[0 if row["line"] == "2" else 2]["winner"]
        assert row["reason"] or float(row["winner_seconds"]) == winner["seconds"]  # from the journal
        assert row["reason"] or json.loads(row["winner_configuration"]) == winner["configuration"]


def test_equal_problems_are_answered_once_and_repeated() -> None:
    from seqtune.api import predict_many

    texts = ["gemm m=8 n=16 k=32", "gemm m=8 n=16 k=33", "gemm m=8 n=16 k=32"]
    answers = list(predict_many(texts))
    assert [answer.problem["k"] for answer in answers] == [32, 33, 32]
    assert answers[0] is answers[2]


def test_ctrl_c_is_answered_by_the_first_process_alone() -> None:
    skip_without_semaphores()
    ask: Any = partial(signal.getsignal)
    with bulk._mapping(2, ask) as mapped:
        answers: list[Any] = list(mapped([signal.SIGINT]))
    assert answers == [signal.SIG_IGN]


@pytest.mark.slow
def test_processes_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from seqtune.api import predict_many

    monkeypatch.setattr(bulk, "FEW", 32)
    texts = [f"gemm m={m} n=16 k=32" for m in range(1, bulk.FEW + 1)]  # enough for a second process
    alone, shared = (list(predict_many(texts, jobs=jobs)) for jobs in (1, 2))
    for first, second in zip(alone, shared, strict=True):
        assert [one.configuration for one in first.candidates] == [one.configuration for one in second.candidates]
        assert [one.probability for one in first.candidates] == pytest.approx(
            [one.probability for one in second.candidates], rel=1e-5)  # processes use other numbers of threads


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_shapes_outside_of_the_domain_of_a_dispatch_are_counted(
        tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    members = [changed("llvm.gemm"), changed("llvm.gemm", unroll_k=2)]
    file = saved(tmp_path, by_size("m", 64, members, None, "m=8..512", "n=256", "k=256"))
    path = tmp_path / "products.txt"
    path.write_text("".join(f"gemm m=8 n={n} k=256\n" for n in (256, 512, 1024)))
    assert main(["predict", "--problems", str(path), "--checkpoint", str(file), "--format", form, "--jobs", "1"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "2 of 3 answers have a note, such as:" in said
    assert "gemm m=8 n=1024 k=256 is outside of the domain of dispatch.json" in said
