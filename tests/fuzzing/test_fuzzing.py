"""The fuzzer finds nothing in the readers here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzzing.__main__ import fuzzed
from tests.fuzzing.targets import TARGETS

QUICK = ("journal", "data set", "T1", "kernel-tuner", "find-db")  # one of each kind of file; the others are slow tests


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
                                  for name in TARGETS])
def test_readers_survive_some_malformed_inputs(name: str, tmp_path: Path) -> None:
    outcome = fuzzed(name, 1_000_000, 40 if name in QUICK else 20, tmp_path)
    assert outcome.read == (40 if name in QUICK else 20)
    assert outcome.findings == []
    assert not os.listdir(tmp_path)
