"""Exit codes: each row of the table in the reference is produced here, and the table has no others."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate import command_line
from seqtune.__main__ import main
from tests.support.paths import ROOT


def test_the_table_has_the_codes_of_these_tests() -> None:
    assert re.findall(r"^\| (\d+) \|", command_line.page(), re.M) == ["0", "1", "2", "130"]


def test_0_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "llvm.gemm"]) == 0
    assert capsys.readouterr().err == ""


def test_1_is_failed_though_what_was_asked_for_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "problems.txt").write_text("gemm m=8 n=16 k=32 dtype=fp16\n")
    assert main(["predict", "--problems", str(tmp_path / "problems.txt"), "--jobs", "1"]) == 1
    assert '"reason"' in capsys.readouterr().out


@pytest.mark.parametrize("words", [
    ["tune", "--nonsense"], ["predict", "gemm", "m=8"], ["devices", "--json", "surplus"], [],
    ["predict", "gemm", "m=8", "n=8", "k=8", "--device", "llvm:avx9"]])
def test_2_is_misused_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1


def test_ctrl_c_while_modules_load_is_interrupted_too() -> None:
    program = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'seqtune.cli.commands.tuning': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from seqtune.__main__ import main\n"
        "sys.exit(main(['devices']))\n")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "seqtune: interrupted\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for other processes")
def test_130_is_interrupted() -> None:
    """Reading problems from a pipe that stays open, so there is time."""
    process = subprocess.Popen([sys.executable, "-m", "seqtune", "predict", "--problems", "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        process.stdin.write("gemm m=8 n=8 k=8\n" * 100_000)  # more than a pipe holds: it reads once all is written
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == "seqtune: interrupted\n"
    finally:
        process.kill()
        process.stdin.close()
