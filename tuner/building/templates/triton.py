"""A GPU, by PyTorch and Triton, or with TRITON_INTERPRET=1 in the environment Triton's interpreter."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
RUNS = 1 if INTERPRETED else 20
ERRORS = (LookupError, RuntimeError, ImportError)


class Device:
    """The GPU that PyTorch uses."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        if not INTERPRETED and not torch.cuda.is_available():
            raise LookupError("PyTorch finds no GPU here; TRITON_INTERPRET=1 runs the kernel in Triton's interpreter")
        if INTERPRETED and any(buffer["type"] == "bf16" for buffer in about["buffers"].values()):
            raise LookupError("Triton's interpreter does not compute with bf16")
        self.name = "Triton's interpreter" if INTERPRETED else torch.cuda.get_device_name()
        self.module = importlib.import_module(about["name"])
        self.buffers = about["buffers"]
        self.tensors: dict[str, Any] = {}

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Copy the bytes of an array to a new tensor; the module has its workspaces and launches itself."""
        if name in self.buffers:
            tensor = torch.tensor(array.reshape(-1).view(np.uint8), device="cpu" if INTERPRETED else "cuda")
            buffer = self.buffers[name]
            self.tensors[name] = tensor.view(self.module.TYPES[buffer["type"]]).reshape(buffer["shape"])

    def read(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Copy a tensor to an array, and return it."""
        array.reshape(-1).view(np.uint8)[...] = self.tensors[name].reshape(-1).view(torch.uint8).cpu().numpy()
        return array

    def run(self) -> float:
        """Launch all entries in order; returns the seconds of the GPU's events, or in the interpreter of the clock."""
        if INTERPRETED:
            begin = time.perf_counter()
            self.module.run(**self.tensors)
            return time.perf_counter() - begin
        event: Any = torch.cuda.Event
        events = [event(enable_timing=True) for _ in range(2)]
        events[0].record()
        self.module.run(**self.tensors)
        events[1].record()
        events[1].synchronize()
        return 1e-3 * float(events[0].elapsed_time(events[1]))
