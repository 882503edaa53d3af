"""Tests of programs that make tables and figures: only the parts that measure nothing."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from functools import partial
from itertools import groupby, pairwise
from typing import Any

import pytest

from benchmarks import __main__ as runner
from benchmarks.common.contest import Contestant, take_turns
from benchmarks.prediction.results import table
from benchmarks.programs import PROGRAMS, load
from tests.support.installation.optional import skip_without
from tests.support.paths import ROOT
from tests.support.programs.programs import Programs

NEED_TORCH = ("miopen_paper", "networks", "predicted_layers")


def rows(share: float, low: float) -> list[dict[str, object]]:
    """Make rows of seqtune and of a fixed configuration that reaches `share` of the speed."""
    return [{"device": "toy:0", "method": method, "measured": count, "share": 0.9 if method == "seqtune" else share,
             "problems": 7, "low": None if method == "seqtune" else low, "high": None if method == "seqtune" else 0.1,
             "worse": False} for method in ("seqtune", "fixed") for count in (0, 3, 5)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_says_what_it_does_without_data(program: str, programs: Programs) -> None:
    if program in NEED_TORCH:
        skip_without("torch")
    done = programs.run("benchmarks", program, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: python -m benchmarks {program} ")


def test_the_list_of_programs_names_their_questions_and_pages(capsys: pytest.CaptureFixture[str]) -> None:
    runner.main([])
    listed = capsys.readouterr().out
    for name, program in PROGRAMS.items():
        line, = (line for line in listed.splitlines() if line.split()[:1] == [name])
        assert program.question in line
        assert all(page in line for page in program.pages)


def documented() -> list[str]:
    """The commands that README.md and the documentation name, in code and in shell blocks."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = "\n\n".join(path.read_text().replace("\\\n", " ") for path in pages)
    found = re.findall(r"`python -m benchmarks ([^`]+)`", text) + re.findall(r"^python -m benchmarks (.+)$", text, re.M)
    return sorted({" ".join(command.split()) for command in found if not command.startswith("NAME")})


class Accepted(Exception):
    """A program has accepted its arguments."""


@pytest.mark.parametrize("command", documented())
def test_a_documented_command_is_accepted(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def accept(*arguments: Any) -> None:
        parse(*arguments)
        raise Accepted

    name, *options = shlex.split(command, comments=True)
    if name in NEED_TORCH:
        skip_without("torch")
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", accept)
    with pytest.raises(Accepted):
        load(PROGRAMS[name].main)(options)


def test_an_unknown_program_is_one_line(programs: Programs) -> None:
    done = programs.run("benchmarks", "nothing")
    assert done.returncode == 2
    assert done.stderr == "benchmarks: no program is called 'nothing' (python -m benchmarks lists them)\n"


@pytest.mark.parametrize("arguments", [(), ("headline", "--help")])
def test_a_reader_that_leaves_early_sees_no_traceback(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, stdout=writing,
                          stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.stderr == ""


def test_what_cannot_be_told_apart_is_marked() -> None:
    assert "| toy:0 (7) | 0 | **0.900** | 0.800 |" in table(rows(0.8, low=0.02))
    assert "| toy:0 (7) | 0 | **0.900** | 0.800* |" in table(rows(0.8, low=-0.02))


def test_turns_are_taken_by_all_in_random_orders() -> None:
    order: list[str] = []
    seconds = take_turns([Contestant(name, partial(order.append, name), 0.0) for name in "abc"], rounds=8, rest=0.0)
    turns = [name for name, _ in groupby(order)]
    assert {previous for previous, name in pairwise(turns) if name == "a"} == {"b", "c"}  # no fixed predecessor
    assert seconds.keys() == set("abc")
    assert min(seconds.values()) > 0
