"""Hooks of Inductor, the compiler behind torch.compile: predicted configurations of its Triton templates.

    >>> import torch, seqtune.inductor
    >>> with seqtune.inductor.choosing():  # doctest: +SKIP
    ...     torch.compile(model, mode="max-autotune-no-cudagraphs")(x)

Importing this module loads PyTorch: `pip install 'seqtune[pytorch]'`.
"""

from .hooks.inductor import PredictedChoices, choosing, kernel_options

__all__ = ["PredictedChoices", "choosing", "kernel_options"]
