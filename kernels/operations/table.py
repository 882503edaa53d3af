"""Table of operations: their names, and look-up by name."""

from __future__ import annotations

from collections.abc import Iterator

from seqtune.errors import ProblemError

from ..lookup import resolve
from .operation import Operation

# A new operation is one new file and one line here. Vocabularies list features in this order: append.
# A library in use adds its own (`seqtune.kernels.libraries.table`).
OPERATIONS: dict[str, str | Operation] = {
    "conv2d": "seqtune.kernels.operations.conv2d:OPERATION",
    "convnd": "seqtune.kernels.operations.convnd:OPERATION",
    "gemm": "seqtune.kernels.operations.gemm:OPERATION",
    "recorded": "seqtune.kernels.operations.recorded:OPERATION",
    "fused_moe": "seqtune.kernels.operations.fused_moe:OPERATION",
    "scaled_gemm": "seqtune.kernels.operations.scaled_gemm:OPERATION",
    "attention": "seqtune.kernels.operations.attention:OPERATION",
    "quantized_gemm": "seqtune.kernels.operations.quantized_gemm:OPERATION",
}
_resolved: dict[str, tuple[str, Operation]] = {}  # name -> (reference, operation): `operation` is called very often


def operation(name: str) -> Operation:
    """The operation of this name. Raises ProblemError."""
    reference = OPERATIONS.get(name)
    if reference is None:
        raise ProblemError(f"no operation {name!r:.40}; there are {', '.join(OPERATIONS)}; name its library with "
                           "--library")
    if isinstance(reference, Operation):
        return reference
    entry = _resolved.get(name)
    if entry is None or entry[0] != reference:
        value = resolve(reference)
        assert isinstance(value, Operation)
        entry = _resolved[name] = reference, value
    return entry[1]


def is_known(name: object) -> bool:
    """Whether an operation of this name is known: ours, or one of a library in use."""
    return name in OPERATIONS


def is_ours(name: str) -> bool:
    """Whether an operation of this name is known, and no library in use has added it."""
    return isinstance(OPERATIONS.get(name), str)


def operations() -> Iterator[Operation]:
    """All operations, in the order of the table."""
    return map(operation, OPERATIONS)
