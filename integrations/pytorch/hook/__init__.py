"""PyTorch models with tuned kernels, and the backend of torch.compile. Users know this package as `seqtune.pytorch`.

    >>> from seqtune.pytorch import optimize
    >>> fast = optimize(model, example)  # doctest: +SKIP

Importing it loads PyTorch: `pip install 'seqtune[pytorch]'`.
"""

from seqtune.errors import check_installed

check_installed("pytorch", "torch")

from seqtune.networks.explanation import NetworkExplanation, explain  # noqa: E402
from seqtune.networks.optimized import Optimized  # noqa: E402

from .dynamo import backend  # noqa: E402
from .optimization import optimize  # noqa: E402

__all__ = ["NetworkExplanation", "Optimized", "backend", "explain", "optimize"]
