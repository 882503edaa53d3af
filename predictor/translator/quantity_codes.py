"""Quantity codes: quantities of problems and configurations as the numbers that networks read.

Training needs them as tensors on any device, and prediction must not import torch: the same functions stand in
`seqtune.predictor.translator.word_vectors` for NumPy, and tests compare them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def resolved_numbers(resolved: Tensor) -> Tensor:
    """The codes (..., D * RESOLVED_SIZE) of derived quantities, given by their log2 (..., D); zeros for NaN.

    The numbers of a quantity are: 1, its magnitude, twice its log2 limited to +-1 (for waste and idle threads), whether
    it is 1, the smaller of 1 and its inverse, and the quantity itself up to 32 (for registers).
    """
    present = ~torch.isnan(resolved)
    octave = torch.where(present, resolved, 0.0)
    numbers = torch.stack([
        torch.ones_like(octave), octave / 8, 2 * octave.clamp(-1, 1), (octave.abs() < 1e-3).to(octave.dtype),
        torch.exp2(-octave.clamp(min=0)), torch.exp2(octave.clamp(max=5)) / 16], dim=-1)
    return (numbers * present[..., None]).flatten(-2)


def fit_numbers(quantities: Tensor, values: Tensor) -> Tensor:
    """Compare quantities (B, Q) with values (V,): (B, V, Q * FIT_SIZE).

    For a quantity q and a value v the numbers are log2(q / v) / 8, q relative to the next multiple of v, whether v
    divides q, and whether v >= q. They are zeros if q or v is not positive.
    """
    q, v = quantities[:, None, :], values[None, :, None]
    present = (q > 0) & (v > 0)
    q, v = torch.where(present, q, 1.0), torch.where(present, v, 1.0)
    times = torch.ceil(q / v)
    share = q / (times * v)
    numbers = torch.stack([torch.log2(q / v) / 8, share, (share == 1).to(q.dtype), (times == 1).to(q.dtype)], dim=-1)
    return (numbers * present[..., None]).flatten(2)
