"""PyTorch models with tuned kernels: the documented name of `seqtune.hooks.pytorch`.

    >>> from seqtune.pytorch import optimize
    >>> fast = optimize(model, example)  # doctest: +SKIP

Importing this package loads PyTorch: `pip install 'seqtune[pytorch]'`.
"""

from ..hooks.pytorch import NetworkExplanation, Optimized, backend, explain, optimize

__all__ = ["NetworkExplanation", "Optimized", "backend", "explain", "optimize"]
