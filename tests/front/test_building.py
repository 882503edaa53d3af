"""The command `build` and `seqtune.build`: which configuration, which folder, and wrong input in a line."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Status
from seqtune.errors import DeviceError
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.measuring.verdicts import store_verdict
from seqtune.tuner.measuring.verification import decide
from tests.support.command_line import Refused, Run
from tests.support.installation.optional import needs
from tests.support.paths import ROOT

GEMM = ["build", "gemm", "m=8", "n=16", "k=4"]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def test_the_first_proposal_is_built_where_nothing_was_compared(run: Run, journal: Path, tmp_path: Path) -> None:
    built = run(*GEMM, "--out", tmp_path / "made", "--journal", journal)
    assert built["kernels"][0]["origin"] == "the first proposal"
    assert built["files"] == sorted(path.name for path in (tmp_path / "made").iterdir())
    assert json.loads((tmp_path / "made" / "launch.json").read_text())["kernels"][0]["seconds"] is None
    second = run(*GEMM, "--proposal", "2", "--out", tmp_path / "second", "--journal", journal)
    assert second["kernels"][0]["origin"] == "the second proposal"
    assert second["kernels"][0]["configuration"] != built["kernels"][0]["configuration"]


def test_the_winner_of_the_journal_is_built(run: Run, journal: Path, tmp_path: Path,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    device, problem = find("llvm:0"), Problem.make("gemm", m=8, n=16, k=4)
    task = Task.of(problem, device)
    winner = next(each for each in task.spaces[0] if each != task.default)
    measured = {configuration: Measurement(Status.CORRECT, (seconds,) * 18, 0.0)
                for configuration, seconds in ((task.default, 3e-6), (winner, 2e-6))}
    with Journal(journal) as opened:
        store_verdict(opened, problem, device, {kernel.name: kernel.version for kernel in task.kernels},
                      decide(measured, task.default, list(measured)), 10.0)
    assert main([*GEMM, "--out", str(tmp_path / "made"), "--journal", str(journal)]) == 0
    shown = capsys.readouterr().out
    assert f"{winner.brief()} (the winner verified on 20" in shown
    assert ", 2 µs, the default's 3 µs)" in shown
    [kernel] = json.loads((tmp_path / "made" / "launch.json").read_text())["kernels"]
    assert (kernel["configuration"], kernel["seconds"]) == (dict(winner.settings), pytest.approx(2e-6))
    first = run(*GEMM, "--out", tmp_path / "first", "--journal", journal, "--proposal", "1")
    assert first["kernels"][0]["configuration"] == dict(winner.settings), "it is the first row of `predict`, too"


def test_several_problems_are_one_folder(run: Run, journal: Path, tmp_path: Path) -> None:
    problems = tmp_path / "problems.txt"
    problems.write_text("gemm m=8 n=16 k=4\ngemm m=4 n=16 k=4\n")
    for device, library in (("llvm:0", True), ("opencl:0", False)):
        try:
            find(device)
        except DeviceError as reason:
            pytest.skip(str(reason))
        out = tmp_path / device.partition(":")[0]
        built = run("build", "--problems", problems, "--device", device, "--out", out, "--journal", journal)
        assert len(built["kernels"]) == 2
        assert (out / "README.md").exists()
        assert all((out / kernel["name"]).is_dir() is not library for kernel in built["kernels"])


@needs("onnx")
def test_the_problems_of_a_model_are_one_folder(run: Run, journal: Path, tmp_path: Path) -> None:
    from tests.support.onnx_files import write_network

    network = write_network(tmp_path / "network.onnx")
    built = run("build", "--problems", network, "--out", tmp_path / "out", "--journal", journal)
    assert [kernel["problem"]["type"] for kernel in built["kernels"]] == ["conv2d", "conv2d", "gemm"]


def test_wrong_input_gets_a_line_and_nothing_is_written(refused: Refused, journal: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").write_text("mine")
    out = tmp_path / "out"
    for words, message in (
            ((*GEMM, "--out", taken), "taken exists and is not an empty folder; choose another one"),
            ((*GEMM,), "name the folder to write (--out FOLDER)"),
            ((*GEMM, "--proposal", "1000", "--out", out), "there is no proposal 1000: gemm m=8 n=16 k=4 has "),
            (("build", "gemm", "m=8", "n=16", "k=4", "dtype=fp16", "--out", out), "no kernel of llvm solves"),
            ((*GEMM, "--device", "llvm:nothing", "--out", out), "no device"),
            ((*GEMM, "--out", "x" * 300), "is too long; choose a shorter one"),
            (("build", "--problems", "nothing.csv", "--out", out), "no problem set and no file")):
        assert message in refused(*words, "--journal", journal), words
    assert sorted(path.name for path in tmp_path.iterdir() if path != journal) == ["taken"]


def test_a_full_disk_is_a_failure_that_leaves_nothing(capsys: pytest.CaptureFixture[str], journal: Path, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    out = tmp_path / "new" / "out"
    assert main([*GEMM, "--out", str(out), "--journal", str(journal)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"seqtune: cannot write {out}: No space left on device"
    assert [path for path in tmp_path.iterdir() if path != journal] == []


@pytest.mark.device
def test_a_missing_checkpoint_hides_no_mistake_in_a_library_s_sources(
        refused: Refused, journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reason = opencl.unavailable()
    if reason:
        pytest.skip(reason)
    own = shutil.copytree(ROOT / "examples" / "vector_add", tmp_path / "own")
    words = ["build", "vector_add", "n=1024", "--library", str(own), "--allow-commands", "--device", "opencl:0",
             "--out", str(tmp_path / "out"), "--journal", str(journal)]
    assert "or tune the problem (seqtune tune), and `seqtune build` builds the winner" in refused(*words)
    source = own / "vector_add.cl"
    source.write_text(f'#include "nowhere.h"\n{source.read_text()}')
    assert main(words) == 1
    assert "the compiler refuses the kernel: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
