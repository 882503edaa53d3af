"""Kernel Tuner with seqtune's strategies.

    >>> from kernel_tuner import tune_kernel  # doctest: +SKIP
    >>> from seqtune.kerneltuner import strategy
    >>> tune_kernel(..., strategy=strategy(), strategy_options={"max_fevals": 100})  # doctest: +SKIP
    >>> tune_kernel(..., strategy=strategy(checkpoint="mine"))  # doctest: +SKIP

Kernel Tuner compiles, runs and checks; our strategy proposes the configurations. With a checkpoint that was trained on
caches of the kernel, the checkpoint's proposals for the problem come first.
"""

from .hooks.kernel_tuner.strategy import strategy

__all__ = ["strategy"]
