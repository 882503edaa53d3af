"""Runs the kernel of this folder: `python run.py` compares its results with a reference and times it.

`Kernel` runs it from other programs:

    from run import Kernel
    kernel = Kernel()
    outputs = kernel(x, weights)  # NumPy arrays in the order of launch.json, or by name; outputs by name

launch.json says what the kernel takes, and kernel.py computes the reference. Exit status: 0 right, 1 wrong, 2 not
possible on this machine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import arrays
import device
import kernel as texts
import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parent


class Kernel:
    """The kernel on a device, with its memory there. Not to be called by two threads at once."""

    def __init__(self) -> None:
        """Open the device and build the kernel. Exits with status 2 where that is not possible."""
        about = json.loads((FOLDER / "launch.json").read_text())
        self.about: dict[str, Any] = about["kernels"][0]
        self.buffers: dict[str, dict[str, Any]] = self.about["buffers"]
        self.device = device.Device(FOLDER, self.about)

    def load(self, **given: NDArray[Any]) -> None:
        """Copy the inputs, and contents of outputs, to the device; other outputs and workspaces are filled with 0xFF.
        """
        for name, buffer in {**self.buffers, **self.about["workspaces"]}.items():
            self.device.write(name, self.stored(name, given[name]) if name in given else
                              np.full(buffer["bytes"], 0xFF, np.uint8))

    def stored(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """An array as the kernel takes it: of its type, packed. A caller may keep it for later runs."""
        if isinstance(array, np.ma.MaskedArray):
            raise ValueError(f"{name} is a masked array, whose masked elements would be read; give its filled(...)")
        buffer, array = self.buffers[name], np.asarray(array)
        dtype = np.dtype(arrays.TYPES[buffer["type"]])
        if list(array.shape) != buffer["shape"] or array.dtype != dtype:
            raise ValueError(f"{name} is {array.dtype} {array.shape}; {dtype} {tuple(buffer['shape'])} is needed")
        return np.ascontiguousarray(arrays.packed(array, buffer["packing"]) if "packing" in buffer else array)

    def outputs(self) -> dict[str, NDArray[Any]]:
        """The outputs of the last run by name."""
        return {name: self.device.read(name, np.empty(buffer["shape"], arrays.TYPES[buffer["type"]]))
                for name, buffer in self.buffers.items() if buffer["role"] == "output"}

    def __call__(self, *inputs: NDArray[Any], **named: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The outputs for these inputs, by name. An output that the kernel changes may be given by name, too."""
        names = [name for name, buffer in self.buffers.items() if buffer["role"] == "input"]
        ordered, known = dict(zip(names, inputs, strict=False)), set(self.buffers)
        if len(inputs) > len(names) or ordered.keys() & named or not set(names) <= {*ordered, *named} <= known:
            raise ValueError(f"the kernel takes {', '.join(names)}; {len(inputs)} by order and {list(named)} are given")
        given = {**ordered, **named}
        for name, content in self.about["check"]["contents"].items():
            if name not in given and content.get("low") != content.get("high"):
                raise ValueError(f"the kernel changes {name}, which begins as random numbers; give it by name")
        self.load(**arrays.make_arrays(self.about, FOLDER, given))  # outputs that it changes begin as launch.json says
        self.device.run()
        return self.outputs()


def main() -> int:
    """Check and time the kernel; prints one line."""
    kernel = Kernel()
    given = arrays.make_arrays(kernel.about, FOLDER)
    worst = arrays.verdict(kernel.about, kernel(**given), texts.references(given), FOLDER)
    restored = {name: kernel.stored(name, given[name]) for name in kernel.about["restored_before_each_launch"]}

    def run() -> float:
        for name, array in restored.items():
            kernel.device.write(name, array)
        return float(kernel.device.run())

    return int(arrays.report(kernel.about, kernel.device.name, worst, run, device.RUNS))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except device.ERRORS as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
        sys.exit(2)
