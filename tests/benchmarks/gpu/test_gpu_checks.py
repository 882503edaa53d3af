"""Checks of a GPU day: what it reads in the output of the sanitizer and of the tests that need a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.checks.contracts import counts_of, counts_until, device_tests
from benchmarks.gpu.checks.sanitizer import findings
from benchmarks.gpu.day import Day
from tests.support import planted


@pytest.mark.parametrize(("output", "number"), [
    ("========= ERROR SUMMARY: 0 errors\n", 0), ("========= ERROR SUMMARY: 12 errors\n", 12),
    ("========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)\n", 3),
    ("========= COMPUTE-SANITIZER\nTraceback", None)])
def test_the_sanitizers_summary_is_read(output: str, number: int | None) -> None:
    assert findings(output) == number


def test_the_report_of_the_device_tests_is_read() -> None:
    report = b"""<testsuites><testsuite name="pytest" errors="0" failures="1" skipped="1" tests="3"><testcase
    classname="t" name="a"/><testcase classname="t" name="b"><failure message="x"/></testcase><testcase classname="t"
    name="c"><skipped message="no GPU"/></testcase></testsuite></testsuites>"""
    assert counts_of(report) == {"tests": 3, "failures": 1, "errors": 0, "skipped": 1, "failed": ["t::b"],
                                 "skipped_because": {"no GPU": 1}}


def test_a_test_that_ends_the_process_is_named_beside_the_counts(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_planted.py").write_text("""import os, pytest
pytestmark = pytest.mark.device
def test_passes(): pass
@pytest.mark.parametrize("words", ["a b"])
def test_fails(words): assert 0
def test_is_left_out(): pytest.skip("no GPU")
def test_ends_the_process(): os.abort()
""")
    monkeypatch.chdir(tmp_path)
    tests = device_tests(Day(tmp_path / "day", planted.DEVICE), 60.0)
    assert tests.pop("message") == "the tests' process ended with -6 in tests/test_planted.py::test_ends_the_process"
    assert tests == {"tests": 3, "failures": 1, "errors": 1, "skipped": 1,
                     "failed": ["tests/test_planted.py::test_fails[a b]"]}
    late = counts_until(b"tests/a.py::test_a PASSED [ 1%]\ntests/a.py::test_b ", "the tests did not end in 9 s")
    assert (late["tests"], late["message"]) == (1, "the tests did not end in 9 s in tests/a.py::test_b")
    assert counts_until(b"no such option", "ended", "no such option")["message"] == "no such option"
