"""The OpenCL backend that tests marked `device` share; they are skipped where OpenCL has no device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.backends.opencl.backend import OpenCLBackend


@pytest.fixture(scope="module")
def backend() -> Iterator[OpenCLBackend]:
    """Open the first OpenCL device."""
    reason = opencl.unavailable()
    if reason is not None:
        pytest.skip(reason)
    present = opencl.devices()
    assert present, "OpenCL is available, and yet no device runs the simplest kernel"
    opened = OpenCLBackend(present[0])
    yield opened
    opened.close()
