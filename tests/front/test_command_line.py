"""The real command line on the llvm backend: answers on stdout, progress on stderr, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import KERNELS, kernel
from seqtune.kernels.space import SearchSpace, spaces_for
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.times.checkpoint import Checkpoint
from seqtune.predictor.times.translator import Translator
from seqtune.tuner.backends.discovery import find

COMMANDS = ("devices", "kernels", "predict", "tune", "replay", "train", "retrain", "evaluate", "export", "demo")
CONV = ["conv2d", "n=1", "c=16", "h=14", "w=14", "k=32", "r=3", "s=3", "pad=1"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untrained translator: valid answers, of no merit."""
    families = [kernel(name) for name in KERNELS if name.startswith("llvm.")]
    vocabulary = Vocabulary.build(families, [find("llvm:0")])
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny"
    return str(Checkpoint(Translator.of(vocabulary, width=16, layers=1, heads=2, hidden=16), vocabulary).save(folder))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs a command that must succeed; gives its one JSON object."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def call(*arguments: str) -> dict[str, Any]:
        code = main([*arguments, "--json"])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        found = json.loads(shown.out)
        assert isinstance(found, dict)
        return found

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Example: seqtune {command}" in shown
    assert "--json" in shown


def test_the_program_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {command} " in shown for command in COMMANDS)
    assert "--install-completion" in shown


def test_devices_have_a_short_name_and_their_facts(run: Any) -> None:
    found = run("devices")
    first = next(device for device in found["devices"] if device["backend"] == "llvm")
    assert first["alias"] == "llvm:0"
    assert first["name"] == find("llvm:0").name
    assert first["toolchain"]
    assert first["threads"] >= 1
    assert {device["backend"] for device in found["devices"]} | set(found["unavailable"]) == {"llvm", "opencl"}


def test_kernels_show_every_parameter_and_every_reason(run: Any) -> None:
    found = {one["name"]: one for one in run("kernels")["kernels"]}
    direct = kernel("llvm.direct")
    assert [one["name"] for one in found["llvm.direct"]["parameters"]] == [one.name for one in direct.parameters]
    assert all(one["reason"] for one in found["llvm.direct"]["constraints"])


def test_a_prediction_is_made_of_distinct_valid_configurations(run: Any, checkpoint: str) -> None:
    found = run("predict", *CONV, "--top", "7", "--checkpoint", checkpoint)
    problem = Problem.from_json(found["problem"])
    spaces = spaces_for(problem, find("llvm:0"))
    configurations = [one["configuration"] for one in found["candidates"]]
    assert len(configurations) == 7
    assert len({json.dumps(one) for one in configurations}) == 7
    assert {json.dumps(one) for one in configurations} <= {
        json.dumps(dict(one.settings)) for space in spaces for one in space}
    chances = [one["probability"] for one in found["candidates"]]
    assert chances == sorted(chances, reverse=True)
    assert found["winner"] == found["candidates"][0]
    assert "speedup" not in found


def test_fewer_candidates_come_only_where_the_space_is_smaller(run: Any, checkpoint: str) -> None:
    small = ["gemm", "m=1", "n=1", "k=1"]
    found = run("predict", *small, "--top", "1000", "--checkpoint", checkpoint)
    space = SearchSpace(kernel("llvm.gemm"), Problem.make("gemm", m=1, n=1, k=1), find("llvm:0"))
    assert len(found["candidates"]) == len(space) < 1000
    assert sum(one["probability"] for one in found["candidates"]) == pytest.approx(1.0)


@pytest.mark.parametrize(("text", "quoted"), [
    ("conv2d n=1 c=16 h=14 w=14 k=32 r=3 s=3 pad=1", True),
    ('{"type": "conv2d", "c": 16, "h": 14, "w": 14, "k": 32, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1}', True),
    ("conv -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1", False),
    ("./bin/MIOpenDriver conv -n 1 -c 16 -H 14 -W 14 -k 32 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -F 1", True),
    ("MIOpenDriver conv --batchsize 1 --in_channels 16 --in_h 14 --in_w 14 -k 32 -y 3 -x 3 -p 1 -q 1", False),
])
def test_a_problem_may_be_written_in_any_form(text: str, quoted: bool, run: Any, checkpoint: str) -> None:
    words = [text] if quoted else text.split()
    wanted = run("predict", *CONV, "--checkpoint", checkpoint)
    assert run("predict", "--checkpoint", checkpoint, *words) == wanted
    assert run("predict", *words, "--checkpoint", checkpoint) == wanted


