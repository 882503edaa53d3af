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

from seqtune.kernels.version import VERSION as __version__

from .errors import SeqtuneError

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem

    from .api import Prediction, calibrate, collect, devices, evaluate, export, predict, retrain, train, tune
    from .library import use_library
    from .reporting.report import report
    from .results import Proposal as Candidate
    from .strategy_replay import replay

__all__ = [
    "Candidate", "Configuration", "Device", "Prediction", "Problem", "SeqtuneError", "__version__", "calibrate",
    "collect", "devices", "evaluate", "export", "predict", "replay", "report", "retrain", "train", "tune",
    "use_library",
]

_HOMES = {
    "Candidate": "seqtune.results:Proposal",
    "Configuration": "seqtune.kernels.kernel:Configuration",
    "Device": "seqtune.kernels.devices.device:Device",
    "Prediction": "seqtune.results:Prediction",
    "Problem": "seqtune.kernels.problem:Problem",
    "replay": "seqtune.strategy_replay:replay",
    "report": "seqtune.reporting.report:report",
    "use_library": "seqtune.library:use_library",
    **{name: f"seqtune.api:{name}"
       for name in ("calibrate", "collect", "devices", "evaluate", "export", "predict", "retrain", "train", "tune")},
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'seqtune' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    found: object = getattr(importlib.import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
