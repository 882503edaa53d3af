"""References and inputs as text: the same numbers in C and in NumPy, and those of the operation."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.errors import MisuseError
from seqtune.kernels.operations.table import operation
from seqtune.kernels.operations.tensor import Tensor
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.building.check import Check, content_of
from seqtune.tuner.building.check_header import array_rows
from seqtune.tuner.building.chosen import template
from seqtune.tuner.building.reference import ReferenceText, reference_text
from seqtune.tuner.building.templates.arrays import decoded, make_array
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


def outcome(text: str) -> tuple[ReferenceText, dict[str, Tensor], ctypes.CDLL]:
    """The reference of a problem, its operands, and the functions of C: `make` fills these, `all` computes outputs."""
    tensors = operation(parse_problem(text).type).tensors(parse_problem(text))
    reference = reference_text(parse_problem(text), {name: each.dtype for name, each in tensors.inputs.items()}, "one")
    check = Check(tensors, {name: content_of(name, tensor, 7) for name, tensor in tensors.inputs.items()}, {}, "")
    program = compiled(f"{reference.c}static const struct array abouts[] = {{\n{array_rows(check)}}};\n"
                       f"void make(void **arrays) {{ make_arrays(abouts, {len(tensors.inputs)}, arrays); }}\n"
                       "void all(void *const *arrays, double *y, int64_t count)\n"
                       "{ for (int64_t i = 0; i < count; i++) y[i] = one(arrays, i); }\n",
                       template("arrays.h").decode())
    return reference, dict(tensors.inputs), program


@needs_compiler
@pytest.mark.parametrize("text", PROBLEMS)
def test_the_reference_is_that_of_the_operation(text: str) -> None:
    problem = parse_problem(text)
    work, (reference, operands, program) = operation(problem.type), outcome(text)
    names: dict[str, Any] = {"np": np}
    exec(reference.python, names)
    pointers = (ctypes.c_void_p * len(operands))()
    program.make(pointers)
    numbers = {}
    for pointer, (name, tensor) in zip(pointers, operands.items(), strict=True):
        array = make_array(content_of(name, tensor, 7), tensor.dtype, tensor.size, Path(), {})
        assert ctypes.string_at(pointer, array.nbytes) == array.tobytes()
        numbers[name] = decoded(array, tensor.dtype).astype(np.float32).reshape(tensor.shape)
    wanted = work.reference(problem, numbers)
    y = np.zeros(work.output(problem))
    program.all(pointers, y.ctypes.data_as(POINTER), ctypes.c_int64(y.size))
    assert np.abs(y - wanted).max() <= 1e-12 * np.abs(wanted).max()
    assert np.abs(names["reference"](numbers) - wanted).max() <= 1e-12 * np.abs(wanted).max()


def test_an_operation_without_a_text_is_refused() -> None:
    with pytest.raises(MisuseError, match="fused_moe has no reference that is written as text"):
        reference_text(parse_problem("fused_moe tokens=4 experts=4 top_k=2 hidden=64 intermediate=64"), {}, "one")