def test_a_verified_prediction_says_what_was_measured_and_is_remembered(
        run: Any, checkpoint: str, tmp_path: Path) -> None:
    journal = str(tmp_path / "journal.sqlite")
    arguments = ["predict", *CONV, "--device", "llvm:0", "--top", "3", "--verify", "--seconds", "2",
                 "--checkpoint", checkpoint, "--journal", journal]
    found = run(*arguments)
    for one in [*found["candidates"], found["default"], found["winner"]]:
        assert one["status"] == "correct"
        assert one["seconds"] > 0
        assert one["spread"] >= 0
        assert 0 <= one["error"] < 1e-4
    assert found["winner"] in [*found["candidates"], found["default"]]
    assert found["speedup"] == pytest.approx(found["default"]["seconds"] / found["winner"]["seconds"])
    assert found["significant"] == (found["winner"]["configuration"] != found["default"]["configuration"])
    assert found["cached"] is False
    assert run(*arguments) == {**found, "cached": True, "elapsed_seconds": None}
    with Journal(journal) as kept:
        measured = {record.configuration for record in kept.records(run="verify")}
    assert len(measured) == len({json.dumps(one["configuration"]) for one in [*found["candidates"], found["default"]]})
    assert run(*arguments, "--no-cache")["cached"] is False


def test_fewer_candidates_of_a_remembered_verification_need_no_measurement(
        run: Any, checkpoint: str, tmp_path: Path) -> None:
    common = ["predict", "gemm", "m=64", "n=64", "k=64", "--verify", "--seconds", "1", "--checkpoint", checkpoint,
              "--journal", str(tmp_path / "journal.sqlite")]
    assert run(*common, "--top", "3")["cached"] is False
    assert run(*common, "--top", "2")["cached"] is True
    assert run(*common, "--top", "4")["cached"] is False


