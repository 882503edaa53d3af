"""The program that trains on little data: its draws and its page, without any training."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.prediction.small_data import COUNTS, METHODS, Runs, drawn, page, rows_of, summary
from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import FormatError
from seqtune.kernels.problem_sets.similarity import near
from tests.support.synthetic import WIDE, data


def _run(family: str, seed: int, trees: float) -> dict[str, object]:
    outcomes = [[f"problem {number}", method, count, trees if method == "trees" else -0.1 - number / 100]
                for number in range(5) for method in METHODS for count in COUNTS]
    return {"family": family, "seed": seed, "seconds": 3.0, "validation_seconds": 9.0, "outcomes": outcomes,
            "validated": outcomes if seed == 0 else []}


@pytest.mark.usefixtures("fake_kernel")
def test_judged_problems_are_near_no_training_problem() -> None:
    tasks = measured_tasks(data(16, held_out=0, sampled=40, devices=(WIDE,)), held_out=False)
    training, judged = drawn(tasks, 8, 12, 5, seed=1)
    assert len(training) == 8
    assert all(measured.known.sum() == 12 for measured in training)
    assert 0 < len(judged) <= 5
    assert not any(near(seen.problem, unseen.problem) for seen in training for unseen in judged)


def test_the_page_says_where_a_simple_method_is_better() -> None:
    about = {"problems": 8, "configurations": 12, "judged": 5, "further": 30, "threads": 1, "seeds": 2,
             "machine": {"cpu": "a CPU", "date": "2026-01-01"}}
    for trees, claim in ((-0.5, "No simple method is significantly better"),
                         (-0.01, "better than seqtune: toy (trees)")):
        runs = [_run("toy", seed, trees) for seed in range(2)]
        written = page({**about, "rows": rows_of(runs), "runs": [summary(run) for run in runs]})
        assert claim in written.claim
        assert "| toy | 0.887 | 0.887 | 3 | 9 | - |" in written.tables


def test_a_damaged_file_of_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    runs = Runs(path, {"problems": 8})
    runs.add(_run("toy", 0, -0.1))
    assert Runs(path, {"problems": 8}).done.keys() == {("toy", 0)}
    assert not Runs(path, {"problems": 9}).done
    path.write_text("{")
    with pytest.raises(FormatError, match=r"runs.jsonl:1 is not what this program writes"):
        Runs(path, {})
