"""PyTorch's own ways to run a network, as contestants: eager, and three backends of torch.compile.

Each has its own copy of the model, so that none can use what another one compiled. Inputs of images come in PyTorch's
usual NCHW; the filters lie in channels_last, which is faster for convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqtune.errors import UnavailableError

from .case import Case, Run


def results_of(answer: Any) -> list[Any]:
    """The tensors of a model's answer."""
    return list(answer) if isinstance(answer, list | tuple) else [answer]


def called(model: Any, case: Case, inputs: Sequence[Any] | None = None) -> Run:
    """Call a model with these inputs, or the case's converted ones; two calls, which may compile, are made here."""
    inputs = case.converted() if inputs is None else inputs

    def run() -> list[Any]:
        return results_of(model(*inputs))

    run()
    run()
    return run


def eager(case: Case) -> Run:
    """PyTorch without compilation."""
    return called(case.copied(), case)


def compiled(case: Case) -> Run:
    """torch.compile with its defaults."""
    import torch

    return called(torch.compile(case.copied()), case)


def max_autotune(case: Case) -> Run:
    """torch.compile with constant weights, trying several kernels for each layer."""
    import torch

    return called(torch.compile(case.copied(), options={"freezing": True, "max_autotune": True}), case)


def zentorch(case: Case) -> Run:
    """AMD's backend of torch.compile. Raises UnavailableError on a CPU of another maker."""
    if "AMD" not in case.device.model:
        raise UnavailableError(f"zentorch is made for CPUs of AMD; this is {case.device.model}")
    import torch
    import zentorch  # noqa: F401  # registers its backend

    return called(torch.compile(case.copied(), backend="zentorch"), case)
