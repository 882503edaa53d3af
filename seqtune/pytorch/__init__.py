"""PyTorch models with tuned kernels.

    >>> from seqtune.pytorch import optimize
    >>> fast = optimize(model, example)  # doctest: +SKIP

Importing this package loads PyTorch.
"""

from .dynamo import backend
from .explanation import NetworkExplanation, explain
from .optimized import Optimized, optimize

__all__ = ["NetworkExplanation", "Optimized", "backend", "explain", "optimize"]
