"""Evidence of a device: it is read from a journal once, and kept in the cache until the journal changes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.device_times import own_times
from seqtune.data.journal.journal import Journal, default_path
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import FormatError, SeqtuneWarning
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats, Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.correction import device_evidence as evidence_module
from seqtune.predictor.correction.device_evidence import device_evidence
from seqtune.predictor.sequence.vocabulary import Vocabulary
from tests.support.learning.interruptions import interrupted
from tests.support.learning.synthetic_ranker import ranker
from tests.support.learning.translators import small_translator
from tests.support.synthetic import DIRECT, MIDDLE, problems, time_of

pytestmark = pytest.mark.usefixtures("fake_kernel")
PROBLEMS = problems(12)


def evidence_journal(path: Path) -> None:
    """Write measurements of 16 configurations of each of six problems."""
    with Journal(path) as journal:
        journal.add_device(MIDDLE)
        for problem in PROBLEMS[:6]:
            task = Task.of(problem, MIDDLE)
            for number in np.linspace(0, len(task) - 1, 16, dtype=int).tolist():
                taken = time_of(problem, MIDDLE, task[number])
                journal.add(record(task, number, Measurement(Status.CORRECT, (taken,)) if math.isfinite(taken)
                                   else Measurement(Status.COMPILE)))


def record(task: Task, number: int, measurement: Measurement) -> Record:
    """The record of a measurement on this machine, with today's kernel."""
    return Record(task.problem, MIDDLE.key, 1, task[number], MIDDLE.toolchain, measurement, run="calibrate",
                  machine=MIDDLE.fingerprint)


def checkpoint() -> Checkpoint:
    vocabulary = Vocabulary.build([DIRECT], [MIDDLE])
    return Checkpoint.of_translator(small_translator(vocabulary), vocabulary, ranker=ranker())


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Checkpoint:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return checkpoint()


def loaded_again(model: Checkpoint) -> Checkpoint:
    """The model as another process has it, which remembers no evidence."""
    assert model.ranker is not None
    return replace(model, ranker=replace(model.ranker))


def test_evidence_of_a_journal_is_kept_in_the_cache_until_the_journal_changes(
        model: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "probes.sqlite"
    assert device_evidence(model, MIDDLE, path) is None, "a missing journal is no evidence, and is not created"
    assert not path.exists()
    evidence_journal(path)
    evidence = device_evidence(model, MIDDLE, path)
    assert evidence is not None
    assert evidence.measurements > 60
    (file,) = (tmp_path / "cache" / "seqtune" / "corrections").glob("*.safetensors")
    written = file.stat()
    again = device_evidence(loaded_again(model), MIDDLE, path)
    assert again is not None
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (written.st_mtime_ns, written.st_ino), "no second fit"
    assert again.measurements == evidence.measurements
    task = Task.of(PROBLEMS[8], MIDDLE)
    assert again.correction.changes(task, np.arange(5)) == pytest.approx(
        evidence.correction.changes(task, np.arange(5)), abs=1e-5)


def test_of_many_problems_only_the_measured_ones_are_looked_up_in_the_journal(
        model: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "probes.sqlite"
    evidence_journal(path)
    evidence = device_evidence(model, MIDDLE, path)
    assert evidence is not None
    tasks = [Task.of(problem, MIDDLE) for problem in PROBLEMS]
    looked_up: list[Problem] = []

    def look_up(journal: Journal, task: Task, verified: bool) -> Floats | None:
        looked_up.append(task.problem)
        return own_times(journal, task, verified)

    monkeypatch.setattr("seqtune.data.device_times.own_times", look_up)
    for _ in range(2):
        times = [evidence.correction.own_times(task) for task in reversed(tasks)]
        assert [seconds is not None for seconds in times] == [False] * 6 + [True] * 6
    assert looked_up == [PROBLEMS[11], *reversed(PROBLEMS[:6])], "the first one that was asked about, and measured ones"


def test_a_damaged_cache_is_fitted_again(model: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "probes.sqlite"
    evidence_journal(path)
    device_evidence(model, MIDDLE, path)
    (file,) = (tmp_path / "cache" / "seqtune" / "corrections").glob("*.safetensors")
    file.write_bytes(b"no archive")
    assert device_evidence(loaded_again(model), MIDDLE, path) is not None


def test_threads_that_share_a_checkpoint_get_the_evidence_of_their_own_journals(
        model: Checkpoint, tmp_path: Path) -> None:
    first, second = tmp_path / "first.sqlite", tmp_path / "second.sqlite"
    evidence_journal(first)
    second.write_bytes(first.read_bytes())
    for _ in range(2):  # not remembered, then remembered
        evidence = interrupted(lambda: device_evidence(model, MIDDLE, first),
                               lambda: device_evidence(model, MIDDLE, second), evidence_module)
        assert evidence is not None
        assert device_evidence(model, MIDDLE, first) is not None


def test_a_named_journal_that_is_damaged_is_refused(model: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(b"x" * 500)
    with pytest.raises(FormatError, match="not a journal"):
        device_evidence(model, MIDDLE, path)


def test_a_default_journal_that_is_damaged_is_left_out_with_a_warning(
        model: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = default_path()
    path.parent.mkdir()
    path.write_bytes(b"x" * 500)
    with pytest.warns(SeqtuneWarning, match="not corrected by earlier measurements"):
        assert device_evidence(model, MIDDLE, None) is None


def test_a_checkpoint_without_trees_takes_no_evidence(tmp_path: Path) -> None:
    path = tmp_path / "probes.sqlite"
    evidence_journal(path)
    assert device_evidence(replace(Checkpoint.load("default"), ranker=None), MIDDLE, path) is None
