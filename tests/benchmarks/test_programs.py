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
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as runner
from benchmarks.common.contest import Contestant, take_turns
from benchmarks.prediction.results import draw, pooled, table
from benchmarks.programs import PROGRAMS, load
from seqtune.figures.picture import apart
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


def test_a_data_set_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks", "results", "--out", str(tmp_path / "out"), "--data",
                           str(tmp_path / "none.parquet")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none.parquet" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("program", "option"), [
    ("latency", "--problems"), ("latency", "--times"), ("layers", "--rounds"), ("networks", "--threads")])
@pytest.mark.parametrize("number", ["0", "many"])
def test_counts_are_above_0(program: str, option: str, number: str, programs: Programs) -> None:
    if program in NEED_TORCH:
        skip_without("torch")
    done = programs.run("benchmarks", program, option, number)
    assert done.returncode == 2
    assert "above 0" in done.stderr.splitlines()[-1]


def test_what_cannot_be_told_apart_is_marked() -> None:
    assert "| toy:0 (7) | 0 | **0.900** | 0.800 |" in table(rows(0.8, low=0.02))
    assert "| toy:0 (7) | 0 | **0.900** | 0.800* |" in table(rows(0.8, low=-0.02))


def test_all_devices_together_weigh_every_case_alike() -> None:
    few, many = rows(0.5, low=0.0), [{**row, "device": "toy:1", "problems": 21} for row in rows(0.8, low=0.0)]
    everywhere = {(row["method"], row["measured"]): row for row in pooled([*few, *many])}
    assert everywhere["fixed", 3]["share"] == pytest.approx((0.5 * 0.8**3) ** (1 / 4))
    assert everywhere["seqtune", 0]["problems"] == 28
    assert "| all devices (28) | 0 | **0.900** | 0.711 |" in table([*few, *many])


def test_the_figure_is_the_same_for_the_same_numbers(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw({"rows": rows(0.8, low=0.02)}, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_labels_are_moved_apart_and_no_further_than_needed() -> None:
    assert apart([1.0, 3.0], 1.0) == [1.0, 3.0]
    assert apart([1.0, 1.2, 5.0], 1.0) == pytest.approx([0.6, 1.6, 5.0])
    found = apart([2.0, 1.9, 2.1, 2.4], 1.0)
    assert sorted(found) == [found[1], found[0], found[2], found[3]]
    assert min(b - a for a, b in zip(sorted(found), sorted(found)[1:], strict=False)) >= 1.0 - 1e-12


def test_turns_are_taken_by_all_in_random_orders() -> None:
    order: list[str] = []
    seconds = take_turns([Contestant(name, partial(order.append, name), 0.0) for name in "abc"], rounds=8, rest=0.0)
    turns = [name for name, _ in groupby(order)]
    assert {previous for previous, name in pairwise(turns) if name == "a"} == {"b", "c"}  # no fixed predecessor
    assert seconds.keys() == set("abc")
    assert min(seconds.values()) > 0
