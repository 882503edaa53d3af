"""Backends that the tests of one module share: opening one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seqtune.tuner.backends.llvm.backend import LLVMBackend


@pytest.fixture(scope="module")
def backends(request: pytest.FixtureRequest) -> Iterator[dict[str, LLVMBackend]]:
    """An open backend for each device of the module's BY_NAME."""
    opened = {name: LLVMBackend(device) for name, device in request.module.BY_NAME.items()}
    yield opened
    for backend in opened.values():
        backend.close()
