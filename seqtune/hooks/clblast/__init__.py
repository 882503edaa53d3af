"""Matrix products by CLBlast with predicted parameters. Their documented name is `seqtune.clblast`."""

from __future__ import annotations

from .choices import choose, parameters, tune
from .products import defaults, gemm

__all__ = ["choose", "defaults", "gemm", "parameters", "tune"]
