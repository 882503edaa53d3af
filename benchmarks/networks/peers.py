"""Peers: what a user with a CPU would run a network with instead of us. They are timed and never learned from."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seqtune.errors import SeqtuneError, UnavailableError, one_line

from . import onnx_peers, torch_peers
from .case import Case, Run

LONGEST_REASON = 300  # characters


@dataclass(frozen=True)
class NetworkPeer:
    """One peer: what prepares its run of a case, and the packages beyond PyTorch that it needs."""

    name: str
    prepare: Callable[[Case], Run]
    packages: Sequence[str] = ()
    install: str = "pip install 'seqtune[networks]'"

    def prepared(self, case: Case) -> Run:
        """Prepare the peer's run. Raises UnavailableError with the reason if it cannot compute the case here."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                raise UnavailableError(f"{package} is not installed: {self.install}")
        return guarded(lambda: self.prepare(case))


PEERS: Sequence[NetworkPeer] = (
    NetworkPeer("eager", torch_peers.eager),
    NetworkPeer("compile", torch_peers.compiled),
    NetworkPeer("max_autotune", torch_peers.max_autotune),
    NetworkPeer("onnxruntime", onnx_peers.onnx_runtime, ("onnx", "onnxscript", "onnxruntime")),
    NetworkPeer("openvino", onnx_peers.open_vino, ("onnx", "onnxscript", "openvino")),
    NetworkPeer("zentorch", torch_peers.zentorch, ("zentorch",),
                "pip install --no-deps zentorch, of the minor version of torch"),
)


def guarded(prepare: Callable[[], Run]) -> Run:
    """Prepare a run. Raises UnavailableError in place of whatever a foreign library raises."""
    try:
        return prepare()
    except SeqtuneError:
        raise
    except Exception as error:  # a missing compiler, an operation that is unknown: libraries raise many kinds
        raise UnavailableError(one_line(f"{type(error).__name__}: {error}", LONGEST_REASON)) from error
