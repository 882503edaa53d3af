"""The fleet's side of `tune`: what is wrong is said in one line before anything is started or written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.errors import MisuseError

PROBLEM = "gemm m=16 n=16 k=16"


def test_without_the_extra_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
                 "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "RAY_worker_niceness"):
        monkeypatch.setenv(name, "")  # they are set for Ray; the test restores them
    journal = tmp_path / "j.sqlite"
    assert main(["tune", *PROBLEM.split(), "--fleet", "local:2", "--journal", str(journal)]) == 2
    assert capfd.readouterr().err.splitlines()[-1] == "seqtune: a fleet needs Ray: pip install 'seqtune[fleet]'"
    assert not journal.exists()
    assert main(["fleet", "status"]) == 2
    assert "seqtune[fleet]" in capfd.readouterr().err


@pytest.mark.parametrize(("changes", "reason"), [
    ({"fleet": "rack:7"}, "no fleet 'rack:7'; give local:2"),
    ({"fleet": "local:2", "replay": "shipped"}, "cannot be combined with `replay`, which measures nothing"),
    ({"fleet": "local:2", "device": "abacus:0"}, "no device 'abacus:0'"),
    ({"fleet": "local:2", "device": "miopen:gfx906_60"}, "a fleet measures on devices of"),
])
def test_wrong_arguments_are_found_before_a_fleet_is_started(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(MisuseError, match=reason):
        seqtune.tune(PROBLEM, trials=1, **changes)  # type: ignore[arg-type]


def test_a_local_fleet_has_no_status_elsewhere_and_other_actions_do_not_exist(
        capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "status", "--fleet", "local:2"]) == 2
    assert main(["fleet", "dance"]) == 2
    assert "there is `seqtune fleet status`" in capfd.readouterr().err


def test_files_of_the_journal_that_cannot_be_used_are_found_before_a_fleet_is_started(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # a fleet that is started says that it needs Ray
    tune = ["tune", *PROBLEM.split(), "--fleet", "local:2", "--journal"]
    (tmp_path / "j.sqlite.controls.json").write_text("[")
    (tmp_path / "k.sqlite.controls.json").mkdir()
    for path, code, reason in ((tmp_path / "nowhere" / "j.sqlite", 2, "the folder of the journal "),
                               (tmp_path / "j.sqlite", 2, "is not JSON"), (tmp_path / "k.sqlite", 2, "remove the file"),
                               (tmp_path / ("j" * 245), 2, "is too long"), (tmp_path, 2, "is a folder, not a journal"),
                               (Path("/proc/j.sqlite"), 2, "cannot write into /proc")):
        assert main([*tune, str(path)]) == code
        (line,) = capfd.readouterr().err.splitlines()
        assert reason in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j.sqlite.controls.json", "k.sqlite.controls.json"]
