"""CLBlast with predicted parameters: matrix products on a queue of pyopencl. Users know this as `seqtune.clblast`.

    >>> import seqtune.clblast
    >>> c = seqtune.clblast.gemm(queue, a, b)  # doctest: +SKIP

CLBlast and pyopencl are loaded when a function here is called.
"""

from __future__ import annotations

from .products import choose, defaults, gemm, parameters, tune

__all__ = ["choose", "defaults", "gemm", "parameters", "tune"]
