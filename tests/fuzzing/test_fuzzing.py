"""The fuzzer finds nothing in the readers here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzzing.__main__ import fuzzed
from tests.fuzzing.targets import TARGETS

QUICK = ["journal", "data set", "T1", "kernel-tuner", "find-db"]  # one of each kind of file; the others are slow tests
INPUTS = 8  # of each target


@pytest.mark.parametrize("names", [QUICK, pytest.param([name for name in TARGETS if name not in QUICK],
                                                       marks=pytest.mark.slow)], ids=["quick", "others"])
def test_readers_survive_some_malformed_inputs(names: list[str], tmp_path: Path) -> None:
    outcome = fuzzed(names, 1_000_000, INPUTS, tmp_path)
    assert outcome.findings == []
    assert outcome.read == INPUTS * len(names)
    assert not os.listdir(tmp_path)
