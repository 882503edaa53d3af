"""References and inputs as text: the same numbers in C and in NumPy, and those of the operation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.errors import MisuseError
from seqtune.kernels.devices.element_types import encode
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.building.inputs import c_inputs
from seqtune.tuner.building.packing import C_TYPES
from seqtune.tuner.building.reference import c_values, reference_text
from seqtune.tuner.building.templates.arrays import decoded
from tests.support.compiled_c import POINTER, compiled
from tests.support.learning.c_programs import needs_compiler

PROBLEMS = (
    "conv2d n=2 c=6 h=9 w=7 k=10 r=3 s=2 pad=1 stride=2 bias=yes activation=relu",
    "conv2d c=6 h=9 w=7 k=9 r=3 s=3 groups=3 dilation=2 layout=NHWC dtype=bf16 bias=yes",
    "conv2d c=5 h=4 w=6 k=4 r=1 s=1 dtype=fp16", "gemm m=5 n=7 k=9 trans_a=yes bias=yes activation=relu",
    "gemm m=5 n=7 k=9 trans_b=yes dtype=bf16", "gemm m=5 n=7 k=9 dtype=int8",
    "attention n=2 heads=4 group=2 q_len=5 kv_len=7 head_dim=6 value_dim=3 causal=yes layout=tokens",
    "attention n=2 heads=4 q_len=5 kv_len=7 head_dim=6 value_dim=3 mask=scores dtype=bf16",
    "attention n=2 heads=4 group=2 q_len=5 kv_len=7 head_dim=6 value_dim=3 mask=keys layout=tokens")


def drawn(seed: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """The numbers that fill_TYPE stores, in NumPy: SplitMix64's bits from -1 to 1, or from -8 to 7."""
    bits = np.arange(1, math.prod(shape) + 1, dtype=np.uint64).reshape(shape) + np.uint64(seed)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    digits = {"int8": 4, "fp32": 24}.get(dtype, 8)
    numbers = ((bits ^ (bits >> np.uint64(31))) >> np.uint64(64 - digits)).astype(np.int64) - (1 << (digits - 1))
    return encode(numbers if dtype == "int8" else numbers / (1 << (digits - 1)), dtype)


@needs_compiler
@pytest.mark.parametrize("text", PROBLEMS)
def test_the_reference_is_that_of_the_operation(text: str) -> None:
    problem = parse_problem(text)
    work = operation(problem.type)
    types = {name: tensor.dtype for name, tensor in work.tensors(problem).inputs.items()}
    reference = reference_text(problem, types)
    operands = ", ".join(f"const {C_TYPES[dtype]} *{name}" for name, dtype in types.items())
    fills = "".join(f"void set_{name}({C_TYPES[dtype]} *array, int64_t count, uint64_t seed)\n"
                    f"{{ fill_{dtype}(array, count, seed); }}\n" for name, dtype in types.items())
    program = compiled(f"{c_inputs(set(types.values()))}{c_values(reference.dtypes)}{reference.c}{fills}"
                       f"void all({operands}, double *y, int64_t count)\n"
                       f"{{ for (int64_t i = 0; i < count; i++) y[i] = expected({', '.join(types)}, i); }}\n")
    names: dict[str, Any] = {"np": np}
    exec(reference.python, names)
    arrays: dict[str, NDArray[Any]] = {}
    for seed, (name, shape) in enumerate(work.operands(problem).items()):
        arrays[name] = drawn(seed, types[name], shape)
        filled = np.zeros_like(arrays[name])
        getattr(program, f"set_{name}")(filled.ctypes.data_as(POINTER), filled.size, seed)
        assert np.array_equal(filled.view(np.uint8), arrays[name].view(np.uint8))
    numbers = {name: decoded(array, types[name]).astype(np.float32) for name, array in arrays.items()}
    wanted = work.reference(problem, numbers)
    y = np.zeros(work.output(problem))
    program.all(*(array.ctypes.data_as(POINTER) for array in arrays.values()), y.ctypes.data_as(POINTER), y.size)
    assert np.abs(y - wanted).max() <= 1e-12 * np.abs(wanted).max()
    assert np.abs(names["reference"](**numbers) - wanted).max() <= 1e-12 * np.abs(wanted).max()


def test_an_operation_without_a_text_is_refused() -> None:
    with pytest.raises(MisuseError, match="fused_moe has no reference that is written as text"):
        reference_text(parse_problem("fused_moe tokens=4 experts=4 top_k=2 hidden=64 intermediate=64"), {})
