"""PyTorch models with tuned kernels.

    >>> from seqtune.pytorch import optimize
    >>> fast = optimize(model, example)  # doctest: +SKIP

Importing this package loads PyTorch: `pip install 'seqtune[pytorch]'`.
"""

from ..errors import check_installed

check_installed("pytorch", "torch")

from .dynamo import backend  # noqa: E402
from .explanation import NetworkExplanation, explain  # noqa: E402
from .optimized import Optimized, optimize  # noqa: E402

__all__ = ["NetworkExplanation", "Optimized", "backend", "explain", "optimize"]
