"""seqtune predicts the tuning parameters of compute kernels, and proves them by measuring.

    >>> import seqtune
    >>> problem = "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1"
    >>> answer = seqtune.predict(problem, device="llvm:0", verify=True)  # doctest: +SKIP
    >>> answer.winner.configuration, answer.speedup  # doctest: +SKIP

Everything public is loaded when it is first asked for: `import seqtune` itself loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .errors import SeqtuneError

if TYPE_CHECKING:
    from seqtune.kernels.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem

    from .api import Candidate, Prediction, devices, evaluate, export, predict, retrain, train, tune
    from .strategy_replay import replay

__version__ = "0.1.0"

__all__ = [
    "Candidate", "Configuration", "Device", "Prediction", "Problem", "SeqtuneError", "__version__", "devices",
    "evaluate", "export", "predict", "replay", "retrain", "train", "tune",
]

_HOMES = {
    "Configuration": "seqtune.kernels.kernel",
    "Device": "seqtune.kernels.device",
    "Problem": "seqtune.kernels.problem",
    "replay": "seqtune.strategy_replay",
} | dict.fromkeys(
    ("Candidate", "Prediction", "devices", "evaluate", "export", "predict", "retrain", "train", "tune"), "seqtune.api")


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'seqtune' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
