"""Kernels declared in a file are kernels like any other, but for running."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import FormatError
from seqtune.kernels.declaration import from_json, read_kernels, to_json
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.recorded_measurer import RecordedMeasurer
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import TuningOptions

DEVICE = Device("recorded:gpu", "recorded", "gfx906", "none", toolchain="t")
PROBLEM = Problem.make("recorded", rows=48)
DECLARATION: dict[str, Any] = {
    "name": "recorded.copy", "problem_type": "recorded", "backends": ["recorded"],
    "parameters": [{"name": "block", "values": [16, 32, 64]}, {"name": "order", "values": ["rows", "columns"]}],
    "derived": [{"name": "tail", "expression": "rows % block"}],
    "constraints": [{"expression": "tail == 0 or order == 'columns'", "reason": "rows cannot have a tail"}],
    "default": {"block": 16, "order": "rows"},
}


def write(folder: Path, found: object) -> Path:
    path = folder / "kernels.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    return path


@pytest.mark.parametrize("name", names())
def test_every_kernel_survives_a_file_but_for_what_runs_it(name: str, tmp_path: Path) -> None:
    family = kernel(name)
    read, = read_kernels(write(tmp_path, {"kernels": [to_json(family)]}))
    assert read == replace(family, implementation=None) == from_json(to_json(family))


def test_a_file_may_begin_with_the_byte_order_mark_of_windows(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeff" + json.dumps({"kernels": [DECLARATION]}))
    assert read_kernels(path) == (from_json(DECLARATION),)


def test_a_declared_kernel_is_tuned_from_records_like_any_other(tmp_path: Path) -> None:
    family, = read_kernels(write(tmp_path, {"kernels": [DECLARATION]}))
    space = SearchSpace(family, PROBLEM, DEVICE)
    assert [one.brief() for one in space] == [
        "block=16 order=rows", "block=16 order=columns", "block=32 order=columns", "block=64 order=columns"]
    refused = replace(space.default, settings=(("block", 32), ("order", "rows")))
    assert space.why_not(refused) == "rows cannot have a tail (tail == 0 or order == 'columns')"
    records = [Record(PROBLEM, DEVICE.key, 1, one, DEVICE.toolchain, Measurement(Status.CORRECT, (1.0 + number,)))
               for number, one in enumerate(reversed(list(space)))]
    with Journal(tmp_path / "journal.sqlite") as journal:
        found = tune(Task.of(PROBLEM, DEVICE, [family]), journal, RecordedMeasurer(DEVICE, records, [family]),
                     options=TuningOptions("exhaustive"))
    assert found.done == len(space)
    assert found.configuration == space[3]
    assert found.measurement is not None
    assert np.isclose(found.measurement.seconds, 1.0)


@pytest.mark.parametrize(("change", "words"), [
    ({"implementation": "os:system"}, "implementation: Extra inputs are not permitted"),
    ({"parameters": []}, "parameters: List should have at least 1 item"),
    ({"parameters": [{"name": "block", "values": [None]}]}, "values.0"),
    ({"parameters": [{"name": "block", "values": [1, 1]}], "default": {}}, "different values"),
    ({"parameters": [{"name": "block", "values": [1]}] * 2, "default": {}}, "declares 'block' twice"),
    ({"default": {"block": 17}}, "default block=17 is no value"),
    ({"constraints": [{"expression": "__import__('os')", "reason": "x"}]}, "function '__import__'"),
    ({"problem_type": "fft"}, "no operation 'fft'"),
    ({"name": "copy"}, "name: String should match"),
    ({"version": 0}, "version"),
])
def test_what_cannot_be_declared_is_refused_in_one_line(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = write(tmp_path, {"kernels": [{**DECLARATION, **change}]})
    with pytest.raises(FormatError) as caught:
        read_kernels(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"kernels": []}', '{"kernels": 3}', "[" * 100_000])
def test_a_file_that_declares_nothing_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(FormatError, match="does not declare kernels"):
        read_kernels(write(tmp_path, text))
