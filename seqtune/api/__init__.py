"""The public functions, a module for each verb: what the command line and Python users call.

A name is loaded when it is first asked for, so that `seqtune --help` and one prediction load no other verb. Arguments
are checked before anything is written; floors that load heavy packages are imported by the functions that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqtune.kernels.lookup import lazily

if TYPE_CHECKING:
    from .building import build, build_folder, demo
    from .bulk import BulkAnswer, predict_many
    from .calibrating import calibrate
    from .checking import check_memory, compile_check, lint_library
    from .collecting.results import Collected, CollectedDevice, CollectionProgress
    from .collecting.run import collect
    from .dispatching.results import Dispatched
    from .dispatching.run import dispatch
    from .evaluating import evaluate
    from .examining import Check, Examination, doctor
    from .exchanging import export, export_c, import_data, serve_files
    from .learning import retrain, train
    from .listing import devices, kernel_json, kernels, libraries
    from .onnx_model import OnnxPrediction, OnnxRow, predict_onnx
    from .predicting import predict
    from .replaying import replay
    from .results import Answer, BuiltFolder, CompileReport, Demonstration, Devices, Prediction
    from .tuning.results import Tuned, TuningReport
    from .tuning.run import tune

_MODULES = {
    "building": ("build", "build_folder", "demo"),
    "bulk": ("BulkAnswer", "predict_many"),
    "calibrating": ("calibrate",),
    "checking": ("check_memory", "compile_check", "lint_library"),
    "collecting.results": ("Collected", "CollectedDevice", "CollectionProgress"),
    "collecting.run": ("collect",),
    "dispatching.results": ("Dispatched",),
    "dispatching.run": ("dispatch",),
    "evaluating": ("evaluate",),
    "examining": ("Check", "Examination", "doctor"),
    "exchanging": ("export", "export_c", "import_data", "serve_files"),
    "learning": ("retrain", "train"),
    "listing": ("devices", "kernel_json", "kernels", "libraries"),
    "onnx_model": ("OnnxPrediction", "OnnxRow", "predict_onnx"),
    "predicting": ("predict",),
    "replaying": ("replay",),
    "results": ("BuiltFolder", "CompileReport", "Demonstration", "Devices", "Prediction", "Answer"),
    "tuning.results": ("Tuned", "TuningReport"),
    "tuning.run": ("tune",),
}
_REFERENCES = {name: f"seqtune.api.{module}:{name}" for module, names in _MODULES.items() for name in names}

__all__ = [
    "Answer", "BuiltFolder", "BulkAnswer", "Check", "Collected", "CollectedDevice", "CollectionProgress",
    "CompileReport", "Demonstration", "Devices", "Dispatched", "Examination", "OnnxPrediction", "OnnxRow",
    "Prediction", "Tuned", "TuningReport", "build", "build_folder", "calibrate", "check_memory", "collect",
    "compile_check", "demo", "devices", "dispatch", "doctor", "evaluate", "export", "export_c", "import_data",
    "kernel_json", "kernels", "libraries", "lint_library", "predict", "predict_many", "predict_onnx", "replay",
    "retrain", "serve_files", "train", "tune",
]

__getattr__, __dir__ = lazily(__name__, _REFERENCES, __all__)
