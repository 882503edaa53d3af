"""Checkpoints with random weights: small, quick to make, and valid in everything that they propose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from seqtune.kernels.devices.device import Device
from seqtune.kernels.registry import kernel, table
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.translator.numpy_layers import Dimensions
from seqtune.predictor.translator.word_vectors import described_arrays, shapes
from seqtune.tuner.backends.discovery import find


def save(folder: Path, device: Device | Sequence[Device] | None = None, *kernels: str) -> Path:
    """Save a checkpoint for the kernels (all of llvm) and the devices (the first of llvm) in a folder."""
    families = [kernel(name) for name in kernels or table("llvm")]
    devices = [device or find("llvm:0")] if device is None or isinstance(device, Device) else device
    vocabulary = Vocabulary.build(families, devices)
    size = Dimensions.of(vocabulary, width=16, layers=1, heads=2, hidden=16)
    generator = np.random.default_rng(0)
    state = {name: np.ones(shape, np.float32) if _is_gain(name) else
             np.asarray(generator.normal(0, 1 / np.sqrt(shape[-1]), shape), np.float32)
             for name, shape in sorted(shapes(size).items())}
    provenance: dict[str, JsonValue] = {"trained_on": {"devices": [*sorted(each.name for each in devices)]}}
    return Checkpoint(size, state | described_arrays(vocabulary), vocabulary, provenance).save(folder)


def _is_gain(name: str) -> bool:
    """Return whether the tensor is the gain of a layer norm."""
    return name in ("encoded.weight", "decoded.weight") or (".norm" in name and name.endswith(".weight"))
