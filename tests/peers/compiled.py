"""Compiled: a model of somebody else's, compiled by seqtune without measurements and compared with PyTorch itself."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from seqtune.pytorch import optimize

LARGEST = 1e-4  # difference, of the largest number of a result: sums of fp32 numbers in another order


def fault(model: nn.Module, examples: Sequence[Tensor]) -> str:
    """The fault of a compiled model's results; empty if they are right. Raises SeqtuneError if it is refused."""
    model.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _tensors(model(*examples))
        found = _tensors(optimize(model, list(examples), verify=False)(*examples))
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in found]:
        return f"shapes {[tuple(tensor.shape) for tensor in found]}, not {[tuple(tensor.shape) for tensor in expected]}"
    worst = max((_difference(ours, theirs) for ours, theirs in zip(found, expected, strict=True)), default=0.0)
    return "" if worst <= LARGEST else f"a difference of {worst:.2g} of the largest number"


def _tensors(result: object) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]


def _difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference of two tensors over their largest number; infinite where one has other NaN."""
    if not theirs.numel():
        return 0.0
    if not torch.equal(ours.isnan(), theirs.isnan()):
        return float("inf")
    theirs, ours = theirs.double().nan_to_num(), ours.double().nan_to_num()
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-30))
