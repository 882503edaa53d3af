"""`seqtune collect` on a device: its folder, how it is stopped and goes on, and that models train from it."""

from __future__ import annotations

from pathlib import Path

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.api.collecting.results import CollectionProgress
from seqtune.api.collecting.run import JOURNAL, MEASURED, split_for
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.data.journal.journal import Journal
from seqtune.errors import InterruptedTuning, MisuseError
from seqtune.kernels.problem_sets.collected import problems
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.backends.discovery import find
from tests.support.command_line import Run

PROBLEMS = ["gemm m=8 n=16 k=8", "gemm m=24 n=16 k=8"]


@pytest.mark.slow
def test_a_stopped_collection_keeps_what_was_measured_and_the_same_call_goes_on(
        tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "collected"

    def stop(step: str | CollectionProgress) -> None:
        if not isinstance(step, str):
            raise KeyboardInterrupt

    with pytest.raises(InterruptedTuning, match="run again to go on") as stopped:
        seqtune.collect(folder, PROBLEMS, "llvm:0", trials=3, progress=stop)
    report = stopped.value.report
    assert report.interrupted
    assert (report.records, report.problems, report.data) == (3, 1, folder / MEASURED)
    assert len(read_dataset(folder)) == 3, "`train` and `retrain` read the folder, which also holds the journal"

    arguments = ["collect", *PROBLEMS, "--device", "llvm:0", "--trials", "3", "--out", str(folder)]
    status = run(*arguments, "--status")
    assert status["records"] == 3
    (state,) = status["devices"]
    assert state["remaining"] == {"trials": 1, "repeats": 2, "proposals": 2, "contests": 2}
    done = run(*arguments)
    assert (done["problems"], done["devices"][0]["remaining"]) == (2, {})
    assert run(*arguments)["records"] == done["records"]
    data = read_dataset(folder / MEASURED)
    assert set(data.rows["run"]) >= {"random", "proposed", "contest"}
    assert data.provenance["made_by"] == "seqtune collect"
    assert main([*arguments, "--status"]) == 0
    assert capsys.readouterr().out == (f"{find('llvm:0').name}: complete\n"
                                       f"{folder / MEASURED}: {done['records']} records of 2 problems\n")


@pytest.mark.slow
def test_a_held_out_problem_stays_held_out_and_none_is_measured_unless_it_is_asked_for(tmp_path: Path) -> None:
    device = find("llvm:0")
    small = min(problems().held_out, key=lambda problem: problem.size("flop"))
    seqtune.collect(tmp_path / "collected", small, device, trials=1)
    data = read_dataset(tmp_path / "collected")
    assert data.problems() == [small]
    assert small.key in data.held_out
    assert not split_for(device, None, held_out=False, complete=True).held_out
    assert split_for(device, None, held_out=True, complete=True).held_out == problems().held_out
    assert split_for(device, [small], held_out=True, complete=True).training == ()


def test_the_first_device_measures_all_problems_and_the_others_the_smaller_ones(tmp_path: Path) -> None:
    device = find("llvm:0")
    complete, smaller = (split_for(device, None, held_out=True, complete=complete) for complete in (True, False))
    assert len(complete.training) > 400
    assert set(smaller.training) < set(complete.training)
    assert set(smaller.held_out) < set(complete.held_out)
    known = parse_problem("gemm m=4096 n=4096 k=4096")
    assert split_for(device, [known], held_out=False, complete=False).training == (known,)


def test_time_that_is_over_before_a_trial_leaves_nothing_half_done(tmp_path: Path) -> None:
    collected = seqtune.collect(tmp_path / "collected", PROBLEMS, "llvm:0", trials=3, minutes=1e-9)
    assert (collected.records, collected.data) == (0, None)
    assert "nothing is measured yet" in collected.conclusion()
    with Journal(tmp_path / "collected" / JOURNAL) as journal:
        assert not journal.count()


def test_the_state_after_a_kill_tells_that_the_data_set_is_not_written(tmp_path: Path) -> None:
    def stop(step: str | CollectionProgress) -> None:
        if not isinstance(step, str):
            raise KeyboardInterrupt

    with pytest.raises(InterruptedTuning):
        seqtune.collect(tmp_path, PROBLEMS[0], "llvm:0", trials=2, progress=stop)
    (tmp_path / MEASURED).unlink()  # a killed call has not written it
    state = seqtune.collect(tmp_path, PROBLEMS[0], "llvm:0", trials=2, status=True)
    assert (state.records, state.data) == (2, None)
    assert "2 records of 1 problems in the journal" in state.conclusion()


def test_a_file_that_no_collection_wrote_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / MEASURED).write_text("precious")
    with pytest.raises(MisuseError, match="no journal of a collection beside it"):
        seqtune.collect(tmp_path, PROBLEMS, "llvm:0", trials=1)
    assert [path.name for path in tmp_path.iterdir()] == [MEASURED], "nothing is measured before the complaint"
    assert (tmp_path / MEASURED).read_text() == "precious"
