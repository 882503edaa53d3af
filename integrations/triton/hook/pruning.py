"""Pruning: the dictionary for triton.autotune's `prune_configs_by`, which asks a predictor instead of the clock.

triton.autotune calls `early_config_prune` once for every new key. It returns the predicted configurations: with one,
Triton benchmarks nothing (before 3.8 it times this one). Where no prediction is possible, it issues one line as a
SeqtuneWarning and returns the user's configurations, so that Triton tunes as it would without seqtune.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.errors import MisuseError, SeqtuneError, shown
from seqtune.hooks.asking import ANY, Asking, Tool, declared, narrowed
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import BY_TORCH_NAME
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.operations.table import operation as operation_of
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.kernels.triton.text import AMD_ONLY
from seqtune.predictor.answering import answering

from ..formats import OPTIONS
from .configs import check_names, config_of, family_of, nearest, settings_of

if TYPE_CHECKING:
    from seqtune.kernels.operations.feature import Value


def prune(operation: str | None = None, *, names: Mapping[str, str] | None = None, top: int = 1,
          device: Device | str | None = None, kernel: Kernel | str | Path | None = None,
          checkpoint: str | Path | None = None, min_confidence: float | None = None,
          **features: Value) -> dict[str, Any]:
    """Make the dictionary for `prune_configs_by=`.

    `features` give the problem: each is the name of one of the kernel's arguments (`m="M"`; of a tensor, its element
    type) or a value (`trans_b="yes"`). The element type is that of the first tensor unless `dtype` is given. `names`
    are the kernel's names of our parameters (`{"BLOCK_M": "BLOCK_SIZE_M"}`); a parameter that the user's configurations
    lack keeps its default. `top` configurations are returned. `device` counts where no GPU is running (None: the
    running one). `kernel` declares the user's own kernel: a Kernel or a JSON file of one; its parameters are the
    settings of its configurations, and `operation` is its own. `checkpoint` is a model trained for it (None: the one
    for the device). If the first configuration is not expected to reach the share `min_confidence` of the best speed,
    Triton tunes. Raises MisuseError for arguments that can never work.
    """
    if not isinstance(top, int) or isinstance(top, bool) or top < 1:
        raise MisuseError(f"top={shown(top)}; the number of configurations to return is at least 1")
    asking = Asking(device, checkpoint, min_confidence)
    for name, value, kinds in (("operation", operation, (str,)),
                               *((name, value, (int, float, str)) for name, value in features.items())):
        if value is not None and not isinstance(value, kinds):
            raise MisuseError(f"{name}={shown(value)} is no {' or '.join(kind.__name__ for kind in kinds)}")
    family = declared(kernel) if kernel is not None else None
    if family is None and checkpoint is None:
        family = family_of(operation or "gemm")
    kind = family.operation if family is not None else operation or "recorded"
    if operation is not None and operation != kind:
        raise MisuseError(f"{family.name if family else checkpoint} solves {kind}, not {operation}")
    check_names(names, family)
    known = {feature.name for feature in operation_of(kind).features}
    wrong = next((name for name in features if known and name not in known), None)
    if wrong is not None:
        raise MisuseError(f"{kind} has no feature {wrong!r:.40}; there are {', '.join(sorted(known))}")
    return {"early_config_prune": Pruning(kind, family, names or {}, top, asking, features)}


class Pruning:
    """The callable behind `early_config_prune`."""

    def __init__(self, kind: str, family: Kernel | None, names: Mapping[str, str], top: int, asking: Asking,
                 features: Mapping[str, Value]) -> None:
        self.kind, self.family, self.names, self.top = kind, family, names, top
        self.asking, self.features = asking, features
        self.triton = Tool("Triton tunes")

    def __call__(self, configs: Sequence[Any], nargs: Mapping[str, Any], **kwargs: Any) -> list[Any]:
        """The predicted configurations, best first; all `configs` where none can be predicted."""
        try:
            return self.predicted(configs, {**nargs, **kwargs})
        except SeqtuneError as error:
            self.triton.chooses(error)
            return list(configs)

    def predicted(self, configs: Sequence[Any], arguments: Mapping[str, Any]) -> list[Any]:
        """The predicted configurations, best first. Raises SeqtuneError."""
        device = self.asking.gpu()
        problem = Problem.make(self.kind, **self.problem_features(arguments))
        present = frozenset(name for config in configs for name in settings_of(config, self.names))
        if self.family is None:  # the checkpoint knows the kernel
            task = answering(problem, device, self.asking.checkpoint).task
        else:
            task = Task.of(problem, device, [self.family])
        proposals = self.asking.propose(_expressible(task, self.names, present), self.top)
        nvidia = device.architecture.startswith("sm_")
        return [self.config(configuration, configs, nvidia, present) for configuration in proposals]

    def problem_features(self, arguments: Mapping[str, Any]) -> dict[str, Value]:
        """The problem's features by name: values of arguments, element types of tensors, or the given values."""
        features = {name: _value(arguments[value]) if isinstance(value, str) and value in arguments else value
                    for name, value in self.features.items()}
        declared = operation_of(self.kind).by_name
        if "dtype" not in features and (not declared or "dtype" in declared):
            types = [_value(argument) for argument in arguments.values() if hasattr(argument, "dtype")]
            if types:
                features["dtype"] = types[0]
        if self.kind == "recorded" and self.family is not None:
            features.setdefault("kernel", self.family.name.partition(".")[2])
        elif declared:
            for name, value in features.items():
                if name in declared and isinstance(value, str) and not declared[name].choices:
                    given = str(self.features.get(name))
                    raise MisuseError(f"the kernel's argument {given!r:.40}, which is {name}, must be a number and is "
                                      f"{_kind(arguments[given])}" if given in arguments else
                                      f"the kernel was called without the argument {value!r:.40}, which is {name}")
        if not declared and isinstance(features.get("dtype"), str):
            words = {ours: theirs for theirs, ours in BY_TORCH_NAME.items()}
            features["dtype"] = words.get(str(features["dtype"]), features["dtype"])
        return features

    def config(self, configuration: Configuration, configs: Sequence[Any], nvidia: bool,
               present: frozenset[str]) -> Any:
        """One configuration as a triton.Config, with what the user's nearest one has beside our parameters."""
        wanted = {*present, *OPTIONS, *(() if nvidia else AMD_ONLY)}  # NVIDIA's compiler refuses AMD's options
        settings = {name: value for name, value in configuration.settings if name in wanted}
        return config_of(settings, self.names, nearest(configuration, configs, self.names))


