"""macOS and Windows, as far as a stand-in shows: every module is imported, and `seqtune devices` answers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

SYSTEMS = {"Darwin:arm64": ("darwin", "llvm:neon:"), "Darwin:x86_64": ("darwin", "llvm:0"), "Windows:AMD64": (
    "win32", "command is unavailable: programs run with limits")}  # system -> its platform, and what is printed there


@pytest.mark.slow
@pytest.mark.anywhere
def test_everything_is_imported_there_and_devices_are_listed() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.support.other_system", *SYSTEMS], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    reports = done.stdout.split(" modules are imported on ")[1:]
    for (platform, says), report in zip(SYSTEMS.values(), reports, strict=True):
        assert report.startswith(f"{platform}\n")
        assert says in report
    assert "Traceback" not in done.stderr
