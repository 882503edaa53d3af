"""Time a kernel that does nothing: `python -m benchmarks.empty_kernel --device cuda:0`.

The time between two events around it is part of every time of the GPU.
"""

from __future__ import annotations

import json
import statistics
import struct
import subprocess
import sys
from contextlib import closing
from typing import Any

from benchmarks.common.program import OneLineParser, run_program
from seqtune.errors import one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.launches.implementation import KernelSource

TEXT = 'extern "C" __global__ void empty(int unused) {}\n'
LAUNCHES = 10  # in one graph, as in the backend's timing
GRAPHS = 50  # the first ones run while the clock still rises; the median leaves them out
SECONDS = 20.0  # for a process that opens the GPU


def measure(device: Device) -> dict[str, float]:
    """The least and the median time of one launch in microseconds. Raises LaunchError, BuildError, UnavailableError."""
    from seqtune.tuner.backends.cuda.compiler import CubinCompiler
    from seqtune.tuner.backends.cuda.discovery import number_of
    from seqtune.tuner.backends.cuda.driver import Gpu

    image = CubinCompiler(device).compile(KernelSource(TEXT))
    with closing(Gpu(number_of(device.name))) as gpu:
        launch = gpu.launcher(gpu.module(image.cubin), "empty", (1,), (32,), 0, struct.pack("<i", 0))
        launch()  # outside the graph first: an error shows, and the driver loads the code
        gpu.synchronize()
        graph = gpu.timed_graph(lambda: None, launch, LAUNCHES)
        times = [1e6 * gpu.run_graph(graph) / LAUNCHES for _ in range(GRAPHS)]
        gpu.free_graph(graph)
        del launch  # frees the image while the GPU is open
    return {"least_us": round(min(times), 3), "median_us": round(statistics.median(times), 3)}


def times_of(device: Device) -> dict[str, Any]:
    """Run this program, which ends with its time; returns what it prints, or why that is nothing, a fact, too."""
    if device.backend != "cuda":
        return {"left_out": f"{device.backend} has no events of a GPU"}
    command = [sys.executable, "-m", "benchmarks.empty_kernel", "--device", device.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        return dict(json.loads(done.stdout)) if done.returncode == 0 else {"left_out": one_line(done.stderr[-300:])}
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"left_out": one_line(error)}


def main() -> None:
    """Run the command line."""
    from seqtune.tuner.backends.discovery import check_present, find

    parser = OneLineParser(__doc__)
    parser.add_argument("--device", required=True)
    device = find(parser.parse_args().device)
    check_present(device)
    print(json.dumps(measure(device)))


if __name__ == "__main__":
    run_program("empty_kernel", main)
