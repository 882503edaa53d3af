"""A declared default that fails while others would run: the next one serves, and the messages say so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.backends.command import backend as command
from tests.support.command_line import Run
from tests.support.installation.optional import skip_without_device
from tests.support.libraries.stencil import write
from tests.support.untrained import save

# As Kernel Tuner's reduction.cl: the first value of a parameter does not compile.
PROGRAM = """name = "tool"
[operations.work]
features = {n = "size"}
[kernels.unrolled]
parameters = {unroll = [0, 1, 2], block = [1, 2]}
[kernels.unrolled.command]
run = ["/bin/sh", "bench.sh", "{unroll}", "{block}"]
"""
SCRIPT = """[ "$1" = 0 ] && { echo "error: invalid value '0'" >&2; exit 1; }
echo '{"seconds": 0.00'$((1 + $1 + $2))', "checksum": 7.5}'
"""
DEFAULT = "the default configuration of tool.unrolled failed: the program ended with status 1: error: invalid value '0'"
OPENCL = """name = "unrolled"
[operations.copies]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = "n"}
[kernels.k]
parameters = {unroll = [0, 1, 2]}
[kernels.k.opencl]
text = '''__kernel void k(__global const float *x, __global float *y) {
    float bad[unroll - 1 < 0 ? -1 : 1]; y[get_global_id(0)] = 2 * x[get_global_id(0)];
}'''
entry = "k"
arguments = ["x", "y"]
global = ["n"]
"""
on_linux = pytest.mark.skipif(sys.platform != "linux" or bool(command.unavailable()), reason="no programs here")


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The words of a command after its verb, with a library whose default fails."""
    (tmp_path / "bench.sh").write_text(SCRIPT)
    return ["work n=4", "--library", str(write(tmp_path, PROGRAM)), "--allow-commands", "--device", "command:cpu",
            "--journal", str(tmp_path / "journal.sqlite")]


def checkpoint(tmp_path: Path, device: Device, kernel: str) -> tuple[str, str]:
    """The option that names a checkpoint for the library's kernel, without which nothing is predicted."""
    seqtune.use_library(tmp_path / "library.toml", allow_commands=True)
    return "--checkpoint", str(save(tmp_path / "checkpoint", device, kernel))


@on_linux
def test_tune_compares_with_the_next_configuration_and_says_how_to_declare_it(
        tmp_path: Path, words: list[str], run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    [result] = run("tune", *words, "--trials", "6")["results"]
    assert result["default"]["configuration"] == {"unroll": 1, "block": 2}
    assert result["default"]["seconds"] == pytest.approx(0.004)
    assert result["best"]["configuration"] == {"unroll": 1, "block": 1}
    assert result["failed"] == 2
    [failure] = result["failures"]
    assert (failure["status"], failure["count"], failure["message"]) == ("runtime", 2, DEFAULT.partition("failed: ")[2])
    assert failure["common"] == {"unroll": [0]}
    assert failure["configuration"]["unroll"] == 0
    assert result["failed_default"].startswith(DEFAULT)
    assert "compared with unroll=1 block=2 instead" in result["failed_default"]
    assert "write `default = {unroll = 1, block = 2}` for tool.unrolled in " in result["failed_default"]
    assert str(tmp_path / "library.toml") in result["failed_default"]
    assert main(["tune", *words, "--trials", "6"]) == 0
    shown = capsys.readouterr().out
    assert f"work n=4: {DEFAULT}" in shown
    assert "work n=4: 2 of 6 trials failed: 2 runtime (all have unroll=0): \"the program ended" in shown
    with Journal(tmp_path / "journal.sqlite") as journal:
        failed = {record.configuration.brief() for record in journal.records(parse_problem("work n=4"))
                  if record.measurement.status is Status.RUNTIME}
    assert failed == {"unroll=0 block=1", "unroll=0 block=2"}


@on_linux
@pytest.mark.usefixtures("few_rounds")
def test_where_no_stand_in_runs_the_error_says_how_many_were_tried(
        tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bench.sh").write_text("echo 'error: no tile' >&2; exit 1\n")
    safe = checkpoint(tmp_path, command.devices()[0], "tool.unrolled")
    assert main(["predict", *words, "--verify", "--top", "1", "--seconds", "60", *safe]) == 1
    errors = capsys.readouterr().err
    assert "nothing ran on command:cpu: the default configuration of tool.unrolled failed: " in errors
    assert "and so did 5 more" in errors


@pytest.mark.device
def test_a_problem_without_a_right_result_is_named_and_the_others_of_the_set_are_tuned(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    skip_without_device("opencl:0")
    library = OPENCL.replace("unroll - 1 < 0", "BAD") + 'defines = {BAD = "n == 5"}\n'
    (tmp_path / "set.txt").write_text("copies n=4\ncopies n=5\ncopies n=6\n")
    command = ["tune", "--problems", str(tmp_path / "set.txt"), "--library", str(write(tmp_path, library)), "--device",
               "opencl:0", "--journal", str(tmp_path / "journal.sqlite"), "--trials", "3"]
    assert main([*command, "--json"]) == 1
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert [result["problem"]["n"] for result in report["results"]] == [4, 6]
    assert [problem["problem"]["n"] for problem in report["skipped"]] == [5]
    assert "there is nothing to compare with" in report["skipped"][0]["reason"]
    assert said.err.splitlines()[-1] == "seqtune: 1 of 3 problems could not be tuned; `skipped` and `failures` say why"
    assert main(command) == 1
    assert "copies n=5: not tuned: " in capsys.readouterr().out
