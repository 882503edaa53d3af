"""What is uploaded: `make dist` checks a wheel and a source distribution with the function that is tested here."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from seqtune.kernels.version import VERSION
from tests.support.installation.distributions import findings, main
from tests.support.installation.wheel import build


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a source distribution and the wheel that was made from it."""
    return build(tmp_path_factory.mktemp("distributions")).parent


def test_what_is_built_can_be_uploaded(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(built)]) == 0
    assert f"seqtune-{VERSION}.tar.gz (" in capsys.readouterr().out


def test_a_wheel_with_damaged_metadata_and_a_lost_and_a_stray_file_is_found(
        built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in built.iterdir():
        if path.suffix == ".gz":
            shutil.copy(path, tmp_path)
            continue
        with zipfile.ZipFile(path) as whole, zipfile.ZipFile(tmp_path / path.name, "w") as damaged:
            for name in whole.namelist():
                content = whole.read(name)
                if name.endswith("/METADATA"):
                    content = content.replace(b"License-Expression: MIT\n", b"").replace(
                        f"Version: {VERSION}\n".encode(), b"Version: 9.9\n", 1)
                if name != "seqtune/errors.py":
                    damaged.writestr(name, content)
            damaged.writestr("seqtune/stray.py", "")
    assert main([str(tmp_path)]) == 1
    shown = capsys.readouterr().err
    for line in ("lacks seqtune/errors.py", "holds seqtune/stray.py, which the sources do not",
                 f"version 9.9, but kernels/version.py says {VERSION}", "the licence is not named"):
        assert line in shown


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "seqtune-0.0.0.tar.gz").touch()
    assert list(findings(tmp_path)) == [f"expected a wheel and a source distribution of version {VERSION}, found "
                                        "seqtune-0.0.0.tar.gz"]
