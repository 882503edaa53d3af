"""What is uploaded: `make dist` checks a wheel and a source distribution with the function that is tested here."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.kernels.version import VERSION
from tests.support.installation.distributions import main
from tests.support.installation.wheel import build


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a source distribution and the wheel that was made from it."""
    return build(tmp_path_factory.mktemp("distributions")).parent


def test_what_is_built_can_be_uploaded(built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(built)]) == 0
    assert f"seqtune-{VERSION}.tar.gz (" in capsys.readouterr().out
