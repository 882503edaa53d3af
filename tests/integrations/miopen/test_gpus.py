"""Facts of AMD's GPUs under MIOpen's names."""

from __future__ import annotations

import pytest

from seqtune.integrations.miopen.kernels.gpus import CARDS, device
from tests.support.devices import described_gpu


def test_figures_of_miopens_gpus_are_near_those_of_the_table() -> None:
    for architecture, units in CARDS:
        known = described_gpu("triton", f"{architecture}_{units}")
        figures = device(f"{architecture} compute_units={units}")
        assert figures.peak_gflops == pytest.approx(known.peak_gflops, rel=0.01)
        assert figures.bandwidth_gbs == known.bandwidth_gbs
        assert figures.l3_bytes == max(known.l2_bytes, known.l3_bytes)
