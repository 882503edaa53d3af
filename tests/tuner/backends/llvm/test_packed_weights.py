"""Packed weights of the llvm backend: kept per array, kernel and kind of packing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call import BufferArgument
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.llvm import direct as llvm_direct
from seqtune.kernels.llvm.launch import LLVMImplementation, WeightsPacking
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.measuring.reference import make_operands
from tests.support.exactness import answer
from tests.support.llvm import DEVICES, needs_llvm

pytestmark = needs_llvm


def packed_by(backend: LLVMBackend, implementation: LLVMImplementation, problem: Problem, configuration: Configuration,
              weights: Array) -> Array:
    """The weights as the kernel reads them, from those that the backend keeps."""
    packing = WeightsPacking.of(implementation, problem, backend.device, configuration)
    return backend.operands.get(weights, BufferArgument("weights", "fp32", packing))


def conv(**features: int | str) -> Problem:
    return Problem.make("conv2d", **features)


def test_read_only_weights_are_packed_once_per_layout_and_changed_ones_anew() -> None:
    opened = LLVMBackend(DEVICES[0])
    problem = conv(c=4, h=3, w=3, k=8, r=1, s=1)
    chosen = SearchSpace(kernel("llvm.direct"), problem, DEVICES[0]).default
    operands = make_operands(problem)
    before = answer(opened, kernel("llvm.direct"), problem, chosen, operands)
    operands["weights"][:] *= 2
    assert np.allclose(answer(opened, kernel("llvm.direct"), problem, chosen, operands), 2 * before, rtol=1e-4)
    operands["weights"].setflags(write=False)
    packed = [packed_by(opened, llvm_direct.IMPLEMENTATION, problem, chosen, operands["weights"]) for _ in range(2)]
    assert packed[0] is packed[1]
    other = make_operands(problem, seed=8)
    other["weights"].setflags(write=False)
    assert packed_by(opened, llvm_direct.IMPLEMENTATION, problem, chosen, other["weights"]) is not packed[0]
    opened.close()


def test_packed_weights_are_kept_by_kernel_and_by_all_that_packing_reads() -> None:
    """Groups 1 and 2 of the same weights give panels of 864 and 1152 floats."""
    opened = LLVMBackend(DEVICES[0])
    ungrouped, grouped = (conv(c=4 * groups, h=6, w=6, k=20, r=3, s=3, groups=groups) for groups in (1, 2))
    settings: dict[str, int | str] = {"vector": 4, "vectors_k": 2, "tile_w": 4, "tile_h": 1, "body": "c2",
                                      "borders": "copy", "chunk": 0}
    chosen = Configuration.of("llvm.direct", settings)
    weights = make_operands(ungrouped)["weights"]
    weights.setflags(write=False)
    sizes = [packed_by(opened, llvm_direct.IMPLEMENTATION, problem, chosen, weights).size
             for problem in (ungrouped, grouped)]
    assert sizes == [864, 1152]

    class Other:
        """Packs differently from llvm.direct, under the same key."""

        def packing(self, problem: Problem, configuration: Configuration) -> object:
            return llvm_direct.IMPLEMENTATION.packing(problem, configuration)

        def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
            return -weights

    other: LLVMImplementation = Other()  # type: ignore[assignment]
    renamed = replace(chosen, kernel="llvm.other")
    assert packed_by(opened, other, ungrouped, renamed, weights).shape == weights.shape
    opened.close()
