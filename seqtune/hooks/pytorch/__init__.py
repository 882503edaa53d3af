"""PyTorch's hooks: `optimize`, and the backend of torch.compile. Their documented name is `seqtune.pytorch`."""

from ...errors import check_installed

check_installed("pytorch", "torch")

from seqtune.networks.explanation import NetworkExplanation, explain  # noqa: E402
from seqtune.networks.optimized import Optimized  # noqa: E402

from .dynamo import backend  # noqa: E402
from .optimization import optimize  # noqa: E402

__all__ = ["NetworkExplanation", "Optimized", "backend", "explain", "optimize"]
