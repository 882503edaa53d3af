"""macOS and Windows, as far as a stand-in shows: every module is imported, and `seqtune devices` answers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

SYSTEMS = {"Darwin:arm64": "llvm:neon:", "Darwin:x86_64": "modules are imported on darwin",
           "Windows:AMD64": "command is unavailable: programs run with limits"}  # system -> what is printed there


@pytest.mark.slow
def test_everything_is_imported_there_and_devices_are_listed() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.support.other_system", *SYSTEMS], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    for says in (*SYSTEMS.values(), "modules are imported on win32"):
        assert says in done.stdout
    assert done.stdout.count("modules are imported on ") == len(SYSTEMS)
    assert "Traceback" not in done.stderr
