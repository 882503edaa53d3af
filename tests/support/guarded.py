"""Every llvm kernel right beside gaps: `python -m tests.support.guarded`. A mistake ends this process.

Each buffer ends (or begins) where memory begins (or ends) that may be neither read nor written, without the margins
that buffers have in a measurement: those hide a vector that is read too far and of which nothing is used. Networks run
the same kernels on arrays without margins, and fused with what follows, which no measurement does. The line printed
last names what was run then. There are more threads than tasks, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import decode, element_type, encode, rounded
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.llvm.fusion import FusingImplementation, Fusion
from seqtune.kernels.llvm.launch import Launch, llvm_implementation
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.operations.operation import MOST_OPERANDS
from seqtune.kernels.operations.table import operation
from seqtune.kernels.registry import kernel, table
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.host_memory import ReservedMemory
from seqtune.tuner.backends.llvm.backend import operand_types
from seqtune.tuner.backends.llvm.compiler import INSTRUCTION_SETS, Compiler, capabilities, instruction_sets
from seqtune.tuner.backends.llvm.threads import Threads, make_job, phases_of
from seqtune.tuner.measuring.reference import make_operands, reference
from tests.support.oddities import odd_problems

THREADS = 3
PROBLEMS = 2  # of each family and instruction set
PRODUCT = Formula.of("mul", 0, 1)


def guarded(shape: tuple[int, ...], at_end: bool, dtype: str = "fp32") -> NDArray[Any]:
    """NaNs between two gaps without access, and right before the second or right behind the first."""
    element = element_type(dtype)
    content = guarded_bytes(element.size * int(np.prod(shape)), at_end)
    content.fill(element.poison)
    return content.view(element.stored).reshape(shape)


def guarded_bytes(size: int, at_end: bool) -> NDArray[np.uint8]:
    """Zeros between two gaps without access, and right before the second or right behind the first."""
    memory = ReservedMemory(size)
    if not at_end:
        memory.resize(memory.capacity)
    return memory.bytes[:size]


class Place:
    """One instruction set: a compiler and threads."""

    def __init__(self, instruction_set: str) -> None:
        vectors = INSTRUCTION_SETS[instruction_set]
        self.device = Device(
            f"llvm:{instruction_set}:{THREADS}", "llvm", "here", instruction_set, threads=THREADS,
            compute_units=THREADS, vector_bits=vectors.vector_bits, vector_registers=vectors.vector_registers,
            l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=8 << 20, extra=capabilities(instruction_set))
        self.compiler = Compiler(instruction_set)
        self.threads = Threads(self.compiler, THREADS)

    def run(self, what: str, source: KernelSource, launch: Launch, inputs: Sequence[tuple[Array, str]],
            expected: NDArray[Any], result: str, allowed: float) -> None:
        """Compute y from inputs, with the buffers at either end of their pages; NaNs in `expected` stay in y.

        An input is an array and its element type; `result` is that of y. The addresses of all inputs but the first
        MOST_OPERANDS are the last arguments of the launch. Beside its rounding, a result may differ by `allowed` times
        the largest number expected.
        """
        built, _ = self.compiler.build(source.text, source.options)
        element = element_type(result)
        for at_end in (True, False):
            print(self.device.name, what, "before" if at_end else "behind", "a guard page", flush=True)
            given = []
            for array, dtype in inputs:
                given.append(guarded(array.shape, at_end, dtype))
                np.copyto(given[-1], encode(array, dtype))
            given[len(given):MOST_OPERANDS] = [guarded((0,), at_end)] * (MOST_OPERANDS - len(given))
            y, workspace = guarded(expected.shape, at_end, result), guarded((launch.workspace,), at_end)
            addresses = [int(array.ctypes.data) for array in given]
            further = addresses[MOST_OPERANDS:]
            arguments = np.array([*launch.arguments[:len(launch.arguments) - len(further)], *further], np.int64)
            job = make_job((*addresses[:MOST_OPERANDS], int(y.ctypes.data), int(workspace.ctypes.data)), arguments,
                           phases_of(launch, built.address))
            self.threads.run(int(job.ctypes.data))
            limit = allowed * max(np.nanmax(np.abs(expected)), 1e-6)
            if not np.allclose(decode(y, result), expected, rtol=element.rounding, atol=limit, equal_nan=True):
                sys.exit("the result is wrong")


def run_family(place: Place, name: str) -> None:
    """The default and some random configurations of odd problems, plain and fused."""
    family, device = kernel(name), place.device
    if not family.is_for(device):
        return
    implementation = llvm_implementation(family)
    constant = operation(family.operation).constant
    allowed = element_type("bf16").rounding if name == "llvm.attention_bf16" else 1e-5  # its weights are rounded, too
    for number, problem in enumerate(odd_problems(family, device, PROBLEMS, seed=2)):
        space, types = SearchSpace(family, problem, device), operand_types(problem)
        operands, result = make_operands(problem), problem.element.result.name
        expected = reference(problem, operands)
        channels_last = dict(problem).get("layout") != "NCHW"
        for configuration in [space.default, *space.sample(np.random.default_rng(number), 2)]:
            packed = {} if constant is None else {
                constant: implementation.pack(problem, device, configuration, operands[constant])}
            inputs = [(array, types[operand]) for operand, array in {**operands, **packed}.items()]
            what = f"{problem.brief()}: {name} {configuration.brief()}"
            place.run(what, implementation.source(problem, device, configuration),
                      implementation.launch(problem, device, configuration), inputs, expected, result, allowed)
            if channels_last and problem.element.is_float and isinstance(implementation, FusingImplementation):
                other = rounded(np.random.default_rng(1).standard_normal(expected.shape, dtype=np.float32),
                                problem.dtype)
                epilogue = Formula.of_activation(str(problem["activation"])).then(PRODUCT)
                (x, dtype), *rest = inputs
                fusion = Fusion(epilogue, x.shape[-1] + 3, expected.shape[-1] + 5, expected.shape[-1] + 1, chained=True)
                unused = [(np.empty(0, np.float32), "fp32")] * (MOST_OPERANDS - len(inputs))
                place.run(f"{what} fused", implementation.source(problem, device, configuration, fusion),
                          implementation.launch(problem, device, configuration, fusion),
                          [(apart(x, fusion.x_pitch), dtype), *rest, *unused,
                           (apart(other, fusion.other_pitch), dtype)],
                          apart(PRODUCT.numpy(expected, other), fusion.y_pitch), result, allowed)


def apart(array: NDArray[Any], pitch: int | None) -> Array:
    """The array's rows, `pitch` floats from each other, with NaNs between them, in one dimension."""
    rows = array.reshape(-1, array.shape[-1])
    spread = np.full((len(rows), pitch or rows.shape[1]), np.nan, np.float32)
    spread[:, :rows.shape[1]] = rows
    return spread.ravel()[:spread.size - (spread.shape[1] - rows.shape[1])]


def main() -> None:
    """All families on all instruction sets that are here."""
    for instruction_set in instruction_sets():
        place = Place(instruction_set)
        for name in table("llvm"):
            run_family(place, name)
        place.threads.close()
    print("done")


if __name__ == "__main__":
    main()
