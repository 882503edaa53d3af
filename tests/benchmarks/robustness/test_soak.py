"""The soak test: its figures, its page, the other work and the memory that it watches."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.robustness import soak
from benchmarks.robustness.soak_contest import NOISE, noise_of, time_of
from benchmarks.robustness.soak_load import watched
from benchmarks.robustness.soak_page import draw, memory_figures, page, summary
from benchmarks.robustness.soak_tuning import add_row, drawn_problems, read_rows
from benchmarks.speed.busy_processes import BusyProcesses
from seqtune.errors import MisuseError

A, B = ({"kernel": "llvm.gemm", "settings": {"vector": vector}} for vector in (8, 16))


def row(problem: int, winner: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    return {"problem": problem, "seed": seed, "trials": 60, "wall": 2.0, "others": 0.5, "confidence": 0.9,
            "seconds": 1.0, "winner": winner, "counts": {"correct": 59, "timeout": 1, "samples": 590, "disturbed": 59,
                                                         "final_samples": 96, "final_disturbed": 3}}


def read() -> dict[str, list[dict[str, Any]]]:
    """The files of a state: on problem 0 both winners are alike, on problem 1 the loaded one takes 1.2 of the time."""
    return {
        "quiet": [row(0, A), row(1, A)], "again": [row(0, B), row(1, A)],
        "loaded": [row(0, B), row(1, B), row(0, A, 1)],
        "contest": [{"problem": 0, "text": "gemm m=1", "winners": [A, B], "times": [[1.0, 1.01], [1.0, 1.03]]},
                    {"problem": 1, "text": "gemm m=2", "winners": [A, B], "times": [[1.0, 1.0], [1.2, 1.2]]}],
        "loaded-memory": [*({"at": 60.0 * minute, "driver": 100e6 + minute * 1e5, "workers": 50e6, "together": 140e6,
                             "processes": 2} for minute in range(61)), {"at": 3610.0, "status": 0, "error": ""}]}


def test_the_share_of_agreeing_winners_and_the_growth_of_the_memory_are_stated(tmp_path: Path) -> None:
    results = {"machine": {}, "device": "llvm:0", "problems": 2, "trials": 60, **summary(read())}
    assert results["noise"] == NOISE
    assert results["agreement"]["again"]["share"] == 1.0
    assert (results["agreement"]["first"]["share"], results["agreement"]["first"]["largest"]) == (0.5, 1.2)
    assert results["agreement"]["every"]["count"] == 3
    assert results["memory"]["driver"]["slope"] == pytest.approx(6e6)
    assert results["memory"]["together"]["begin"] == results["memory"]["together"]["end"] == 140e6
    written = page(json.loads(json.dumps(results)))
    assert "for 60 minutes: 3 searches with 180 trials, of which 3 failed to run" in written.claim
    assert "On 50 % of 2 problems the winner is as fast" in written.claim
    assert "| loaded | 3 | 180 | 30.0 | 50 % | 10.00 % | 3.12 % | 3 |" in written.tables
    draw(tmp_path / "figure.svg", results)
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_noise_is_the_difference_of_equal_configurations_but_not_below_its_bound() -> None:
    rows = read()["contest"]
    assert noise_of([]) == noise_of(rows) == NOISE
    assert noise_of([{"times": [[1.0, 1.5]] * 10}]) == pytest.approx(0.5)
    assert time_of(rows[1], B) == 1.2
    assert memory_figures(read()["loaded-memory"][:5], "driver") == {}


def test_a_line_that_was_cut_off_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert read_rows(path) == []
    add_row(path, {"a": 1})
    with path.open("a") as file:
        file.write('{"a": ')
    assert read_rows(path) == [{"a": 1}]


def test_the_other_work_ends_with_the_run() -> None:
    before = {process.pid for process in psutil.Process().children()}
    with BusyProcesses(2):
        busy = [process for process in psutil.Process().children() if process.pid not in before]
        assert len(busy) == 2
    assert not any(process.is_running() for process in busy)


def test_memory_and_the_last_words_of_a_process_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.robustness.soak_load.EVERY", 0.2)
    *looks, last = watched([sys.executable, "-c", "import sys, time; time.sleep(1); sys.exit('no more')"])
    assert any(look["driver"] > 1e6 and look["together"] > 1e6 and look["processes"] == 1
               for look in looks)  # a look may fall on the process's beginning or end
    assert (last["status"], last["error"]) == (1, "no more")


def test_problems_are_drawn_in_turn_and_a_state_belongs_to_its_options(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert [problem.type for problem in drawn_problems(5)] == ["conv2d", "gemm", "conv2d", "gemm", "conv2d"]
    assert drawn_problems(4) == drawn_problems(4)
    for name, rows in read().items():
        for each in rows:
            add_row(tmp_path / f"{name}.jsonl", each)
    arguments = ["soak", "--state", str(tmp_path), "--problems", "2", "--phase", "loaded"]
    monkeypatch.setattr(sys, "argv", arguments)
    soak.main()
    assert "loaded is complete" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*arguments[:-1], "contest", "--json"])
    soak.main()
    assert json.loads(capsys.readouterr().out)["agreement"]["first"]["share"] == 0.5
    monkeypatch.setattr(sys, "argv", [*arguments, "--trials", "9"])
    with pytest.raises(MisuseError, match="other options"):
        soak.main()
