"""T4 results: written, read again, and read of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.data.formats.t4 import read_t4, results
from seqtune.data.record import Status
from seqtune.errors import FormatError
from tests.support.records import DEVICE, PROBLEM, RECORDS


def test_t4_goes_out_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "t4.json"
    written = results(RECORDS, PROBLEM, DEVICE)
    path.write_text(json.dumps(written, allow_nan=False))
    assert written["schema_version"] == "1.0.0"
    for one in written["results"]:  # what the schema demands
        assert {"configuration", "times", "invalidity", "correctness"} <= set(one)
        assert one["invalidity"] in ("timeout", "compile", "runtime", "correctness", "constraints", "correct")
    found = read_t4(path)
    assert (found.kernel, found.device, found.model) == ("llvm.gemm", "llvm:avx7:3", "a CPU")
    assert [row.settings for row in found.rows] == [(tile, "row") for tile in (1, 2, 4, 8)]
    assert [row.status for row in found.rows] == [Status.CORRECT, Status.COMPILE, Status.RUNTIME, Status.TIMEOUT]
    assert found.rows[0].seconds == pytest.approx(1e-3)
    assert found.rows[0].samples == 2
    assert found.rows[0].build_seconds == pytest.approx(0.25)


def test_t4_results_of_kernel_tuner_are_read(tmp_path: Path) -> None:
    path = tmp_path / "conv_A100.json"

    def result(tile: int, word: str, **more: Any) -> dict[str, Any]:
        return {"configuration": {"tile": tile}, "times": {"compilation": 40.0, "runtimes": [4.0, 2.0]},
                "invalidity": word, "correctness": 1, "objectives": ["time"], **more}

    path.write_text(json.dumps({"schema_version": "1.0.0", "metadata": {"timeunit": "miliseconds"}, "results": [
        result(1, "correct", measurements=[{"name": "time", "value": 2.5, "unit": "ms"}]),
        result(2, "correct"), result(4, "constraints"), result(8, "magic"), {"configuration": {}}, 3]}))
    found = read_t4(path, "A100")
    assert (found.kernel, found.device) == ("conv_A100", "A100")
    assert [row.seconds for row in found.rows] == pytest.approx([2.5e-3, 3e-3, np.inf])
    assert sum(found.skipped.values()) == 3
    for content, says in (("{}", "no file of T4"), ('{"results": []}', "no configuration"),
                          ('{"results": [], "metadata": {"timeunit": "minutes"}}', "times in 'minutes'")):
        path.write_text(content)
        with pytest.raises(FormatError, match=says):
            read_t4(path)


def entry(value: Any = 2000.0, runtime: float = 2000.0, **unit: Any) -> dict[str, Any]:
    """A configuration whose kernel takes 2 ms, in microseconds."""
    return {"configuration": {"b": 32}, "invalidity": "correct", "correctness": 1,
            "times": {"compilation_time": 100, "runtimes": [runtime]},
            "measurements": [] if value is None else [{"name": "time", "value": value, **unit}]}


def seconds_of(path: Path, timeunit: str | None, *entries: dict[str, Any]) -> list[float]:
    path.write_text(json.dumps({"schema_version": "1.0.0", "results": list(entries),
                                "metadata": {"timeunit": timeunit} if timeunit else None}))
    return [row.seconds for row in read_t4(path).rows]


@pytest.mark.parametrize(("timeunit", "one"), [
    ("microseconds", entry(unit="")), ("microseconds", entry()), ("microseconds", entry(unit=None)),
    ("microseconds", entry(None)), ("microseconds", entry(unit="us")), ("Microseconds", entry(unit="us")),
    ("seconds", entry(0.002, 0.002, unit="")), ("seconds", entry(2.0, 0.002, unit=" MS ")),
    ("nanoseconds", entry(2e6, 2e6, unit="")), ("usec", entry(unit="\N{GREEK SMALL LETTER MU}s")),
    ("\N{MICRO SIGN}s", entry(unit="")), (None, entry(2.0, 2.0, unit="")), (None, entry(2.0, 2.0)),
    ("milliseconds", entry("2.0", 7.0, unit="ms")), ("milliseconds", entry([1.5, 2.5], 7.0)),
    ("milliseconds", entry(["1.5", 2.5], 7.0)), ("milliseconds", entry("fast", 2.0))])
def test_a_measurement_without_a_unit_has_the_unit_of_the_file(timeunit: str | None, one: dict[str, Any],
                                                               tmp_path: Path) -> None:
    assert seconds_of(tmp_path / "a.json", timeunit, one) == pytest.approx([2e-3])


def test_a_result_that_is_not_correct_has_no_time(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert seconds_of(path, "microseconds", entry(), {**entry(), "configuration": {"b": 64}, "correctness": 0}) == [
        pytest.approx(2e-3), np.inf]
    assert read_t4(path).rows[1].status is Status.CORRECTNESS


def test_an_unknown_unit_is_one_line(tmp_path: Path) -> None:
    for timeunit, one in (("fortnights", entry()), ("us", entry(unit="fortnights"))):
        with pytest.raises(FormatError, match="has times in 'fortnights'; there are s, ms, us and ns"):
            seconds_of(tmp_path / "a.json", timeunit, one)
