"""A checkpoint that takes the place of the shipped one for GPUs while a test runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.kernels.devices.accelerators import BACKENDS
from seqtune.predictor import checkpoint_folder
from tests.support import untrained
from tests.support.devices import described_gpu

NAME = "gpu"
KERNELS = ("cuda.tensor_gemm", "cuda.wgmma_gemm", "triton.gemm", "triton.fused_moe", "triton.scaled_gemm")


def ship(checkpoint: Path, patch: pytest.MonkeyPatch) -> None:
    """Let the checkpoint in a folder answer for GPUs; the other shipped checkpoints stay what they are."""
    folder = checkpoint.parent / "shipped"
    folder.mkdir()
    for path in checkpoint_folder.SHIPPED.iterdir():
        if path.name != NAME:
            (folder / path.name).symlink_to(path)
    (folder / NAME).symlink_to(checkpoint)
    patch.setattr(checkpoint_folder, "SHIPPED", folder)


def ship_random(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The same with random weights, for the KERNELS on H100s; it knows no other kernel."""
    ship(untrained.save(folder / "random", [described_gpu(backend, "h100") for backend in BACKENDS], *KERNELS), patch)
