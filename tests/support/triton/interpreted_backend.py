"""Our Triton kernels in Triton's interpreter through the backend's executable, on CPU tensors; prints JSON."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np

from seqtune.kernels.accelerators import described
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.triton.gemm import IMPLEMENTATION
from seqtune.tuner.backends.triton.executable import TritonExecutable
from seqtune.tuner.measuring.timing import check, prepare

CASES: tuple[tuple[dict[str, Any], dict[str, int]], ...] = (
    # problem, settings that differ from the default; the interpreter multiplies bf16 as integers, so there is none
    ({"m": 40, "n": 30, "k": 50}, {}),
    ({"m": 17, "n": 33, "k": 64, "dtype": "fp16", "trans_a": "yes", "trans_b": "yes", "bias": "yes"}, {"GROUP_M": 4}),
    ({"m": 40, "n": 20, "k": 128, "dtype": "fp16", "activation": "relu"}, {"SPLIT_K": 2}),
    ({"m": 1, "n": 48, "k": 70, "bias": "yes", "activation": "relu"}, {"SPLIT_K": 4, "BLOCK_M": 16}),
)


def main() -> None:
    """Check each case as the measuring worker does."""
    family, device = kernel("triton.gemm"), described("triton", "a100")
    assert device is not None
    answers = []
    for features, settings in CASES:
        problem = Problem.make("gemm", **features)
        small = {"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_K": 16}
        configuration = Configuration.of(family.name, {**dict(family.default), **small, **settings})
        executable = TritonExecutable(problem, device, configuration, IMPLEMENTATION, "cpu")
        measurement, _ = check(executable, *prepare(problem))
        executable.poison()
        poisoned = bool(np.isnan(executable.output()).all())
        executable.whole["x"][0] = 1.0
        answers.append({"status": measurement.status, "error": measurement.error, "poisoned": poisoned,
                        "overrun": executable.overrun(), "seconds": executable.time(1)})
        executable.close()
    print(json.dumps(answers))


main()
