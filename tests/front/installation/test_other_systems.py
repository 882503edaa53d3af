"""macOS and Windows, as far as a stand-in shows: every module is imported, and `seqtune devices` answers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(("system", "machine", "platform", "says"), [
    ("Darwin", "arm64", "darwin", "llvm:neon:"), ("Darwin", "x86_64", "darwin", "llvm:0"),
    ("Windows", "AMD64", "win32", "command is unavailable: programs run with limits")])
def test_everything_is_imported_there_and_devices_are_listed(
        system: str, machine: str, platform: str, says: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.support.other_system", system, machine, "devices"], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    assert f"modules are imported on {platform}" in done.stdout
    assert says in done.stdout
    assert "Traceback" not in done.stderr
