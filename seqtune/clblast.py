"""CLBlast with predicted parameters: matrix products on a queue of pyopencl.

    >>> import seqtune.clblast
    >>> c = seqtune.clblast.gemm(queue, a, b)  # doctest: +SKIP

CLBlast and pyopencl are loaded when a function here is called.
"""

from .hooks.clblast import choose, defaults, gemm, parameters, tune

__all__ = ["choose", "defaults", "gemm", "parameters", "tune"]
