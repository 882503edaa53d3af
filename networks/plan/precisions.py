"""Precisions of networks: PyTorch's types of numbers, what devices compute in, and how far results may differ."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from seqtune.errors import MisuseError, UnavailableError, shown
from seqtune.kernels.devices.device import Device

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
TOLERANCES = {"fp32": 1e-3, "bf16": 2e-2}  # largest allowed max|difference| / max|reference|


def checked_precision(precision: object, weights: Iterable[Tensor], device: Device) -> str:
    """The precision that was asked for; None stands for that of the weights.

    Raises MisuseError for an unknown one, UnavailableError where the device does not have it.
    """
    if precision is None:
        precision = "bf16" if has_bf16(weights) else "fp32"
    if not isinstance(precision, str) or precision not in DTYPES:
        raise MisuseError(f"precision={shown(precision)} is not one of {', '.join(DTYPES)}")
    if precision == "bf16" and device.names()["bf16_dots"] != 1:
        raise UnavailableError(f"{device.name} does not multiply bf16 numbers; precision=\"fp32\" is possible here")
    return precision


def has_bf16(tensors: Iterable[Tensor]) -> bool:
    """Whether one of the tensors is bf16."""
    return any(tensor.dtype == torch.bfloat16 for tensor in tensors)
