"""Runs generated steps on NumPy memory, one share of the tasks after the other, in poisoned buffers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from seqtune.networks.steps.step_source import StepSource
from seqtune.networks.steps.view import View
from seqtune.tuner.backends.llvm.compiler import INSTRUCTION_SETS, Compiler, instruction_sets

Floats = NDArray[np.float32]
Scalar = TypeVar("Scalar", bound=np.generic)
WIDTHS = [(name, INSTRUCTION_SETS[name].vector_bits // 32) for name in instruction_sets()]
POISON = -777.0
SHARES = 3

compiler = lru_cache(Compiler)


def buffer_of(view: View) -> Floats:
    """Memory for a view and 16 floats behind it, poisoned."""
    return np.full(view.offset + view.extent + 16, POISON, np.float32)


def elements(view: View, buffer: NDArray[Scalar]) -> NDArray[Scalar]:
    """The elements of a view, writable, as a NumPy view of the buffer."""
    size = buffer.itemsize
    return np.lib.stride_tricks.as_strided(
        buffer[view.offset:], view.shape, [size * stride for stride in view.strides])


def filled(view: View, values: NDArray[np.generic]) -> Floats:
    """A new buffer that holds these values at the view's elements."""
    buffer = buffer_of(view)
    elements(view, buffer)[...] = values
    return buffer


def launch(step: StepSource, instruction_set: str, addresses: Sequence[int]) -> None:
    """Run all phases with these addresses: the output's, then the operands'."""
    module, _ = compiler(instruction_set).build(step.source.text, step.source.options)
    assert len(addresses) == 1 + step.operands
    assert step.launch.arguments[:len(addresses)] == (0,) * len(addresses)
    arguments = np.array([*addresses, *step.launch.arguments[len(addresses):]], np.int64)
    workspace = np.full(step.launch.workspace + 16, np.nan, np.float32)
    for phase in step.launch.phases:
        entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6, ctypes.c_int64, ctypes.c_int64)(
            module.address(phase.entry))
        for share in range(SHARES):
            entry(None, None, None, None, workspace.ctypes.data, arguments.ctypes.data,
                  phase.tasks * share // SHARES, phase.tasks * (share + 1) // SHARES)
    assert np.isnan(workspace[step.launch.workspace:]).all()


def run(step: StepSource, instruction_set: str, out: View, operands: Sequence[View],
        buffers: Sequence[NDArray[np.generic]], into: Floats | None = None) -> Floats:
    """The output's elements. Checks that nothing beside them is written; `into` is the output's buffer, if given."""
    target = buffer_of(out) if into is None else into
    before = target.copy()
    addresses = [buffer.ctypes.data + buffer.itemsize * view.offset
                 for view, buffer in zip((out, *operands), (target, *buffers), strict=True)]
    launch(step, instruction_set, addresses)
    result: Floats = elements(out, target).copy()
    elements(out, target)[...] = elements(out, before)
    assert np.array_equal(target, before, equal_nan=True), "the step wrote beside its output"
    return result
