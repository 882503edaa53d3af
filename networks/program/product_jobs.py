"""Jobs of products of two computed matrices: steps that pack B, and tuned kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TypeAlias

from seqtune.kernels.launches.implementation import implementation_of
from seqtune.kernels.llvm.gemm import LLVMGemm, MatrixViews
from seqtune.kernels.llvm.text.elements import FP32
from seqtune.kernels.registry import kernel

from ..nodes import Product, Shape
from ..steps.nest import joined
from ..steps.view import View
from .assembly import Assembly, Binding, BufferView, Job, new_buffer
from .bound_kernels import OTHER, X, Y

MOST_JOBS = 16  # per product; beyond it, A and B, and then C, are copied so that their matrices are evenly spaced

Axis: TypeAlias = tuple[int, tuple[int, ...]]  # the size, and the steps in A, B and C


def append_product(assembly: Assembly, node: Product, y: BufferView) -> None:
    """Steps that pack B, and a tuned kernel for each group of evenly spaced matrices."""
    a, b = (assembly.values[read] for read in node.inputs)
    if a.view.element.dtype != "fp32":
        a = assembly.laid_out(a, lambda view: True, View.contiguous(a.view.shape))
    problem, configuration = node.problem, assembly.configurations[node]
    lanes = configuration.number("vector") * configuration.number("vectors_n")
    own, shared = _axes(node.shape[:-2], a, b, y)
    if _jobs(own) * _jobs(shared) > MOST_JOBS:
        a, b = (assembly.laid_out(x, lambda view: view.is_contiguous,
                                  View.contiguous(x.view.shape, 0, x.view.element)) for x in (a, b))
        own, shared = _axes(node.shape[:-2], a, b, y)
    if _jobs(own) * _jobs(shared) > MOST_JOBS:
        whole = new_buffer(View.contiguous(node.shape))
        own, shared = _axes(node.shape[:-2], a, b, whole)
    else:
        whole = y
    packed = _packed(assembly, b, [(size, steps[1]) for size, steps in own], lanes)
    (*outer, (matrices, (a_matrix, _, c_matrix))), (*repeated, (times, (a_again, _, c_again))) = own, shared
    views = MatrixViews(a.view.strides[-2], a.view.strides[-1], whole.view.strides[-2], matrices, a_matrix, c_matrix,
                        times, a_again, c_again)
    implementation = implementation_of(kernel(configuration.kernel))
    assert isinstance(implementation, LLVMGemm)
    source = implementation.source_of_views(configuration, views, node.epilogue)
    launch = implementation.launch_of_views(problem, assembly.binder.device, configuration, views)
    panels = packed.view.size // _count(outer)
    for number, indices in enumerate(product(*(range(size) for size, _ in outer))):
        for repetition in product(*(range(size) for size, _ in repeated)):
            steps = [sum(index * axis[1][operand] for index, axis in zip(
                (*indices, *repetition), (*outer, *repeated), strict=True)) for operand in range(3)]
            bindings = (Binding(_moved(a, steps[0]), word=X), Binding(_moved(packed, number * panels), word=OTHER),
                    Binding(_moved(whole, steps[2]), word=Y, writes=True))
            assembly.jobs.append(Job(assembly.binder.bind_source(source, launch), bindings, node))
    if whole is not y:
        assembly.copy(whole, y)


def _moved(x: BufferView, step: int) -> BufferView:
    """The value `step` elements further."""
    return BufferView(x.buffer, replace(x.view, offset=x.view.offset + step))


def _axes(lead: Shape, a: BufferView, b: BufferView, y: BufferView) -> tuple[list[Axis], list[Axis]]:
    """The leading axes along which B varies, and those with one B for all; the longest one is the last of each."""
    strides = [x.view.expanded((*lead, *x.view.shape[-2:])).strides[:-2] for x in (a, b, y)]
    axes: list[Axis] = [(size, steps) for size, *steps in zip(lead, *strides, strict=True) if size > 1]  # type: ignore[misc]
    parts = []
    for is_shared in (False, True):
        chosen = joined([(size, tuple(steps)) for size, steps in axes if (steps[1] == 0) == is_shared])
        parts.append(sorted(chosen, key=lambda axis: axis[0]) or [(1, (0, 0, 0))])
    return parts[0], parts[1]


def _count(axes: Sequence[Axis]) -> int:
    return math.prod(size for size, _ in axes)


def _jobs(axes: Sequence[Axis]) -> int:
    """The number of launches; one launch computes all of the last axis."""
    return _count(axes[:-1])


def _packed(assembly: Assembly, b: BufferView, axes: Sequence[tuple[int, int]], lanes: int) -> BufferView:
    """B as [axes][block of columns][k][column], or B itself if it has this layout; the last two blocks may overlap."""
    (k, n), (along, across) = b.view.shape[-2:], b.view.strides[-2:]
    blocks, whole = -(-n // lanes), n // lanes
    sizes, steps = tuple(size for size, _ in axes), tuple(step for _, step in axes)
    packed = View.contiguous((*sizes, blocks, k, lanes))
    given = View((*sizes, whole, k, lanes), (*steps, lanes * across, along, across), b.view.offset, b.view.element)
    if whole == blocks and given.element == FP32 and given.is_contiguous:
        return BufferView(b.buffer, given)
    y = new_buffer(packed)
    axis = len(sizes)
    assembly.copy(BufferView(b.buffer, given), BufferView(y.buffer, packed.sliced(axis, 0, whole)))
    if blocks > whole:
        rest = View((*sizes, 1, k, lanes), given.strides, b.view.offset + (n - lanes) * across, b.view.element)
        assembly.copy(BufferView(b.buffer, rest), BufferView(y.buffer, packed.sliced(axis, whole, blocks)))
    return y
