"""Messages of a worker: its parent believes none of them, whatever a kernel writes into the pipe."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from seqtune.cli.tables.console import out
from seqtune.data.record import Measurement, Status
from seqtune.errors import FormatError, one_line
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.measuring.worker.message import LONGEST_LINE, lines, read_message
from tests.support import planted

GOOD = Measurement(Status.CORRECT, (1e-3, 2e-3), 1e-6).to_json()
READY, PREPARED = '{"ready": true, "build_allowance": 0}', '{"prepared": true, "note": ""}'
FORGED = ["word", "[]", "null", "{}", "[" * 100_000, '{"measurement": {}}', '{"done": true, "more": 1}', "\xff",
          '{"measurement": [1]}', '{"compared": [{}]}', '{"at": -1, "resources": null, "allowance": 0}', "1" * 5000,
          '{"built": true, "resources": {"registers": "x"}, "allowance": 0}', '{"error": 1, "misuse": false}',
          '{"built": true, "resources": null, "allowance": NaN}']


@pytest.mark.parametrize("line", FORGED)
def test_a_line_that_is_no_message_is_a_format_error(line: str) -> None:
    with pytest.raises(FormatError):
        read_message(line.encode("latin-1"))


@pytest.mark.parametrize(("field", "value"), [
    ("status", "perfect"), ("status", []), ("samples", None), ("samples", [-1.0]), ("samples", [float("nan")]),
    ("samples", ["1"]), ("error", "0"), ("build_seconds", 10 ** 400), ("message", 5), ("damaged", "no"),
    ("resources", 1), ("disturbed", 10 ** 30), ("disturbed", None)])
def test_a_measurement_with_a_wrong_field_is_a_format_error(field: str, value: object) -> None:
    assert Measurement.from_json(GOOD).status is Status.CORRECT
    with pytest.raises(FormatError):
        Measurement.from_json({**GOOD, field: value})


def test_lines_have_a_bound_and_are_joined_from_pieces() -> None:
    assert list(lines(io.BytesIO(b"a\n" + b"b" * 200_000 + b"\nrest"))) == [b"a", b"b" * 200_000]
    with pytest.raises(FormatError, match="longer than"):
        list(lines(io.BytesIO(b"x" * (LONGEST_LINE + 70_000))))


@pytest.mark.parametrize("reply", ["no message", "[" * 100_000, '{"measurement": {}}', '{"done": true}',
                                   "x" * (LONGEST_LINE + 70_000)], ids=range(5))
def test_a_worker_that_sends_no_message_has_crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                    reply: str) -> None:
    (tmp_path / "replies").write_text("\n".join([READY, PREPARED, reply, ""]))
    program = tmp_path / "worker"
    program.write_text(f"#!/bin/sh\ncat '{tmp_path}/replies'\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
        ((_, measurement),) = runner.measure(planted.PROBLEM, [planted.deed("good")], Options(samples=1))
    assert measurement.status is Status.CRASH
    assert "it sent what is no message" in measurement.message


def test_a_text_from_outside_commands_no_terminal() -> None:
    hostile = "a\x1b[2Jb\x07c\x9bd\x7fe\ud800f"
    assert one_line(hostile) == "a [2Jb c d e?f"
    shown: Any = out.render_str(hostile, markup=False)
    assert isinstance(shown, Text)
    assert "\x1b" not in shown.plain
    with pytest.raises(FormatError) as caught:
        read_message(json.dumps({"error": hostile}).encode())
    assert "\x1b" not in str(caught.value)
