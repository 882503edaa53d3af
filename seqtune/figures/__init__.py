"""Figures of results, drawn with Matplotlib (`pip install 'seqtune[plot]'`). Each function returns a figure.

    >>> from seqtune import figures
    >>> figures.landscape("journal.sqlite", "gemm m=64 n=64 k=64").savefig("landscape.svg")  # doctest: +SKIP

A function is loaded when it is first asked for. A notebook shows the figure that a cell returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqtune.kernels.lookup import lazily

if TYPE_CHECKING:
    from .networks import steps
    from .predictions import experts, shares
    from .searches import convergence
    from .spaces import landscape

__all__ = ["convergence", "experts", "landscape", "shares", "steps"]

_REFERENCES = {
    "convergence": "seqtune.figures.searches:convergence", "experts": "seqtune.figures.predictions:experts",
    "landscape": "seqtune.figures.spaces:landscape", "shares": "seqtune.figures.predictions:shares",
    "steps": "seqtune.figures.networks:steps",
}

__getattr__, __dir__ = lazily(__name__, _REFERENCES, __all__)
