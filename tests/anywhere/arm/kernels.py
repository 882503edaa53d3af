"""Verify kernels on this machine: `python -m tests.anywhere.arm.kernels INSTRUCTION_SET COUNT [--plant]`.

COUNT random configurations of every llvm family in every element type that it solves, of odd problems, each on poisoned
buffers and twice, against the definition in float64. The last line is a JSON object: families, verified, wrong. With
--plant, the first vector that each function file stores has two lanes in the wrong order, and the exit status is 0 if
that is found.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator

import numpy as np

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, table
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.backends.llvm.compiler import INSTRUCTION_SETS, Compiler, capabilities
from tests.support.exactness import errors
from tests.support.oddities import odd_problems

EACH = 5  # configurations of a problem
THREADS = 2
LARGEST_ERROR = 1e-5  # of the largest output
_STORE = re.compile(r"^  store <([2-9]|\d\d) x (float|i32)> (%[\w.]+), ptr (\S+), align 4$", re.MULTILINE)


def device_here(instruction_set: str) -> Device:
    """A device of this CPU, with recorded facts: nothing is measured."""
    vectors = INSTRUCTION_SETS[instruction_set]
    return Device(f"llvm:{instruction_set}:{THREADS}", "llvm", "here", instruction_set, threads=THREADS,
                  compute_units=THREADS, vector_bits=vectors.vector_bits, vector_registers=vectors.vector_registers,
                  l1_bytes=64 << 10, l2_bytes=1 << 20, l3_bytes=8 << 20, extra=capabilities(instruction_set))


def configurations(family: Kernel, device: Device, count: int) -> Iterator[tuple[Problem, list[Configuration]]]:
    """Problems with up to EACH of their configurations, the default first, `count` in all."""
    for number, problem in enumerate(odd_problems(family, device, count, seed=sum(family.name.encode()))):
        space = SearchSpace(family, problem, device)
        chosen = dict.fromkeys([space.default, *space.sample(np.random.default_rng(number), EACH - 1)])
        yield problem, list(chosen)[:count]
        count -= len(chosen)
        if count <= 0:
            return


def plant() -> None:
    """Let the compiler swap the first two lanes of a vector that is stored, in every text from here on."""
    def swapped(match: re.Match[str]) -> str:
        lanes, kind, value, pointer = match.groups()
        mask = ", ".join(f"i32 {lane}" for lane in (1, 0, *range(2, int(lanes))))
        vector = f"<{lanes} x {kind}>"
        return (f"  {value}_planted = shufflevector {vector} {value}, {vector} poison, <{lanes} x i32> <{mask}>\n"
                f"  store {vector} {value}_planted, ptr {pointer}, align 4")

    build = Compiler._emit

    def planted(compiler: Compiler, text: str) -> tuple[bytes, frozenset[str]]:
        return build(compiler, _STORE.sub(swapped, text, count=1))

    Compiler._emit = planted  # type: ignore[method-assign, assignment]


def main() -> int:
    """Verify, print a line for each family, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.anywhere.arm.kernels")
    parser.add_argument("instruction_set", choices=sorted(INSTRUCTION_SETS))
    parser.add_argument("count", type=int, help="configurations of each family and element type")
    parser.add_argument("--plant", action="store_true", help="plant a wrong order of lanes, which must be found")
    given = parser.parse_args()
    device = device_here(given.instruction_set)
    backend = LLVMBackend(device)
    if given.plant:
        plant()
    families = [family for name in table("llvm") if (family := kernel(name)).is_for(device)]
    verified = wrong = 0
    for family in families:
        found: list[float] = []
        for problem, chosen in configurations(family, device, given.count):
            for configuration in chosen:
                try:
                    found += errors(backend, family, problem, [configuration])
                except AssertionError as fault:
                    found.append(float("inf"))
                    print(f"{family.name}: {fault}", flush=True)
                if not found[-1] < LARGEST_ERROR and not given.plant:
                    print(f"{family.name}: {problem.brief()} {configuration.brief()}: {found[-1]:.1e}", flush=True)
        bad = sum(not error < LARGEST_ERROR for error in found)
        verified, wrong = verified + len(found) - bad, wrong + bad
        print(f"{device.name} {family.name}: {len(found) - bad} right, {bad} wrong, largest error "
              f"{max(found, default=0.0):.1e}", flush=True)
    backend.close()
    print(json.dumps({"families": len(families), "verified": verified, "wrong": wrong}))
    return int(wrong == 0) if given.plant else int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
