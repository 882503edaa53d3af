"""The fuzzer finds what it looks for, and nothing in the readers here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from seqtune.errors import FormatError
from tests.fuzzing.__main__ import fuzzed, main
from tests.fuzzing.guarded_reader import Watch, finding_of, spoil
from tests.fuzzing.mutations import json_structure, mutate_bytes
from tests.fuzzing.targets import TARGETS, Target

QUICK = ("journal", "data set", "T1", "kernel-tuner", "find-db")  # one of each kind of file; the others are slow tests


def raises(error: BaseException) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        raise error

    return read


class LooseError(FormatError):
    """An error whose message is not made one line."""

    __str__ = Exception.__str__


def hangs(folder: Path) -> None:
    while True:
        time.time()


def writes_elsewhere(folder: Path) -> None:
    (folder.parent / "elsewhere").write_text("")


def starts_a_process(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    folder = tmp_path_factory.mktemp("fuzz") / "input"
    folder.mkdir()
    found = Watch(folder)
    found.folder = folder  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(("read", "says"), [
    (raises(IndexError("list index out of range")), "IndexError"), (raises(LooseError("two\nlines")), "2 lines"),
    (raises(LooseError("x" * 5000)), "5000 characters"), (raises(RecursionError()), "RecursionError"),
    (hangs, "hangs"), (writes_elsewhere, "elsewhere"), (starts_a_process, "subprocess.Popen"),
    (raises(MemoryError()), "memory")])
def test_what_a_reader_must_not_do_is_a_finding(read: Callable[[Path], None], says: str, watch: Watch) -> None:
    target = Target("planted", "a", lambda: {"a": b"x"}, read)
    finding = finding_of(target, watch.folder, watch)  # type: ignore[attr-defined]
    assert finding is not None
    assert says in finding


@pytest.mark.parametrize("read", [raises(FormatError("one line")), lambda folder: None])
def test_an_answer_or_one_line_is_no_finding(read: Callable[[Path], None], watch: Watch) -> None:
    assert finding_of(Target("planted", "a", lambda: {"a": b"x"}, read), watch.folder, watch) is None  # type: ignore[attr-defined]


def test_the_same_number_spoils_in_the_same_way() -> None:
    target = TARGETS["kernel-tuner"]
    files = target.files()
    assert spoil(target, 5, files) == spoil(target, 5, files)
    assert len({spoil(target, seed, files) for seed in range(40)}) > 30
    assert mutate_bytes(b"", Random(0), [b"x"]) is not None
    assert json_structure(b'{"a": [1, {"b": 2}]}', Random(1))


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
                                  for name in TARGETS])
def test_readers_survive_some_malformed_inputs(name: str, tmp_path: Path) -> None:
    outcome = fuzzed(name, 1_000_000, 40 if name in QUICK else 20, tmp_path)
    assert outcome.read == (40 if name in QUICK else 20)
    assert outcome.findings == []
    assert not os.listdir(tmp_path)


def test_a_longer_run_prints_a_line_for_each_reader(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--inputs", "3", "--target", "problem"]) == 0
    assert capsys.readouterr().out == "problem: 3 inputs, 0 findings\n"