def _expressible(task: Task, names: Mapping[str, str], present: frozenset[str]) -> Task:
    """The part of a task that the user's kernel can run: a parameter that the kernel lacks keeps its default."""
    for kernel in task.kernels:
        listed = [parameter.name for parameter in kernel.parameters if parameter.name not in OPTIONS]
        if not present.intersection(listed):
            raise MisuseError(f"no configuration of the kernel has any of {', '.join(listed)}; `names` gives the "
                              "kernel's own names of them")
    wrong = next((theirs for ours, theirs in names.items() if ours not in present), None)
    if wrong is not None:
        raise MisuseError(f"no configuration of the kernel has {wrong!r:.40}, which `names` gives")
    return narrowed(task, dict.fromkeys((*present, *OPTIONS), ANY))


def _kind(argument: Any) -> str:
    """An argument's type in words."""
    return f"of type {argument.dtype}" if hasattr(argument, "dtype") else f"{argument!r:.40}"


def _value(argument: Any) -> Value:
    """An argument of a kernel as a feature: a number, a word, or the element type of a tensor."""
    if hasattr(argument, "dtype"):
        name = str(argument.dtype).rpartition(".")[2]
        return BY_TORCH_NAME.get(name, name)
    if isinstance(argument, bool):
        return "yes" if argument else "no"
    if isinstance(argument, int | float | str):
        return argument
    raise MisuseError(f"an argument that is a {type(argument).__name__} describes no problem")
