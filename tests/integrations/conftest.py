"""Fixtures of other folders that guests share: the command line as functions, and the OpenCL backend."""

from __future__ import annotations

from tests.front.conftest import refused, run
from tests.tuner.backends.conftest import backend

__all__ = ["backend", "refused", "run"]
