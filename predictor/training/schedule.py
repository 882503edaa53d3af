"""Schedule: the learning rate during a training."""

from __future__ import annotations

import math


def schedule(done: float, warm_up: float) -> float:
    """The learning rate relative to its peak after the share `done` of the steps.

    It rises linearly to 1 during the share `warm_up`, then falls along a cosine to 0.02.
    """
    if done < warm_up:
        return (done + 1e-3) / (warm_up + 1e-3)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up)))
