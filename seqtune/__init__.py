"""seqtune predicts the tuning parameters of compute kernels, and proves them by measuring.

    >>> import seqtune
    >>> problem = "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1"
    >>> answer = seqtune.predict(problem, device="llvm:0", verify=True)  # doctest: +SKIP
    >>> answer.winner.configuration, answer.speedup  # doctest: +SKIP

A public name is loaded when it is first asked for: `import seqtune` itself loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqtune.kernels.lookup import lazily
from seqtune.kernels.version import VERSION as __version__

from .errors import SeqtuneError

if TYPE_CHECKING:
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.building.built_kernel import BuiltKernel

    from .api import (
        Answer,
        Prediction,
        build,
        calibrate,
        collect,
        devices,
        dispatch,
        evaluate,
        export,
        export_c,
        predict,
        replay,
        retrain,
        serve_files,
        train,
        tune,
    )
    from .api.library import use_library
    from .reporting.report import report

__all__ = [
    "Answer", "BuiltKernel", "Configuration", "Device", "Prediction", "Problem", "SeqtuneError", "__version__",
    "build", "calibrate", "collect", "devices", "dispatch", "evaluate", "export", "export_c", "predict", "replay",
    "report", "retrain", "serve_files", "train", "tune", "use_library",
]

_REFERENCES = {
    "BuiltKernel": "seqtune.tuner.building.built_kernel:BuiltKernel",
    "Configuration": "seqtune.kernels.kernel:Configuration",
    "Device": "seqtune.kernels.devices.device:Device",
    "Problem": "seqtune.kernels.problem:Problem",
    "report": "seqtune.reporting.report:report",
    "use_library": "seqtune.api.library:use_library",
    **{name: f"seqtune.api:{name}" for name in (
        "Answer", "Prediction", "build", "calibrate", "collect", "devices", "dispatch", "evaluate", "export",
        "export_c", "predict", "replay", "retrain", "serve_files", "train", "tune")},
}

_FORMER = {"Candidate": "Answer"}  # names of 0.2.0, which work for one more minor version

__getattr__, __dir__ = lazily(__name__, _REFERENCES, __all__, _FORMER)
