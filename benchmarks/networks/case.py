"""Case: one network with its inputs, precision and threads, which every contestant computes."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from seqtune.kernels.devices.device import Device

TOLERANCES: Mapping[str, float] = {"fp32": 1e-3, "bf16": 2e-2}  # precision -> largest error of a result

Run = Callable[[], Sequence[Any]]  # computes the network once; its results are tensors or arrays


@dataclass(frozen=True)
class Case:
    """One network, in fp32 and evaluation mode, and the precision in which it is to be computed."""

    model: nn.Module
    inputs: Sequence[Tensor]
    dtype: str  # fp32 or bf16
    device: Device  # has the number of threads
    folder: Path  # this case may write files into it
    convolutional: bool
    _exports: list[float] = field(default_factory=list)  # seconds, once exported

    def copied(self) -> nn.Module:
        """A copy of the model in the case's precision; the filters of images lie in channels_last."""
        import torch

        model = copy.deepcopy(self.model)
        if self.dtype == "bf16":
            model = model.to(torch.bfloat16)
        return model.to(memory_format=torch.channels_last) if self.convolutional else model  # type: ignore[call-overload]

    def converted(self) -> list[Tensor]:
        """The inputs in the case's precision; numbers of tokens stay as they are."""
        import torch

        return [value.to(torch.bfloat16) if self.dtype == "bf16" and value.is_floating_point() else value
                for value in self.inputs]

    def onnx_file(self) -> Path:
        """The model as an ONNX file, exported when the first contestant asks for it."""
        import torch

        path = self.folder / "network.onnx"
        if not self._exports:
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns that torchvision is missing
            began = time.perf_counter()
            torch.onnx.export(self.model, tuple(self.inputs), path, dynamo=True, verbose=False,
                              input_names=[f"input_{index}" for index in range(len(self.inputs))])
            self._exports.append(time.perf_counter() - began)
        return path

    @property
    def export_seconds(self) -> float | None:
        """The seconds that the export to ONNX took; None where nobody asked for it."""
        return self._exports[0] if self._exports else None


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
