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
from tests.support.records import DEVICE, PROBLEM, RECORDS, record


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


def test_competing_kernel_families_are_a_parameter_of_t4() -> None:
    written = results([*RECORDS[:1], record(1, RECORDS[0].measurement, "llvm.other")], PROBLEM, DEVICE)
    assert [one["configuration"]["kernel"] for one in written["results"]] == ["llvm.gemm", "llvm.other"]


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
    for content, says in (("{}", "no file of T4"), ('{"results": []}', "no time"),
                          ('{"results": [], "metadata": {"timeunit": "minutes"}}', "times in 'minutes'")):
        path.write_text(content)
        with pytest.raises(FormatError, match=says):
            read_t4(path)
