"""The run of the tests has folders of its own: the user's journal, caches and settings are neither read nor written."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

from seqtune.data.journal.journal import default_path
from tests.support.paths import ROOT

PROGRAM = """
from pathlib import Path
import platformdirs
from seqtune.data.journal.journal import default_path
print(*map(str, (Path.home(), platformdirs.user_cache_dir("seqtune"), platformdirs.user_config_dir("seqtune"),
                 default_path())), sep="\\n")
"""


def test_programs_that_tests_start_find_the_folders_of_the_run() -> None:
    base = Path(os.environ["HOME"]).parent
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [Path(line) for line in done.stdout.splitlines()]
    assert [path.relative_to(base).parts[0] for path in paths[:3]] == ["home", "cache", "config"]
    assert paths[3] == default_path()
    assert paths[3].relative_to(base).parts[0].startswith("data")
    assert paths[0] != Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_devices_of_the_cpu_have_recorded_rates() -> None:
    """The cache of the run holds them before the first test, so no process measures, whatever else the machine does."""
    kept = Path(os.environ["XDG_CACHE_HOME"]) / "seqtune" / "cpu-rates.json"
    assert " | measured quietly" in kept.read_text()
    assert "disturbed" not in kept.read_text()
