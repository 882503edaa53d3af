"""Hooks of triton.autotune: predicted configurations instead of a benchmark, and a record of every benchmark.

    >>> import triton, seqtune.triton
    >>> @triton.autotune(configs=seqtune.triton.space("gemm"), key=["M", "N", "K"],
    ...                  prune_configs_by=seqtune.triton.prune("gemm", m="M", n="N", k="K"))  # doctest: +SKIP
    ... @triton.jit
    ... def matmul(...): ...

Users know this package as `seqtune.triton`. Triton is imported when a function here is called.
"""

from __future__ import annotations

from .configs import space
from .heuristics import heuristics
from .pruning import prune
from .recording import Recording, record

__all__ = ["Recording", "heuristics", "prune", "record", "space"]
