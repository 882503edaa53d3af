"""The predictor against its parts on a toy: its settings, its page, and that finished steps are not repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.prediction import parts
from benchmarks.prediction.example_libraries import EXAMPLES, measured_examples
from seqtune.data.measured_tasks import measured_tasks
from seqtune.predictor.learning.tasks.small import options
from seqtune.tuner.backends.discovery import find
from tests.support.installation.optional import needs, skip_without_device
from tests.support.learning.short_training import DATA, QUICK, train


@needs("torch")
@pytest.mark.usefixtures("fake_kernel", "few_trees")
def test_every_setting_compares_the_predictor_with_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[dict[str, Any]] = []
    tasks = measured_tasks(DATA, held_out=False)
    monkeypatch.setattr(parts, "read_dataset", lambda path: DATA)
    monkeypatch.setattr(parts, "measured_examples", lambda device, journal, configurations, problems: {
        "toy": [measured for measured in tasks if measured.device == tasks[0].device]})
    monkeypatch.setattr(parts, "publish", lambda out, page, results: written.append(results))
    monkeypatch.setattr(options, "LEAST_EXAMPLES", 6)
    monkeypatch.setattr(options, "EPOCHS", 1)
    checkpoint, _ = train(DATA, QUICK)
    checkpoint.save(tmp_path / "checkpoint")
    arguments = ["--checkpoint", str(tmp_path / "checkpoint"), "--sizes", "6", "--draws", "1", "--device", "llvm:0",
                 "--threads", "1", "--work", str(tmp_path / "work")]
    parts.main(arguments)
    monkeypatch.setattr(parts, "_library", None)  # whose results are stored
    parts.main(arguments)
    results, again = written
    assert results == again
    assert {(row["setting"], row["method"]) for row in results["rows"]} == {
        (setting, method) for setting in (parts.HELD_OUT, "library of 6", "toy of 6") for method in parts.METHODS}
    assert all(0 < row["share_low"] <= row["share"] <= row["share_high"] <= 1 for row in results["rows"])
    page = parts.page(json.loads(json.dumps(results)))
    assert page.command == "python -m benchmarks parts --device llvm:0 --out docs"
    assert "toy of 6: " in page.claim
    assert page.tables.count("| **seqtune** |") == 3


def test_the_libraries_of_examples_are_measured_once(tmp_path: Path) -> None:
    skip_without_device("opencl:0")
    first, again = (measured_examples(find("opencl:0"), tmp_path / "trials.sqlite", 2, problems=1) for _ in range(2))
    assert set(first) == set(EXAMPLES)
    for name, (measured,) in first.items():
        assert measured.known.sum() >= 2
        assert again[name][0].seconds.tobytes() == measured.seconds.tobytes()
