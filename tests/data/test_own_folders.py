"""The run of the tests has folders of its own: the user's journal, caches and settings are neither read nor written."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

import seqtune
from seqtune.api.examining import caches, journal_file
from seqtune.api.inputs import check_journal
from seqtune.data.journal.journal import Journal, default_path
from seqtune.errors import MisuseError
from seqtune.kernels import own_folders
from seqtune.tuner.backends.image_cache import ImageCache
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


@pytest.mark.parametrize("home", [None, "", "relative", "closed"])
def test_a_user_without_a_home_has_folders_where_nothing_is(home: str | None, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", str(tmp_path) if home == "closed" else home)
    monkeypatch.setattr(pwd, "getpwuid", _no_entry)
    if home == "closed":  # another user's, which may not be searched
        monkeypatch.setattr(Path, "exists", _closed)
    assert own_folders.data_folder() == own_folders.cache_folder() == own_folders.NOWHERE
    assert own_folders.is_nowhere(default_path())
    monkeypatch.undo()
    assert not default_path().is_relative_to(own_folders.NOWHERE)


def test_a_user_without_a_home_gets_answers_and_is_told_what_to_set_for_a_journal(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_folders, "user_data_dir", _no_home)
    monkeypatch.setattr(own_folders, "user_cache_dir", _no_home)
    assert seqtune.predict("gemm m=64 n=64 k=64", "cuda:h100").candidates
    with pytest.raises(MisuseError, match=r"no home folder .*; set HOME, or XDG_DATA_HOME and XDG_CACHE_H"):
        Journal()
    with pytest.raises(MisuseError, match="set HOME"):
        check_journal(default_path())
    for check in (journal_file(default_path()), caches()):
        assert "set HOME" in check.found + check.advice
    assert ImageCache("llvm").get("key") is None


def _no_entry(user: int) -> None:
    raise KeyError(user)


def _no_home(name: str) -> str:
    raise RuntimeError(f"{name}: no home")


def _closed(path: Path) -> bool:
    raise PermissionError(path)


def test_devices_of_the_cpu_have_recorded_rates() -> None:
    """The cache of the run holds them before the first test, so no process measures, whatever else the machine does."""
    kept = Path(os.environ["XDG_CACHE_HOME"]) / "seqtune" / "cpu-rates.json"
    assert " | measured quietly" in kept.read_text()
    assert "disturbed" not in kept.read_text()
