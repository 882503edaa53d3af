"""The real command line: answers on stdout, progress on stderr, exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.__main__ import main, noted_warnings
from seqtune.errors import warned
from seqtune.kernels.declaration import to_json
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace, spaces_for
from seqtune.tuner.backends.backend import BACKENDS
from seqtune.tuner.backends.discovery import find
from tests.support.command_line import Run
from tests.support.installation.optional import skip_without
from tests.support.paths import ROOT

COMMANDS = ("devices", "kernels", "predict", "build", "tune", "replay", "collect", "train", "retrain", "evaluate",
            "export", "export-c", "serve-files", "demo", "doctor", "calibrate", "report", "import", "fleet")
CONV = ["conv2d", "n=1", "c=16", "h=14", "w=14", "k=32", "r=3", "s=3", "pad=1"]


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


def test_a_warning_is_printed_once_as_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    with noted_warnings():
        warned("two problems\nare odd")
        warned("two problems\nare odd")
    assert capsys.readouterr().err == "note: two problems are odd\n"


def test_devices_have_a_short_name_and_their_facts(run: Run) -> None:
    found = run("devices")
    first = next(device for device in found["devices"] if device["backend"] == "llvm")
    assert first["alias"] == "llvm:0"
    assert first["name"] == find("llvm:0").name
    assert first["toolchain"]
    assert first["threads"] >= 1
    assert {device["backend"] for device in found["devices"]} | set(found["unavailable"]) == set(BACKENDS)


def test_kernels_show_every_parameter_and_every_reason(run: Run) -> None:
    found = {one["name"]: one for one in run("kernels")["kernels"]}
    direct = kernel("llvm.direct")
    assert [one["name"] for one in found["llvm.direct"]["parameters"]] == [one.name for one in direct.parameters]
    assert all(one["reason"] for one in found["llvm.direct"]["constraints"])


def test_named_families_are_shown_alone_and_win_over_files_of_their_names(
        run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("triton.gemm").write_text(json.dumps({"kernels": [to_json(kernel("llvm.gemm"))]}))
    for words, names in ((["triton.gemm"], ["triton.gemm"]), (["./triton.gemm"], ["llvm.gemm"]),
                         (["cuda.direct", "triton.gemm", "cuda.direct"], ["cuda.direct", "triton.gemm"])):
        assert [one["name"] for one in run("kernels", *words)["kernels"]] == names


def test_a_prediction_is_made_of_distinct_valid_configurations(run: Run, checkpoint: Path) -> None:
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


def test_fewer_candidates_come_only_where_the_space_is_smaller(run: Run, checkpoint: Path) -> None:
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
def test_a_problem_may_be_written_in_any_form(text: str, quoted: bool, run: Run, checkpoint: Path) -> None:
    words = [text] if quoted else text.split()
    wanted = run("predict", *CONV, "--checkpoint", checkpoint)
    assert run("predict", "--checkpoint", checkpoint, *words) == wanted
    assert run("predict", *words, "--checkpoint", checkpoint) == wanted


@pytest.mark.usefixtures("few_rounds")
def test_the_demo_shows_every_device_and_says_what_is_missing(
        run: Run, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = find("llvm:0")
    monkeypatch.setattr("seqtune.tuner.backends.discovery.devices", lambda: [fast])
    monkeypatch.setattr("seqtune.tuner.backends.discovery.why_unavailable", lambda: {"opencl": "`ld` is missing"})
    found = run("demo", "--seconds", "60", "--checkpoint", checkpoint, "--journal", tmp_path / "j.sqlite",
                "--out", tmp_path / "built")
    [built] = found["built"]["kernels"]
    shown = next(one for one in found["predictions"] if one["problem"] == built["problem"])
    words = "the winner" if shown["significant"] else "the default, which nothing beat surely,"
    assert re.fullmatch(f"{words} verified on 20\\d\\d-\\d\\d-\\d\\d", built["origin"])
    assert (tmp_path / "built" / "README.md").exists()
    assert [one["device"] for one in found["predictions"]] == [fast.name] * 2
    assert all(one["winner"]["status"] == "correct" for one in found["predictions"])
    assert found["unavailable"] == {"opencl": "`ld` is missing"}


def test_a_demo_that_can_show_nothing_fails_and_says_why(
        checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    strange = replace(find("llvm:0"), backend="abacus", name="abacus:0")
    monkeypatch.setattr("seqtune.tuner.backends.discovery.devices", lambda: [strange])
    assert main(["demo", "--checkpoint", str(checkpoint), "--journal", str(tmp_path / "j.sqlite")]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("seqtune: nothing could be shown: ")
    assert "abacus:0: " in shown.err


@pytest.mark.parametrize(("shell", "words"), [
    ("bash", lambda text: {"COMP_WORDS": f"seqtune {text}", "COMP_CWORD": str(len(text.split()))}),
    ("zsh", lambda text: {"_TYPER_COMPLETE_ARGS": f"seqtune {text}"}),
    ("fish", lambda text: {"_TYPER_COMPLETE_ARGS": f"seqtune {text}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"})])
def test_a_shell_is_told_what_may_follow(shell: str, words: Callable[[str], dict[str, str]]) -> None:
    def ask(**variables: str) -> str:
        done = subprocess.run([sys.executable, "-m", "seqtune"], env={**os.environ, **variables}, capture_output=True,
                              text=True, cwd=ROOT, check=False)
        return done.stdout

    assert "_SEQTUNE_COMPLETE=complete_" + shell in ask(_SEQTUNE_COMPLETE=f"source_{shell}")
    assert "retrain" in ask(_SEQTUNE_COMPLETE=f"complete_{shell}", **words("re"))
    assert "--min-confidence" in ask(_SEQTUNE_COMPLETE=f"complete_{shell}", **words("predict --min"))


def test_a_terminal_without_unicode_is_no_error() -> None:
    code = ("from seqtune.__main__ import main; main(['--version'])\n"
            "from seqtune.cli.tables import tuning; tuning.out.print(tuning.duration(5e-6))")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONIOENCODING": "ascii"},
                          capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5 ?s"


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-m", "seqtune", "kernels"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None and process.stderr is not None  # noqa: PT018
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 1
    assert errors == b""


@pytest.mark.parametrize("arguments", [
    ["predict", *CONV, "--journal", "a" * 300], ["train", "a" * 300, "--out", "b"],
    ["evaluate", "a" * 300], ["export", "--journal", "a" * 300, "--out", "b.parquet"]])
def test_a_file_name_that_is_too_long_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if arguments[0] == "train":
        skip_without("torch")
    assert main(arguments) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"seqtune: the file name {'a' * 60}... is too long; choose a shorter one"]


def test_output_that_the_shell_has_closed_is_no_error() -> None:
    done = subprocess.run(["/bin/sh", "-c", f"{shlex.quote(sys.executable)} -m seqtune kernels >&-"], cwd=ROOT,
                          stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_behind_the_output_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "seqtune", "kernels"], cwd=ROOT, stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["seqtune: cannot write the output: the disk is full"]
