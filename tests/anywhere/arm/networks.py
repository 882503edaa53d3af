"""Compile networks for an ARM CPU and save their programs: `python -m tests.anywhere.arm.networks FOLDER`.

The programs are those that `optimize` makes for that CPU without measuring: it exports the network, rewrites it and
predicts the kernel of every layer. `saved_programs.py` runs them there, and says what the files hold.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.networks.models import seeded
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.processors import described
from seqtune.kernels.say import silent
from seqtune.networks.module import NetworkModule
from seqtune.networks.nodes import Tuned
from seqtune.networks.selection.choices import Choice
from seqtune.networks.selection.selection import LayerPredictor
from tests.networks.test_networks import Block
from tests.support.networks.default_programs import program_of

from .kernels import THREADS
from .saved_programs import Recorder

IMAGES = ("ResNet-18", "MobileNet-V2")
CORE = "neoverse-n1"


def networks() -> Iterator[tuple[str, nn.Module, list[Tensor]]]:
    """The names, models and inputs: two networks of images, and a small one of texts."""
    for name in IMAGES:
        yield (name, *seeded(name))
    torch.manual_seed(0)
    yield ("transformer", nn.Sequential(nn.Embedding(50, 24), Block(True), Block()).eval(),
           [torch.randint(50, (2, 9))])


def predicted_choices(device: Device) -> Callable[[Sequence[Tuned]], list[Choice]]:
    """The first proposal for every layer."""
    predictor = LayerPredictor(None, None, silent)

    def choose(layers: Sequence[Tuned]) -> list[Choice]:
        distinct = list(dict.fromkeys(layer.problem for layer in layers))
        choices = dict(zip(distinct, predictor.predict(distinct, device), strict=True))
        return [choices[layer.problem] for layer in layers]

    return choose


def save(path: Path, model: nn.Module, inputs: Sequence[Tensor], recorder: Recorder,
         choose: Callable[[Sequence[Tuned]], list[Choice]]) -> None:
    """Compile a model for the recorder's device and write its program, the inputs and PyTorch's results."""
    module = program_of(model, inputs, recorder, choose)
    with torch.no_grad():
        answer = model(*inputs)
    expected = answer if isinstance(answer, tuple) else (answer,)
    assert all(tensor.is_contiguous() for tensor in (*inputs, *expected))
    files = _Files()
    block, flag, *constants = cast("list[NDArray[Any]]", module.program.memory)
    content = {"jobs": _jobs(module, recorder, files, flag, constants), "block": block.size,
               "operands": [files.array(tensor.numpy()) for tensor in inputs],
               "expected": [files.array(tensor.numpy()) for tensor in expected]}
    path.write_text(json.dumps({**content, "texts": list(files.texts)}))
    np.savez(path.with_suffix(".npz"), allow_pickle=False, **files.arrays)


class _Files:
    """The arrays and texts of a program, each of them once."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.texts: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def array(self, array: NDArray[Any]) -> str:
        """The name of an array, which stays in memory."""
        name = self._names.setdefault(id(array), f"array{len(self._names)}")
        self.arrays[name] = array
        return name

    def text(self, text: str) -> int:
        """The number of a text."""
        return self.texts.setdefault(text, len(self.texts))


def _jobs(module: NetworkModule, recorder: Recorder, files: _Files, flag: NDArray[Any],
          constants: Sequence[NDArray[Any]]) -> list[dict[str, Any]]:
    buffers = dict.fromkeys(binding.value.buffer for job in module.jobs for binding in job.bindings)
    arrays = dict(zip([buffer for buffer in buffers if buffer.kind == "constant"], constants, strict=True))
    jobs = []
    for job in module.jobs:
        source, launch, *given = recorder.parts[job.kernel]
        slots: list[tuple[bool, int, int, str, int | str]] = [
            (False, index, 0, "flag", 0) for index, value in enumerate(job.kernel.arguments.tolist())
            if value == flag.ctypes.data]
        for binding in job.bindings:
            buffer, view = binding.value.buffer, binding.value.view
            index = binding.argument if binding.word is None else binding.word
            assert index is not None
            place = files.array(arrays[buffer]) if buffer in arrays else (
                buffer.begin if buffer.kind == "inner" else buffer.number)
            slots.append((binding.word is not None, index, view.element.bytes * view.offset, buffer.kind, place))
        jobs.append({"source": (files.text(source.text), [files.text(option) for option in source.options]),
                     "arguments": launch.arguments, "workspace": launch.workspace,
                     "phases": [(phase.entry, phase.tasks, phase.runs) for phase in launch.phases],
                     "constants": [None if array is None else files.array(array) for array in given], "slots": slots})
    return jobs


def main() -> None:
    """Save the programs of all networks in a folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.anywhere.arm.networks")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    core = described(CORE)
    assert core is not None
    device = replace(core, threads=THREADS, compute_units=THREADS)
    for name, model, inputs in networks():
        save(folder / f"{name}.json", model, inputs, Recorder(device), predicted_choices(device))
        print(f"{name}: {(folder / name).with_suffix('.npz').stat().st_size >> 20} MiB", flush=True)


if __name__ == "__main__":
    main()
