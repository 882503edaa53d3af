"""Our Triton kernels in Triton's interpreter through the backend's executable, on CPU tensors; prints JSON."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.triton.gemm import IMPLEMENTATION
from seqtune.tuner.backends.called_executable import CalledExecutable
from seqtune.tuner.backends.triton.calls import TritonCalls
from seqtune.tuner.measuring.timing import check, prepare
from tests.support.devices import described_gpu

CASES: tuple[tuple[dict[str, Any], dict[str, int]], ...] = (
    # problem, settings that differ from the default; the interpreter multiplies bf16 as integers, so there is none
    ({"m": 40, "n": 30, "k": 50}, {}),
    ({"m": 17, "n": 33, "k": 64, "dtype": "fp16", "trans_a": "yes", "trans_b": "yes", "bias": "yes"}, {"GROUP_M": 4}),
    ({"m": 40, "n": 20, "k": 128, "dtype": "fp16", "activation": "relu"}, {"SPLIT_K": 2}),
    ({"m": 1, "n": 48, "k": 70, "bias": "yes", "activation": "relu"}, {"SPLIT_K": 4, "BLOCK_M": 16}),
)


def experts_error(tokens: int = 9, count: int = 4, top_k: int = 2, columns: int = 40, depth: int = 24) -> float:
    """The largest difference of a grouped product to NumPy's, for tokens that choose experts at random."""
    import torch

    from tests.support.triton.experts import experts

    generator, block = np.random.default_rng(0), 16
    x, weights = (generator.standard_normal(shape).astype(np.float16)
                  for shape in ((tokens, depth), (count, columns, depth)))
    chosen = np.argsort(generator.random((tokens, count)), axis=1)[:, :top_k].reshape(-1)
    shares = generator.random(chosen.size).astype(np.float32)
    rows, owners = [], []
    for expert in range(count):
        pairs = np.flatnonzero(chosen == expert)
        blocks = -(-len(pairs) // block)
        rows += [*pairs.tolist(), *[chosen.size] * (blocks * block - len(pairs))]
        owners += [expert] * blocks
    y = torch.full((chosen.size, columns), float("nan"), dtype=torch.float16)
    operands = [torch.from_numpy(array) for array in (
        shares, np.array(rows, np.int32), np.array(owners, np.int32))]
    grid = (len(owners) * -(-columns // 32),)
    experts[grid](torch.from_numpy(x), torch.from_numpy(weights), y, *operands, len(owners), chosen.size, columns,
                  depth, top_k, BLOCK_SIZE_M=block, BLOCK_SIZE_N=32, BLOCK_SIZE_K=16, GROUP_SIZE_M=4, SHARED=True)
    expected = np.einsum("pd,pcd->pc", x[np.arange(chosen.size) // top_k].astype(np.float64), weights[chosen])
    return float(np.abs(y.numpy() - shares[:, None] * expected).max())


def main() -> None:
    """Check each case as the measuring worker does, and the product of experts."""
    family, device = kernel("triton.gemm"), described_gpu("triton", "a100")
    answers = []
    for features, settings in CASES:
        problem = Problem.make("gemm", **features)
        small = {"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_K": 16}
        configuration = Configuration.of(family.name, {**dict(family.default), **small, **settings})
        call = IMPLEMENTATION.call(problem, device, configuration)
        executable = CalledExecutable(TritonCalls("cpu"), call, operation(problem.type).tensors(problem))
        measurement, _ = check(executable, *prepare(problem))
        executable.poison()
        poisoned = bool(np.isnan(executable.outputs()["y"]).all())
        executable.buffers.addresses["x"].untyped_storage()[0] = 1  # the first byte of the margin
        answers.append({"status": measurement.status, "error": measurement.error, "poisoned": poisoned,
                        "overrun": executable.overrun(), "seconds": executable.time(1)})
        executable.close()
    print(json.dumps({"gemm": answers, "experts": experts_error()}))


main()
