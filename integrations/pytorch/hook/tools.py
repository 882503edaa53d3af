"""Tools: what `optimize` and the backend of torch.compile predict, compare and bind with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from seqtune.errors import warned
from seqtune.kernels.devices.device import Device
from seqtune.networks.peer_comparison import PeerComparison
from seqtune.networks.program.bound_kernels import KernelBinder
from seqtune.networks.program.device_threads import binder_of
from seqtune.networks.selection.selection import LayerPredictor


@dataclass(frozen=True, slots=True)
class Tools:
    """The makers of the parts, and the clock of the comparison's budget. Tests pass others."""

    predictor: Callable[..., LayerPredictor] = LayerPredictor
    comparison: Callable[..., PeerComparison] = PeerComparison
    binder: Callable[[Device], KernelBinder] = binder_of
    clock: Callable[[], float] = time.monotonic


TOOLS = Tools()


def warn_of_load(what: str) -> None:
    """Warn that `what` was measured on a machine that other programs used."""
    warned(f"{what} was measured while other work had much of the machine; what was disturbed is not remembered: "
           "measure again when it is quiet")
