"""Run CUDA kernels lane by lane on the host: `python -m benchmarks.shim --family cuda.tensor_gemm --sample 100`.

Each sample is a random small problem on a random described GPU and a random configuration of the family for it. The
shim (tests/support/cuda/shim.py) compiles the kernel's text with g++, runs every block and lane in a random order and
reports races, accesses out of bounds, misaligned accesses and divergent barriers; the output is compared with the
float64 reference as measuring does. A sample that fails is printed with all that is needed to run it again, and the
exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.common.program import positive, run_program
from seqtune.errors import ProblemError, SeqtuneError

if TYPE_CHECKING:
    import numpy as np

    from seqtune.kernels.kernel import Kernel
    from seqtune.kernels.space import SearchSpace

GPUS = ("a100", "h200", "rtx-4090", "t4", "rtx-5090")  # an architecture each
MOST_TRIES = 1000  # problems drawn before a family counts as one that solves none


def draw(family: Kernel, generator: np.random.Generator) -> SearchSpace:
    """A random space of the family that is not empty. Raises SeqtuneError."""
    from seqtune.kernels.devices.accelerators import described
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.space import SearchSpace

    def pick(*values: Any) -> Any:
        return values[generator.integers(len(values))]

    for _ in range(MOST_TRIES):
        device = described(family.backends[0], pick(*GPUS))
        if device is not None and pick(False, True):  # so few that persistent blocks take several tiles
            device = replace(device, compute_units=pick(2, 3, 5))
        features = product(pick) if family.operation == "gemm" else convolution(pick)
        features |= {"dtype": pick("fp16", "bf16"), "bias": pick("no", "yes"), "activation": pick("none", "relu")}
        with suppress(ProblemError):  # a filter larger than the input
            problem = Problem.make(family.operation, **features)
            if device is not None and family.why_not(problem, device) is None and len(
                    space := SearchSpace(family, problem, device)):
                return space
    raise SeqtuneError(f"{family.name} solves none of {MOST_TRIES} random problems on {', '.join(GPUS)}")


def product(pick: Any) -> dict[str, Any]:
    """The features of a matrix product of any divisibility."""
    return {"m": pick(1, 8, 33, 64, 100, 128, 257), "n": pick(1, 8, 40, 64, 99, 130, 200, 264),
            "k": pick(1, 16, 36, 64, 77, 130, 256, 500, 1024), "trans_a": pick("no", "yes"),
            "trans_b": pick("no", "yes")}


def convolution(pick: Any) -> dict[str, Any]:
    """The features of a convolution with odd sizes, strides, dilations and groups, or of a plain one."""
    groups, r, s = pick(1, 1, 2, 3), pick(1, 1, 3, 5), pick(1, 1, 3, 4)
    plain = pick(False, True)
    return {"n": pick(1, 2, 3), "c": groups * pick(1, 3, 4, 8, 16, 30, 64), "k": groups * pick(8, 18, 32, 40, 72, 130),
            "groups": groups, "r": r, "s": r if plain else s, "h": pick(1, 7, 13, 16), "w": pick(8, 9, 11, 16, 24),
            "pad_h": pick(0, 1, 2), "pad_w": pick(0, 1, 2), "layout": pick("NCHW", "NHWC"),
            **dict.fromkeys(("stride_h", "stride_w", "dilation_h", "dilation_w"), 1),
            **({} if plain else {"stride_h": pick(1, 2, 3), "stride_w": pick(1, 2), "dilation_h": pick(1, 2),
                                 "dilation_w": pick(1, 2)})}


def failure_of(space: SearchSpace, number: int, seed: int) -> str | None:
    """Run one configuration; returns what is wrong with it, or None."""
    from seqtune.tuner.measuring.timing import prepare
    from tests.support.cuda.shim import ShimError, run_on_shim

    operands, expected = prepare(space.problem, seed)
    try:
        error = expected.error(run_on_shim(space.kernel, space.problem, space.device, space[number], seed, operands))
    except ShimError as failure:
        return str(failure)
    return None if error <= expected.tolerance else f"error {error:.2e}, allowed {expected.tolerance:.1e}"


def program(given: argparse.Namespace) -> None:
    """Run the samples. Raises SeqtuneError if the shim cannot run here."""
    import numpy as np

    from seqtune.kernels.registry import kernel
    from tests.support.cuda.shim import why_not_here

    reason = why_not_here()
    if reason is not None:
        raise SeqtuneError(reason)
    family, failures, began = kernel(given.family), 0, time.monotonic()
    schedules: Counter[str] = Counter()
    for number in range(given.sample):
        generator = np.random.default_rng((given.seed, number))
        space = draw(family, generator)
        row = int(generator.integers(len(space)))
        failure = failure_of(space, row, number)
        settings = dict(space[row].settings)
        schedules[f"{settings.get('schedule', 'tiles')}{', slices' if settings.get('split_k', 1) != 1 else ''}"] += 1
        if failure is not None:
            failures += 1
            print(f"sample {number}: {failure}\n  {space.problem.brief()} on {space.device.name}\n"
                  f"  {space[row].brief()}", flush=True)
    seconds = time.monotonic() - began
    print(f"{family.name}: {failures} of {given.sample} samples failed, {seconds / given.sample:.2f} s each "
          f"({', '.join(f'{count} {name}' for name, count in schedules.items())})")
    if failures:
        sys.exit(1)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", required=True, help="the kernel family, such as cuda.tensor_gemm")
    parser.add_argument("--sample", type=positive, default=100, help="number of problems and configurations")
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples")
    given = parser.parse_args()
    run_program("shim", lambda: program(given))


if __name__ == "__main__":
    main()
