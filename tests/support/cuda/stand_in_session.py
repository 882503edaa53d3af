"""A program: the cuda backend with pycuda itself and the stand-in driver. It prints one JSON object.

Run it in a process of its own, whose LD_LIBRARY_PATH leads to the stand-in's libcuda.so.1.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from contextlib import suppress

sys.setdlopenflags(os.RTLD_LAZY)  # the stand-in has the functions that are called, and no more
driver_library = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)

import numpy as np  # noqa: E402 - after the library

from seqtune.kernels.problem import Problem  # noqa: E402
from seqtune.kernels.registry import kernel, table  # noqa: E402
from seqtune.kernels.space import SearchSpace  # noqa: E402
from seqtune.tuner.backends.backend import LaunchError  # noqa: E402
from seqtune.tuner.backends.cuda.backend import CudaBackend  # noqa: E402
from seqtune.tuner.backends.cuda.discovery import devices, unavailable  # noqa: E402
from seqtune.tuner.measuring.timing import Options, check_and_time, prepare  # noqa: E402

COUNTS = ("memory", "streams", "contexts", "modules", "graphs", "events", "launches", "refused", "fills")


def counts() -> dict[str, int]:
    """The numbers of live things in the stand-in, and of its launches, fills and refusals."""
    numbers = (ctypes.c_int * len(COUNTS))()
    driver_library.stand_in_counts(numbers)
    return dict(zip(COUNTS, numbers, strict=True))


def main() -> None:
    """Open the GPU, build and time a configuration of each family that solves the problems, and close all."""
    assert unavailable() is None, unavailable()
    device = devices()[0]
    backend = CudaBackend(device)
    built: dict[str, str] = {}
    times: dict[str, float] = {}
    for name in table("cuda"):
        for problem in (Problem.make("gemm", m=256, n=256, k=256),
                        Problem.make("gemm", m=256, n=256, k=256, dtype="bf16"),
                        Problem.make("conv2d", n=1, c=64, h=14, w=14, k=64, r=3, s=3, pad_h=1, pad_w=1),
                        Problem.make("conv2d", n=1, c=64, h=14, w=14, k=64, r=3, s=3, pad_h=1, pad_w=1, dtype="fp16",
                                     layout="NHWC")):
            family = kernel(name)
            if name in built or family.why_not(problem, device) is not None:
                continue
            executable = backend.build(problem, family, SearchSpace(family, problem, device).default)
            operands, expected = prepare(problem)
            built[name] = check_and_time(executable, operands, expected, Options(samples=2)).message
            times[name] = executable.time(10)
            executable.close()
    during = counts()
    wrong = []
    for attempt in (lambda: backend.gpu.read(np.empty(8, np.uint8), 4096), lambda: backend.gpu.write(12, np.zeros(3)),
                    lambda: backend.gpu.module(b"not an image")):
        with suppress(LaunchError):
            attempt()
            wrong.append("accepted")
    refused = counts()["refused"] - during["refused"]
    backend.close()
    print(json.dumps({"device": device.to_json(), "built": built, "times": times, "during": during, "wrong": wrong,
                      "refused": refused, "after": counts()}))


if __name__ == "__main__":
    main()
