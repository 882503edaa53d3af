"""Checkpoints with random weights: small, quick to make, and valid in everything that they propose."""

from __future__ import annotations

from pathlib import Path

import torch

from seqtune.kernels.device import Device
from seqtune.kernels.registry import kernel, table
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.times.checkpoint import Checkpoint
from seqtune.predictor.times.translator import Translator
from seqtune.tuner.backends.discovery import find


def save(folder: Path, device: Device | None = None, *kernels: str) -> Path:
    """Save a checkpoint for the kernels (all of llvm) and the device (the first of llvm) in a folder."""
    families = [kernel(name) for name in kernels or table("llvm")]
    vocabulary = Vocabulary.build(families, [device or find("llvm:0")])
    torch.manual_seed(0)
    model = Translator.of(vocabulary, width=16, layers=1, heads=2, hidden=16)
    return Checkpoint.of_model(model, vocabulary).save(folder)
