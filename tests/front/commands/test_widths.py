"""Tables on narrow terminals: words, such as the parameters of a configuration, are never broken; and no colours."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys

import pytest

from seqtune.cli.tables import console
from tests.support.paths import ROOT


@pytest.fixture(params=[40, 80, 200])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A terminal of this width."""
    monkeypatch.setattr(console.out, "wraps", True)
    monkeypatch.setattr(console.out, "_width", request.param)
    return int(request.param)


def words(generator: random.Random, count: int) -> str:
    """A text like a configuration."""
    return " ".join(f"{'p' * generator.randint(1, 12)}={generator.randint(1, 10 ** generator.randint(1, 6))}"
                    for _ in range(count))


def test_a_table_breaks_between_words_or_becomes_lines(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(30):
        generator = random.Random(seed)
        table = console.table_of("", "problem", "configuration", "time", "spread", "error", right=("time",))
        rows = [("default", words(generator, 4), words(generator, generator.randint(1, 9)), "12 µs", "7.9 %", "1.4e-06")
                for _ in range(3)]
        for row in rows:
            table.add_row(*row)
        console.show(table)
        shown = capsys.readouterr().out
        assert all(len(line) <= width for line in shown.splitlines())
        for text in (text for row in rows for text in row):
            assert set(text.split()) <= set(shown.split()), shown


def test_a_line_breaks_between_words_on_a_terminal_and_stays_whole_elsewhere(
        width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = "winner: " + words(random.Random(1), 30)
    console.out.print(text, markup=False, soft_wrap=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert [word for line in lines for word in line.split()] == text.split()
    monkeypatch.setattr(console.out, "wraps", False)
    console.out.print(text, markup=False, soft_wrap=True)
    assert capsys.readouterr().out == text + "\n"


def test_a_table_of_several_devices_becomes_one_for_each_where_it_is_too_wide(
        width: int, capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"device": device, "method": method, "share": 0.5, "problems": problems}
               for device, problems in (("llvm:avx512:2", 9), ("llvm:avx2:2", 7)) for method in ("seqtune", "default")]
    console.rows(records, by="device")
    shown = capsys.readouterr().out
    assert shown.count("method") == (2 if width == 40 else 1)
    assert ("in all rows: device llvm:avx512:2 |" in shown) is (width == 40)


def run_on_a_terminal(*words: str, **variables: str) -> str:
    """What a command shows on a terminal of 80 columns."""
    pty = pytest.importorskip("pty")  # Windows has none
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
    process = subprocess.Popen([sys.executable, "-m", "seqtune", *words], stdout=theirs, stderr=theirs, cwd=ROOT,
                               env={**kept, "TERM": "xterm-256color", "COLUMNS": "80", **variables})
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0
    return shown.decode()


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_has_colours_unless_no_color_is_set(no_color: bool) -> None:
    shown = run_on_a_terminal("kernels", "llvm.gemm", **({"NO_COLOR": "1"} if no_color else {}))
    shown += run_on_a_terminal("predict", "gemm", "m=8", "n=8", "k=8", **({"NO_COLOR": "1"} if no_color else {}))
    assert "llvm.gemm" in shown
    coloured = re.search(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d", shown)  # a text or a background with a colour
    assert (coloured is None) is no_color
