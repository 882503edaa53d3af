"""Compile what is proposed for Triton on GPUs that are not here: `python -m benchmarks.triton_compile [--sample 200]`.

Problems of the sampler of matrix products, in fp16, bf16 and fp32, and on each GPU the configuration that is proposed
first. A configuration fails if Triton refuses it, if its shared memory is not that of the family's formula, or if its
block does not fit on the GPU. Problems that Triton specialises alike share a compilation. Exit code 1 on a failure.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.common.program import positive
from seqtune.cli.application import answer
from seqtune.errors import MisuseError, SeqtuneError, one_line
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call import ScalarArgument
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.task import Task
from seqtune.kernels.triton.gemm import IMPLEMENTATION
from seqtune.predictor.model import answers_for
from seqtune.proposals import propose
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.backends.triton.compiler import ALIGNED, TritonCompiler
from seqtune.tuner.compile_check import contradictions_of

GPUS = ("h200", "mi300x", "a100")
DTYPES = ("fp16", "bf16", "fp32")


def problems(count: int, seed: int) -> Iterator[Problem]:
    """Draw different products, with the element types in turn."""
    generator, seen = np.random.default_rng(seed), set[str]()
    while len(seen) < count:
        features = {**operation("gemm").draw(generator), "dtype": DTYPES[len(seen) % len(DTYPES)]}
        problem = Problem.make("gemm", **features)
        if problem.key not in seen:
            seen.add(problem.key)
            yield problem


def compilation(problem: Problem, device: Device, configuration: Configuration) -> tuple[object, ...]:
    """Everything that determines what Triton compiles."""
    call = IMPLEMENTATION.call(problem, device, configuration)
    sizes = [int(argument.number) for argument in call.steps[0].arguments if isinstance(argument, ScalarArgument)]
    known = tuple("one" if size == 1 else size % ALIGNED == 0 for size in sizes)
    return call.source, known, problem["dtype"]


def check(device: Device, count: int, seed: int) -> dict[str, Any]:
    """Propose for every problem, compile, and compare with the declaration."""
    begin, family, compiler = time.monotonic(), kernel("triton.gemm"), TritonCompiler(device)
    seen: set[tuple[object, ...]] = set()
    failures: list[str] = []
    for problem in problems(count, seed):
        (configuration,) = propose(Task.of(problem, device, [family]), answers_for(device.backend), 1)
        identity = compilation(problem, device, configuration)
        if identity in seen:
            continue
        seen.add(identity)
        try:
            found = contradictions_of(family, problem, configuration, device,
                                      compiler.steps(problem, family, configuration))
        except (BuildError, SeqtuneError) as error:
            found = [one_line(error)]
        failures += [f"{problem.brief()} | {configuration.brief()}: {failure}" for failure in found]
        print(f"{device.name}: {len(seen)} compiled, {len(failures)} failed", file=sys.stderr)
    return {"device": device.name, "problems": count, "compilations": len(seen), "failures": failures,
            "seconds": round(time.monotonic() - begin, 1)}


def main() -> int:
    """Check each GPU and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=positive, default=200, help="number of problems")
    parser.add_argument("--seed", type=int, default=0, help="seed of the problems")
    parser.add_argument("--gpu", action="append", choices=GPUS, help="only these GPUs")
    arguments = parser.parse_args()
    results = []
    for name in arguments.gpu or GPUS:
        device = described("triton", name)
        if device is None:
            raise MisuseError(f"no GPU {name} is described")
        results.append(check(device, arguments.sample, arguments.seed))
    answer({"passed": not any(result["failures"] for result in results), "devices": results})
    return int(any(result["failures"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
