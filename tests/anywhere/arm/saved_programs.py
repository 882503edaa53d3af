"""Run saved programs of networks on this machine: `python -m tests.anywhere.arm.saved_programs FOLDER`.

`networks.py` compiles networks where PyTorch is, for a CPU that is not there, and saves their programs. FOLDER has
NAME.json, the jobs and where their words point, and NAME.npz, all arrays, of each. Here the texts of the kernels are
compiled, the words are written, and the results of a run are compared with PyTorch's. The last line is a JSON object:
the largest error of each network, relative to its largest result. The exit status is 1 if one is too large.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.networks.program.assembly import Program, Slot
from seqtune.networks.program.bound_kernels import BoundKernel, KernelBinder
from seqtune.tuner.backends.llvm.compiler import Compiler
from seqtune.tuner.backends.llvm.threads import Threads, make_job
from tests.anywhere.arm.kernels import device_here

LARGEST_ERROR = 1e-3  # of the largest result: `optimize` refuses a network that differs more


class NoThreads:
    """A pool that runs nothing."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, job: int) -> None:
        """Raise AssertionError: the kernels of an absent device were not compiled."""
        raise AssertionError("an absent device runs nothing")

    def run_all(self, jobs: NDArray[np.int64]) -> None:
        """Raise AssertionError: the kernels of an absent device were not compiled."""
        raise AssertionError("an absent device runs nothing")


class Recorder(KernelBinder):
    """Binds kernels of a device that is not here: it compiles nothing, and keeps what each kernel is made of."""

    def __init__(self, device: Device) -> None:
        super().__init__(device, cast("Compiler", None), NoThreads(device.threads))
        self.parts: dict[BoundKernel, tuple[KernelSource, Launch, Array | None, Array | None]] = {}

    def bind_source(self, source: KernelSource, launch: Launch, weights: Array | None = None,
                    bias: Array | None = None) -> BoundKernel:
        """A kernel that does not run."""
        arguments = np.array(launch.arguments, np.int64)
        kernel = BoundKernel(self.threads, make_job((0,) * 5, arguments, []), arguments, [])
        self.parts[kernel] = source, launch, weights, bias
        return kernel


def error_of(path: Path, binder: KernelBinder) -> float:
    """Run the program of a JSON file; the largest error, relative to the largest result. Memory holds NaNs before."""
    saved: dict[str, Any] = json.loads(path.read_text())
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as file:
        arrays = dict(file)
    operands, expected = ([arrays[name] for name in saved[kind]] for kind in ("operands", "expected"))
    results = [np.full_like(array, np.nan) for array in expected]
    flag, block = np.zeros(1, np.int64), binder.blocks.take(saved["block"])
    block.fill(np.nan)
    kernels: list[BoundKernel] = []
    outer: dict[str, list[list[Slot]]] = {"operand": [[] for _ in operands], "result": [[] for _ in results]}
    for job in saved["jobs"]:
        text, options = job["source"]
        kernel = binder.bind_source(
            KernelSource(saved["texts"][text], tuple(saved["texts"][option] for option in options)),
            Launch(tuple(job["arguments"]), tuple(Phase(*phase) for phase in job["phases"]), job["workspace"]),
            *(None if name is None else arrays[name] for name in job["constants"]))
        kernels.append(kernel)
        for in_job, index, offset, kind, place in job["slots"]:
            slot = Slot(kernel.job if in_job else kernel.arguments, index, offset)
            if kind in outer:
                outer[kind][place].append(slot)
            else:
                begin = {"inner": block.ctypes.data, "flag": flag.ctypes.data}
                slot.write(begin[kind] + place if kind in begin else arrays[place].ctypes.data)
    program = Program(binder.threads, kernels, outer["operand"], outer["result"], [block, flag, arrays])
    program.run([array.ctypes.data for array in operands], [array.ctypes.data for array in results])
    assert not flag[0], f"{path.stem}: an index outside a table"
    return max(float(np.abs(result - array).max() / np.abs(array).max())
               for result, array in zip(results, expected, strict=True))


def main() -> int:
    """Run the programs in a folder, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.anywhere.arm.saved_programs")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--instruction-set", default="neon", help="for which the programs were compiled")
    given = parser.parse_args()
    device = device_here(given.instruction_set)
    compiler = Compiler(device.instruction_set)
    threads = Threads(compiler, device.threads)
    found = {path.stem: error_of(path, KernelBinder(device, compiler, threads))
             for path in sorted(given.folder.glob("*.json"))}
    threads.close()
    print(json.dumps(found))
    return int(not found or not all(error < LARGEST_ERROR for error in found.values()))


if __name__ == "__main__":
    sys.exit(main())
