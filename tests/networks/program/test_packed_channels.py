"""The order of packed weights, which a step multiplies by factors of input channels."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.errors import KernelError
from seqtune.networks.program.jobs import channel_runs
from seqtune.networks.steps.view import View


def test_runs_of_channels_are_found_in_packed_weights_and_other_orders_are_refused() -> None:
    packed = np.tile(np.repeat(np.arange(3, dtype=np.float32), 4), 2)
    assert channel_runs(packed, 3) == View.contiguous((2, 3, 4))
    assert channel_runs(np.zeros(5, np.float32), 1) == View.contiguous((1, 1, 5))
    for wrong in (packed[::-1], np.arange(4, dtype=np.float32), np.zeros(4, np.float32)):
        with pytest.raises(KernelError, match="not in the order"):
            channel_runs(wrong, 3)