def test_a_verification_of_another_kernel_version_or_toolchain_is_not_used(
        run: Any, checkpoint: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    common = ["predict", "gemm", "m=64", "n=64", "k=32", "--top", "2", "--checkpoint", checkpoint]
    plain = run(*common)
    device, problem = find("llvm:0"), Problem.make("gemm", m=64, n=64, k=32)
    space = SearchSpace(kernel("llvm.gemm"), problem, device)
    wanted = {json.dumps(one["configuration"]) for one in [*plain["candidates"], plain["default"]]}
    verify = [*common, "--verify", "--seconds", "1", "--journal", str(path)]
    with Journal(path) as journal:
        for version, toolchain in ((99, device.toolchain), (1, "another compiler")):
            for one in space:
                if json.dumps(dict(one.settings)) in wanted:
                    journal.add(Record(problem, device.key, version, one, toolchain,
                                       Measurement(Status.CORRECT, (1e-9,) * 15, 0.0), 1.0, "verify"))
    assert run(*verify)["cached"] is False


def test_tuning_is_resumed_and_its_journal_becomes_a_data_set_a_checkpoint_and_a_table(
        run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal, data, made = tmp_path / "journal.sqlite", tmp_path / "data.parquet", tmp_path / "made"
    problems = tmp_path / "problems.csv"
    problems.write_text("type,m,n,k\n" + "".join(f"gemm,{m},32,16\n" for m in (8, 12, 16, 24, 32, 48)))
    arguments = ["tune", "--problems", str(problems), "--trials", "12", "--seed", "3", "--journal", str(journal)]
    first = run(*arguments)
    assert [one["measured"] for one in first["results"]] == [12] * 6
    again = run(*arguments)
    assert [one["measured"] for one in again["results"]] == [0] * 6
    assert [one["best"] for one in again["results"]] == [one["best"] for one in first["results"]]

    held_out = tmp_path / "held_out.txt"
    held_out.write_text("gemm m=24 n=32 k=16\ngemm m=48 n=32 k=16\n")
    report = run("export", "--journal", str(journal), "--out", str(data), "--hold-out", str(held_out))
    assert report["problems"] == 6
    assert Dataset.read(data).provenance == {"journal": "journal.sqlite"}  # whose machine it was is nobody's business
    report = run("train", str(data), "--out", str(made), "--epochs", "2", "--extra", "0")
    assert (report["problems"], report["epochs"]) == (4, 2)
    table = run("evaluate", str(data), "--checkpoint", str(made), "--methods", "seq2seq,random,default")["rows"]
    assert {(row["method"], row["measured"]) for row in table} == {
        (method, count) for method in ("seq2seq", "random", "default") for count in (0, 3, 5)}
    assert all(0 < row["share"] <= 1 and row["problems"] == 2 for row in table)
    report = run("retrain", str(made), str(data), "--rehearse", str(data), "--out", str(tmp_path / "again"),
                 "--epochs", "1", "--extra", "0", "--no-scratch")
    assert set(report["new"]) == {"before", "after"}
    assert run("predict", "gemm", "m=24", "n=32", "k=16", "--checkpoint", str(tmp_path / "again"))["candidates"]
    assert main(["evaluate", str(data), "--checkpoint", str(made), "--methods", "default"]) == 0
    assert "share" in capsys.readouterr().out


def test_what_timed_out_is_remembered_until_it_is_to_be_tried_again(run: Any, tmp_path: Path) -> None:
    path, device, problem = tmp_path / "journal.sqlite", find("llvm:0"), Problem.make("gemm", m=1, n=1, k=1)
    space = SearchSpace(kernel("llvm.gemm"), problem, device)
    with Journal(path) as journal:
        for row, configuration in enumerate(space):
            measurement = Measurement(Status.CORRECT, (1.0,)) if row else Measurement(Status.TIMEOUT, message="late")
            journal.add(Record(problem, device.key, space.kernel.version, configuration, device.toolchain, measurement))
    arguments = ["tune", "gemm", "m=1", "n=1", "k=1", "--strategy", "exhaustive", "--journal", str(path)]
    before, = run(*arguments)["results"]
    assert (before["trials"], before["measured"], before["failed"]) == (len(space), 0, 1)
    after, = run(*arguments, "--retry-failed")["results"]
    assert (after["trials"], after["measured"], after["failed"]) == (len(space), 1, 0)


def test_a_live_evaluation_measures_what_the_judge_brings(
        run: Any, checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal, data, problems = tmp_path / "journal.sqlite", tmp_path / "data.parquet", tmp_path / "problems.txt"
    problems.write_text("gemm m=20 n=20 k=20\n")
    run("tune", "gemm", "m=16", "n=16", "k=16", "--trials", "5", "--journal", str(journal))
    run("export", "--journal", str(journal), "--out", str(data))
    assert main(["evaluate", str(data), "--live", "--problems", str(problems), "--device", "llvm:0", "--json",
                 "--methods", "seq2seq,random,default", "--checkpoint", checkpoint]) == 0
    shown = capsys.readouterr()
    table = json.loads(shown.out)["rows"]
    assert "note: 1 of 1 problems are, or nearly are, training problems" in shown.err
    assert {(row["problems"], row["trained_on"]) for row in table} == {(1, 1)}
    assert all(0 < row["share"] <= 1 for row in table)


def test_of_a_set_those_of_one_type_may_be_tuned(run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems = tmp_path / "problems.txt"
    problems.write_text("gemm m=8 n=8 k=8\nconv2d c=8 h=8 w=8 k=8 r=1 s=1\n")
    arguments = ["--problems", str(problems), "--trials", "2", "--journal", str(tmp_path / "j.sqlite")]
    assert [one["problem"]["type"] for one in run("tune", "gemm", *arguments)["results"]] == ["gemm"]
    assert main(["tune", "convnd", *arguments]) == 2
    assert "there is no convnd in" in capsys.readouterr().err


def test_problems_that_nothing_solves_are_skipped_with_the_reason(run: Any, tmp_path: Path) -> None:
    problems = tmp_path / "problems.txt"
    problems.write_text("gemm m=8 n=8 k=8 dtype=int8\ngemm m=8 n=8 k=8\n")
    found = run("tune", "--problems", str(problems), "--trials", "2", "--journal", str(tmp_path / "j.sqlite"))
    assert len(found["results"]) == 1
    assert "fp32 only" in found["skipped"][0]["reason"]


def test_the_demo_shows_every_device_and_says_what_is_missing(
        run: Any, checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = find("llvm:0")
    monkeypatch.setattr("seqtune.tuner.backends.discovery.devices", lambda: [fast])
    monkeypatch.setattr("seqtune.tuner.backends.discovery.why_unavailable", lambda: {"opencl": "`ld` is missing"})
    found = run("demo", "--seconds", "1", "--checkpoint", checkpoint, "--journal", str(tmp_path / "j.sqlite"))
    assert [one["device"] for one in found["predictions"]] == [fast.name] * 2
    assert all(one["winner"]["status"] == "correct" for one in found["predictions"])
    assert found["unavailable"] == {"opencl": "`ld` is missing"}


def test_a_demo_that_can_show_nothing_fails_and_says_why(
        checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    strange = replace(find("llvm:0"), backend="abacus", name="abacus:0")
    monkeypatch.setattr("seqtune.tuner.backends.discovery.devices", lambda: [strange])
    assert main(["demo", "--checkpoint", checkpoint, "--journal", str(tmp_path / "j.sqlite")]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "nothing could be shown: abacus:0: " in shown.err


def test_the_shell_is_told_what_may_follow() -> None:
    words = {"_SEQTUNE_COMPLETE": "complete_bash", "COMP_WORDS": "seqtune re", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-m", "seqtune"], env={**os.environ, **words}, capture_output=True,
                          text=True, cwd=Path(__file__).parents[2], check=False)
    assert "retrain" in done.stdout.split()


def test_ctrl_c_is_one_line_and_the_run_is_resumed(run: Any, tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    arguments = ["tune", "gemm", "m=64", "n=64", "k=64", "--strategy", "exhaustive", "--journal", str(journal)]
    process = subprocess.Popen([sys.executable, "-m", "seqtune", *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
                               env={**os.environ, "XDG_DATA_HOME": str(tmp_path)}, start_new_session=True)
    done = 0
    deadline = time.monotonic() + 60
    while done < 20 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
        if journal.exists():
            with Journal(journal) as kept:
                done = sum(1 for _ in kept.records())
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == ""
    lines = [line for line in errors.splitlines() if line.startswith("seqtune: ")]
    assert len(lines) == 1
    assert "run again to resume" in lines[0]
    assert "Traceback" not in errors
    with Journal(journal) as kept:
        held = sum(1 for _ in kept.records())
    assert held >= 20
    found = run(*arguments[:4], "--trials", str(held + 5), *arguments[4:])
    assert found["results"][0]["trials"] == held + 5
    assert found["results"][0]["measured"] <= 5 + 1


def test_a_terminal_without_unicode_is_no_error() -> None:
    code = ("from seqtune.__main__ import main; main(['--version'])\n"
            "from seqtune.cli import tables; tables._out.print(tables.duration(5e-6))")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONIOENCODING": "ascii"},
                          capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5 ?s"


def test_kernels_say_what_a_time_includes(run: Any) -> None:
    assert all("packed" in one["includes"] for one in run("kernels")["kernels"])


def test_kernels_that_were_printed_can_be_read(run: Any, tmp_path: Path) -> None:
    printed = run("kernels")
    (tmp_path / "kernels.json").write_text(json.dumps(printed))
    read = run("kernels", str(tmp_path / "kernels.json"))
    assert read == {"kernels": [{**one, "includes": None} for one in printed["kernels"]]}


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-m", "seqtune", "kernels"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert process.stdout is not None and process.stderr is not None  # noqa: PT018
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 1
    assert errors == b""
