"""The memory of choices beside the journal, and what makes a remembered choice void."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqtune.api import predict
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.networks.program.device_threads import device_for_threads
from seqtune.networks.selection.choices import Choice
from seqtune.networks.selection.memory import MOST_ANSWERS, ChoiceMemory
from tests.support.llvm import needs_llvm

pytestmark = needs_llvm
PROBLEM = Problem.make("gemm", m=4, n=8, k=8, trans_b="yes", bias="yes")
Remembered = Callable[..., ChoiceMemory]


@pytest.fixture
def choice(checkpoint: Path) -> Choice:
    """A choice of the problem's first proposal."""
    return Choice(PROBLEM, predict(PROBLEM, device_for_threads(1), checkpoint=checkpoint).configuration)


@pytest.fixture
def remembered(tmp_path: Path, checkpoint: Path) -> Remembered:
    """The memory as a new process reads it."""
    def made(most_answers: int = MOST_ANSWERS, **options: Any) -> ChoiceMemory:
        return ChoiceMemory(device_for_threads(1), tmp_path / "journal.sqlite", options.pop("checkpoint", checkpoint),
                            options, most_answers)

    return made


def test_a_choice_comes_back(remembered: Remembered, choice: Choice) -> None:
    remembered().keep([choice])
    unsolved = Choice(Problem.make("gemm", m=5, n=8, k=8), None)
    remembered().keep([unsolved])
    remembered().keep_answer("network", {"seconds": 1.5})
    again = remembered()
    assert (again.find(PROBLEM), again.find(unsolved.problem)) == (choice, unsolved)
    assert again.find_answer("network") == {"seconds": 1.5}


def test_other_options_and_checkpoints_make_other_choices(remembered: Remembered, choice: Choice) -> None:
    remembered(seconds=1).keep([choice])
    for other in (remembered(seconds=2), remembered(seconds=1, checkpoint="default"), remembered()):
        assert other.find(PROBLEM) is None
    assert remembered(seconds=1).find(PROBLEM) is not None


@pytest.mark.parametrize("run", ["trial", "verify"])
def test_measurements_that_correct_proposals_make_choices_void(
        remembered: Remembered, choice: Choice, tmp_path: Path, run: str) -> None:
    remembered().keep([choice])
    device, configuration = device_for_threads(1), choice.configuration
    assert configuration is not None
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add(Record(PROBLEM, device.key, kernel(configuration.kernel).version, configuration, device.toolchain,
                           Measurement(Status.CORRECT, (1e-6,)), 0.0, run, "host", device.fingerprint))
    assert remembered().find(PROBLEM) is None


@pytest.mark.parametrize("damage", [
    lambda text: text[:-20], lambda text: "[]", lambda text: "9" * 10_000, lambda text: "[" * 100_000,
    lambda text: text.replace("llvm.", "elsewhere."), lambda text: text.replace('"problem"', '"other"'),
    lambda text: text.replace('"n": 8', '"n": 9'), lambda text: text.replace('"unroll_k": ', '"unroll_k": 9')])
def test_a_damaged_file_answers_nothing_and_is_replaced(
        remembered: Remembered, choice: Choice, tmp_path: Path, damage: Callable[[str], str]) -> None:
    remembered().keep([choice])
    (path,) = tmp_path.glob("*.choices.json")
    before = path.read_text()
    path.write_text(damage(before))
    assert path.read_text() != before
    assert remembered().find(PROBLEM) is None
    remembered().keep([choice])
    assert remembered().find(PROBLEM) == choice


def test_the_oldest_answers_go_first(remembered: Remembered, tmp_path: Path) -> None:
    for name in "abc":
        remembered(most_answers=2).keep_answer(name, name)
    assert [remembered().find_answer(name) for name in "abc"] == [None, "b", "c"]
    (path,) = tmp_path.glob("*.choices.json")
    assert len(json.loads(path.read_text())["answers"]) == 2
