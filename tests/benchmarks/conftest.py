"""The programs behind the figures, started without waiting for the libraries that they import."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.programs.programs import Programs


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """A process that starts programs, the same for all tests."""
    with Programs(tmp_path_factory.mktemp("programs")) as started:
        yield started
