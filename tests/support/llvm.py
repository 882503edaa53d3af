"""The CPU of this machine, for tests of what LLVM compiles."""

from __future__ import annotations

import pytest

from seqtune.tuner.backends.llvm import backend as llvm

needs_llvm = pytest.mark.skipif(llvm.unavailable() is not None, reason=str(llvm.unavailable()))
DEVICES = [] if llvm.unavailable() else llvm.devices()
