"""House counts: what exists several times is found by its form, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.common.revisions import HERE
from benchmarks.robustness.house_counts import NOUNS, REASONS, Counts, counted, listing, table

PLANTED = {
    "kernels/launches/call.py": """
class Anything:
    steps: tuple[CallStep, ...]
""",
    "kernels/sizes.py": """
SIZES = {"fp32": 4, "fp16": 2, "bf16": 2}
TEXT = "{'fp32': 4, 'fp16': 2, 'int8': 1}[dtype]"
FEW = {"fp32": 4, "fp16": 2}
""",
    "tuner/backends/runs.py": """
class Runs:
    def load(self): ...
    def poison(self): ...
    def run(self): ...
    def output(self): ...
    def close(self): ...

class Asked(Protocol):
    def run(self): ...

class Guarded:
    def overrun(self):
        return (self.read(4096) != self.canaries).any()

class Driver:
    def margins(self, size):
        return MARGIN, MARGIN
""",
    "tuner/measuring/tests.py": """
def p_value(samples, others): ...
""",
    "benchmarks/rounds.py": """
def time(contestants, rounds):
    for _ in range(rounds):
        for index in generator.permutation(len(contestants)):
            seconds[index].append(contestants[index]())

def time_in_order(methods, repeats):
    for _ in range(repeats):
        for name, method in methods.items():
            start = perf_counter()
            method()
            taken[name].append(perf_counter() - start)

def once(contestants):
    for index in generator.permutation(len(contestants)):
        seconds = contestants[index]()

def time_one(method, repeats):
    for _ in range(repeats):
        start = perf_counter()
        method()
        taken.append(perf_counter() - start)
"""}


def test_each_is_found_once(tmp_path: Path) -> None:
    for name, text in PLANTED.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "seqtune").mkdir()
    (tmp_path / "seqtune" / "kernels").symlink_to(tmp_path / "kernels")  # not counted twice
    counts = counted(tmp_path)
    assert {noun: len(names) for noun, names in counts.names.items()} == {
        "launch models": 1, "tables of element types": 2, "executables": 1, "protocols around them": 1,
        "guarded buffers": 1, "loops of rounds": 2, "statistics of which is faster": 1}
    assert counts.names["executables"] == ["tuner/backends/runs.py: Runs"]
    assert counts.names["guarded buffers"] == ["tuner/backends/runs.py: Guarded"]
    assert counts.names["statistics of which is faster"] == ["tuner/measuring/tests.py"]
    assert counts.lines["kernels", "Python"] == sum(PLANTED[name].count("\n") for name in list(PLANTED)[:2])
    assert "| executables | 1 |" in table({"here": counts})


def test_lines_of_all_languages_are_counted(tmp_path: Path) -> None:
    for name, count in {"kernels/a.py": 1, "kernels/a.c": 2, "kernels/a.cl": 4, "tuner/a.cu": 8, "seqtune/a.js": 16,
                        "seqtune/a.html": 32, "tests/a.cpp": 64, "tests/a.md": 128, "benchmarks/a.sh": 256}.items():
        (path := tmp_path / name).parent.mkdir(exist_ok=True)
        path.write_text("0\n" * count)
    lines = table({"here": counted(tmp_path)}).splitlines()
    assert [line for line in lines if "all languages" in line] == [
        "| lines of the product, all languages | 63 |", "| lines of benchmarks, all languages | 256 |",
        "| lines of tests, all languages | 64 |"]
    assert "| lines of OpenCL in kernels/ | 4 |" in lines


def test_all_counted_names_are_listed_with_their_reasons(tmp_path: Path) -> None:
    counts = Counts({noun: ["a.py: x", "b.py: y"] for noun in NOUNS})
    listed = listing(counts, {"a.py: x": "the one"}).splitlines()
    assert "| loops of rounds | a.py: x | the one |" in listed
    assert len(listed) == 2 + 2 * len(NOUNS)


@pytest.fixture(scope="module")
def here() -> Counts:
    """The counts of the files at hand."""
    return counted(HERE)


def test_everything_that_is_counted_here_has_a_reason_and_nothing_else_has(here: Counts) -> None:
    names = [name for found in here.names.values() for name in found]
    assert sorted(names) == sorted(REASONS), "delete it, or write its reason down"


@pytest.mark.parametrize("noun", ["guarded buffers", "loops of rounds", "statistics of which is faster"])
def test_the_one_of_a_noun_is_among_what_is_counted(noun: str, here: Counts) -> None:
    assert [REASONS[name] for name in here.names[noun]].count("the one") == 1


def test_every_noun_is_counted_somewhere(here: Counts) -> None:
    assert set(here.names) == set(NOUNS)
