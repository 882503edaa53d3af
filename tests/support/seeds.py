"""Other random numbers for the whole run: `SEQTUNE_TEST_SEED=3` shifts every seed of NumPy and PyTorch by 3.

Trainings learn from other examples in another order, searches begin elsewhere, noise falls differently: a test that
only passes for the numbers that it was written with shows itself.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from seqtune.errors import is_installed

OFFSET = int(os.environ.get("SEQTUNE_TEST_SEED", "0"))
_STRIDE = 1_000_003  # a prime far from the small seeds that are in use, so that no two of them are exchanged


def shift_seeds() -> None:
    """Shift the seeds in this process; processes that it starts keep their own."""
    if not OFFSET:
        return
    new_generator = np.random.default_rng

    def default_rng(seed: Any = None) -> np.random.Generator:
        if isinstance(seed, int):
            return new_generator(seed + OFFSET * _STRIDE)
        return new_generator([*seed, OFFSET] if isinstance(seed, list) else seed)

    np.random.default_rng = default_rng
    if is_installed("torch"):
        _shift_torch()


def _shift_torch() -> None:
    import torch

    set_seed = torch.manual_seed

    def manual_seed(seed: int) -> torch.Generator:
        return set_seed(seed + OFFSET * _STRIDE)

    torch.manual_seed = manual_seed
