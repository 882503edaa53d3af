"""Verdicts in a journal: which later verifications they answer."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import ALONE, HOPELESS, REBUILT, TOGETHER, Measurement, Record, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.verdicts import find_verdict, store_verdict
from seqtune.tuner.measuring.verification import Verdict, decide

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1", l2_bytes=1 << 20)
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)
VERSIONS = {"test.k": 1}
DEFAULT, FAST, SLOW, OTHER = (Configuration.of("test.k", {"tile": tile}) for tile in (1, 2, 4, 8))


def verdict() -> Verdict:
    """Fast beats the default in the rounds; slow is hopeless and was timed alone, with as many samples."""
    samples = {DEFAULT: (1.0,) * 24, FAST: (0.5,) * 24, SLOW: (0.9,) * 24}
    measured = {configuration: Measurement(Status.CORRECT, times, 0.0) for configuration, times in samples.items()}
    return decide(measured, DEFAULT, [DEFAULT, FAST])


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.sqlite") as opened:
        store_verdict(opened, PROBLEM, DEVICE, VERSIONS, verdict(), 10.0)
        yield opened


def stored(journal: Journal, device: Device = DEVICE, seconds: float = 10.0,
          candidates: tuple[Configuration, ...] = (FAST, SLOW)) -> Verdict | None:
    return find_verdict(journal, PROBLEM, device, VERSIONS, candidates, DEFAULT, seconds)


def test_a_verdict_comes_back_with_what_was_compared(journal: Journal) -> None:
    again = stored(journal)
    assert again is not None
    assert (again.winner, again.significant, again.speedup) == (FAST, True, 2.0)
    assert set(again.paired) == {DEFAULT, FAST}, "an equal number of samples does not make it a comparison"
    assert again.measurements == verdict().measurements


def test_a_record_says_on_how_many_builds_a_time_rests(tmp_path: Path) -> None:
    for hopeless, rebuilt, stage, unsure in (((), (), ALONE, True), ((SLOW,), (), HOPELESS, True),
                                             ((SLOW,), (SLOW,), REBUILT, False)):
        with Journal(tmp_path / f"{stage}.sqlite") as journal:
            store_verdict(journal, PROBLEM, DEVICE, VERSIONS,
                          replace(verdict(), hopeless=hopeless, rebuilt=rebuilt), 10.0)
            records = {record.configuration: record for record in journal.records()}
        assert {configuration: record.stage for configuration, record in records.items()} == {
            DEFAULT: TOGETHER, FAST: TOGETHER, SLOW: stage}
        assert [configuration for configuration, record in records.items() if record.rests_on_one_build] == [
            SLOW] * unsure


def test_a_verdict_answers_for_fewer_candidates_and_not_for_more(journal: Journal) -> None:
    fewer = stored(journal, candidates=(FAST,))
    assert fewer is not None
    assert set(fewer.measurements) == {DEFAULT, FAST}
    assert stored(journal, candidates=(FAST, OTHER)) is None


def test_a_candidate_that_was_timed_alone_is_not_answered_for_unless_it_is_hopeless(journal: Journal) -> None:
    assert stored(journal, candidates=(FAST, SLOW)) is not None
    assert stored(journal, candidates=(SLOW,)) is None, "without fast it is promising, and it was never compared"


@pytest.mark.parametrize("rebuilt", [(), (SLOW,)])
def test_a_session_answers_its_own_question_where_the_best_was_slower_in_the_rounds(
        rebuilt: tuple[Configuration, ...], tmp_path: Path) -> None:
    measured = {DEFAULT: Measurement(Status.CORRECT, (1.0,) * 24), FAST: Measurement(Status.CORRECT, (0.7,) * 24),
                SLOW: Measurement(Status.CORRECT, (0.8,) * 6)}  # fast took 0.6 in stage one
    verdict = replace(decide(measured, DEFAULT, [DEFAULT, FAST]), hopeless=(SLOW,), rebuilt=rebuilt)
    with Journal(tmp_path / "journal.sqlite") as journal:
        store_verdict(journal, PROBLEM, DEVICE, VERSIONS, verdict, 10.0)
        again = stored(journal)
        assert again is not None
        assert (again.winner, set(again.paired)) == (FAST, {DEFAULT, FAST})
        assert stored(journal, candidates=(SLOW,)) is None, "another question: slow was not compared with the default"
        assert sum(record.rests_on_one_build for record in journal.records()) == (not rebuilt)


@pytest.mark.parametrize(("default", "candidate", "winner"), [
    (Measurement(Status.CORRECT, (1.0,) * 9), Measurement(Status.CORRECT, (1.4,) * 9), DEFAULT),
    (Measurement(Status.CORRECT, (1.0,) * 9), Measurement(Status.CRASH), DEFAULT),
    (Measurement(Status.CRASH), Measurement(Status.CORRECT, (1.0,) * 9), FAST),
    (Measurement(Status.CRASH), Measurement(Status.CRASH), None)])
def test_a_verdict_that_needed_no_rounds_comes_back(
        default: Measurement, candidate: Measurement, winner: Configuration | None, tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite") as journal:
        verdict = decide({DEFAULT: default, FAST: candidate}, DEFAULT, [])
        store_verdict(journal, PROBLEM, DEVICE, VERSIONS, verdict, 10.0)
        again = stored(journal, candidates=(FAST,))
    assert again is not None
    assert again.winner == winner


@pytest.mark.parametrize(("seconds", "answers"), [(1.0, True), (10.0, True), (60.0, False)])
def test_a_verdict_answers_no_question_that_grants_more_time(journal: Journal, seconds: float, answers: bool) -> None:
    assert (stored(journal, seconds=seconds) is not None) == answers


def test_a_verdict_of_another_machine_host_or_toolchain_answers_nothing(
        journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for device in (replace(DEVICE, l2_bytes=1 << 21), replace(DEVICE, toolchain="t2")):
        assert device.key == DEVICE.key
        assert stored(journal, device) is None
    assert stored(journal, replace(DEVICE, peak_gflops=3.0)) is not None, "a measured rate differs from day to day"
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    assert stored(journal) is None


def test_a_verdict_reached_under_load_answers_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite") as journal:
        store_verdict(journal, PROBLEM, DEVICE, VERSIONS, replace(verdict(), loaded=True), 10.0)
        assert all(record.loaded for record in journal.records(run="verify"))
        assert stored(journal) is None
        store_verdict(journal, PROBLEM, DEVICE, VERSIONS, verdict(), 10.0)
        assert stored(journal) is not None


def test_two_sessions_at_the_same_time_are_not_mixed(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """No session compared slow and other, although the times of both sessions are equal."""
    monkeypatch.setattr("time.time", lambda: 5.0)
    for configuration in (SLOW, OTHER):
        measured = {configuration: Measurement(Status.CORRECT, (0.3,) * 24),
                    DEFAULT: Measurement(Status.CORRECT, (1.0,) * 24)}
        store_verdict(journal, PROBLEM, DEVICE, VERSIONS, decide(measured, DEFAULT, list(measured)), 10.0)
    assert stored(journal, candidates=(SLOW, OTHER)) is None
    assert stored(journal, candidates=(OTHER,)) is not None


def test_records_of_no_session_are_no_verdict(tmp_path: Path) -> None:
    """Older journals have no sessions: their verifications stay readable, and are measured again."""
    with Journal(tmp_path / "old.sqlite") as journal:
        for configuration in (DEFAULT, FAST):
            measurement = Measurement(Status.CORRECT, (1.0,) * 18)
            journal.add(Record(PROBLEM, DEVICE.key, 1, configuration, "t1", measurement, 5.0, "verify",
                               platform.node()))
        assert stored(journal, candidates=(FAST,), seconds=1e-9) is None
        assert len(list(journal.records(run="verify"))) == 2
