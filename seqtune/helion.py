"""Hooks of Helion: predicted configurations instead of a search, and seeds of one.

    >>> import helion, seqtune.helion
    >>> @helion.kernel(autotuner_fn=seqtune.helion.autotuner())  # doctest: +SKIP
    ... def matmul(x, y): ...

Helion is imported when it asks.
"""

from .hooks.helion import Autotuner, autotuner, seed_configs

__all__ = ["Autotuner", "autotuner", "seed_configs"]
