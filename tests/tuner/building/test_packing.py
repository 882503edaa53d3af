"""Packings as loops in C and in NumPy that order operands as kernels read them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from seqtune.errors import KernelError
from seqtune.kernels.devices.element_types import decode, encode
from seqtune.kernels.launches.call import BufferArgument
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.linting.kernel import typical_device
from seqtune.kernels.llvm.launch import ComputedPacking, WeightsPacking, llvm_implementation
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import spaces_for
from seqtune.tuner.backends.llvm.backend import operand_types
from seqtune.tuner.backends.stored_operands import stored
from seqtune.tuner.building.packing import Pack, PackingLoops, packing_loops
from seqtune.tuner.building.templates import arrays
from tests.support.compiled_c import POINTER, compiled
from tests.support.learning.c_programs import needs_compiler

PROBLEMS = (
    "conv2d c=6 h=9 w=7 k=50 r=3 s=3 pad=1", "conv2d c=12 h=9 w=7 k=30 r=3 s=1 groups=3 layout=NHWC",
    "conv2d c=34 h=5 w=5 k=34 r=3 s=3 groups=34 layout=NHWC", "conv2d c=24 h=6 w=6 k=24 r=3 s=3 groups=3 layout=NHWC",
    "conv2d c=12 h=8 w=8 k=20 r=3 s=3 groups=2 layout=NHWC dtype=bf16", "gemm m=9 n=53 k=31",
    "gemm m=21 n=1 k=19 trans_b=yes", "gemm m=26 n=20 k=1 trans_b=yes dtype=fp16",
    "gemm m=9 n=53 k=32 trans_b=yes", "gemm m=9 n=50 k=32 dtype=bf16", "gemm m=9 n=50 k=32 trans_b=yes dtype=fp16",
    "gemm m=9 n=40 k=1 trans_b=yes", "gemm m=8 n=1 k=50 trans_b=yes dtype=bf16")  # padding along an axis of one number
COMPUTED = ("conv2d c=6 h=9 w=7 k=50 r=3 s=3 pad=1", "gemm m=9 n=50 k=32 dtype=int8",
            "gemm m=9 n=50 k=32 trans_b=yes dtype=int8")


def _packings(problem: Problem, backend: str) -> list[BufferArgument]:
    """The packed operand of some configurations of every family that solves the problem."""
    device, constant = typical_device(backend), operation(problem.type).constant
    assert constant is not None
    try:
        spaces = spaces_for(problem, device)
    except KernelError:
        return []
    found = []
    for space in spaces:
        for configuration in (space[0], space[len(space) // 2], space[len(space) - 1]):
            if backend == "llvm":
                code = llvm_implementation(space.kernel)
                if isinstance(code, ComputedPacking) and code.pack_text(problem, device, configuration, "f"):
                    continue
                packing = WeightsPacking.of(code, problem, device, configuration)
                found.append(BufferArgument(constant, operand_types(problem)[constant], packing))
            else:
                found.append(call_of(space.kernel, problem, device, configuration).buffers()[constant])
    return [argument for argument in found if argument.packing is not None]


def _loops(problem: Problem, argument: BufferArgument) -> PackingLoops:
    work, groups = operation(problem.type), problem.names().get("groups", 1)
    assert work.constant is not None
    return packing_loops("packed", lambda array: stored(array, argument), work.operands(problem)[work.constant],
                         problem.dtype, int(str(groups)))


@pytest.mark.parametrize("backend", ["llvm", "opencl", "cuda"])
@pytest.mark.parametrize("text", PROBLEMS)
def test_the_loops_in_numpy_pack_as_the_kernel_does(text: str, backend: str) -> None:
    problem = parse_problem(text)
    work, generator = operation(problem.type), np.random.default_rng(0)
    assert work.constant is not None
    for argument in _packings(problem, backend):
        numbers = generator.integers(-99, 99, work.operands(problem)[work.constant]).astype(np.float32)
        loops = _loops(problem, argument)
        packed = arrays.packed(encode(numbers, problem.dtype), json.loads(json.dumps(loops.to_json())))
        wanted = np.ascontiguousarray(stored(numbers, argument)).reshape(-1)
        assert len(packed) == loops.elements
        assert np.array_equal(packed.view(np.uint8), wanted.view(np.uint8))


@needs_compiler
@pytest.mark.parametrize("text", PROBLEMS)
def test_the_loops_in_c_pack_as_those_in_numpy(text: str) -> None:
    problem = parse_problem(text)
    for argument in _packings(problem, "opencl" if problem.dtype == "fp32" else "cuda")[:1]:
        loops = _loops(problem, argument)
        work = operation(problem.type)
        assert work.constant is not None
        source = encode(np.random.default_rng(0).integers(-99, 99, work.operands(problem)[work.constant]).astype(
            np.float32), problem.dtype)
        wanted = arrays.packed(source, loops.to_json())
        result = np.zeros_like(wanted)
        compiled(loops.c("packed").replace("static void", "void")).packed(source.ctypes.data_as(POINTER),
                                                                 result.ctypes.data_as(POINTER))
        assert np.array_equal(result.view(np.uint8), wanted.view(np.uint8))


@needs_compiler
@pytest.mark.parametrize("text", COMPUTED)
def test_packings_that_compute_are_functions_of_their_own(text: str) -> None:
    problem, device = parse_problem(text), typical_device("llvm")
    work = operation(problem.type)
    assert work.constant is not None
    shape = work.operands(problem)[work.constant]
    source = np.random.default_rng(0).integers(-9, 9, shape).astype(problem.element.host)
    for space in spaces_for(problem, device):
        code = llvm_implementation(space.kernel)
        if not isinstance(code, ComputedPacking):
            continue
        for configuration in (space[0], space[len(space) - 1]):
            text_of = code.pack_text(problem, device, configuration, "packed")
            if text_of is not None:
                wanted = code.pack(problem, device, configuration, source).astype(np.float32)
                result = np.zeros_like(wanted)
                compiled(text_of.replace("static void", "void")).packed(source.ctypes.data_as(POINTER),
                                                                        result.ctypes.data_as(POINTER))
                if problem.dtype == "int8":
                    assert np.array_equal(result.view(np.int32), wanted.view(np.int32))
                else:
                    assert np.abs(result - wanted).max() <= 1e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("pack", [
    lambda array: array * 2, np.abs, np.rint, lambda array: decode(encode(array, "bf16"), "bf16"),
    lambda array: np.maximum(array, 0)])
def test_a_packing_that_computes_is_refused(pack: Pack) -> None:
    with pytest.raises(KernelError, match="the packing of computed is no order of loops"):
        packing_loops("computed", pack, (4, 5), "fp32")
