"""reduction: sums, means, largest and smallest numbers over any axes of views.

Where there are few results of many numbers, a first phase reduces slices into the workspace and a second one the
slices, so that several threads work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from seqtune.errors import KernelError
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.llvm.text.elements import FP32, Element
from seqtune.kernels.llvm.text.formula import IDENTITY, Formula

from .nest import TASK, Dimension, Nest, collapsed, joined
from .reduction_code import ReductionPlan, module_of
from .step_source import StepSource
from .view import View

KINDS = ("sum", "mean", "max", "min")
_FEW_TASKS = 8  # fewer tasks than this leave threads idle
_SLICES = 16

Planned = tuple[ReductionPlan, Nest, tuple[int, ...]]


def reduction(kind: str, out: View, operands: Sequence[View], axes: Sequence[int], lanes: int,
              before: Formula = IDENTITY, after: Formula = IDENTITY) -> StepSource:
    """Reduce x = before(operands) over axes and apply `after`, a formula of one operand, to the results.

    `out` has the operands' number of dimensions, and size 1 along the axes. A NaN makes its result NaN, as in PyTorch.
    Raises KernelError for an unknown kind, or where the shapes do not fit.
    """
    shape = operands[0].shape
    expected = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    if kind not in KINDS or out.shape != expected or any(view.shape != shape for view in operands):
        raise KernelError(f"a reduction {kind!r:.20} of {shape} over the axes {tuple(axes)} has one of the kinds "
                          f"{', '.join(KINDS)} and a result of the shape {expected}, not {out.shape}")
    assert len(operands) == before.operands
    assert after.operands == 1
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    dimensions = collapsed([_only(view, kept) for view in (out, *operands)])
    reduced = joined(sorted(((shape[axis], tuple(view.strides[axis] for view in operands))
                             for axis in axes if shape[axis] != 1), key=lambda dimension: -dimension[1][0]))
    reduced = reduced or [(1, (1,) * len(operands))]
    count = math.prod(size for size, _ in reduced)
    elements = tuple(view.element for view in (out, *operands))
    whole = _planned(kind, dimensions, reduced, lanes, before, after, elements)
    slices = _slices(whole, reduced[0][0], count * math.prod(size for size, _ in dimensions))
    if slices == 1:
        return _step([(whole, count)], len(operands), lanes, 0)
    partial = [(slices, (math.prod(size for size, _ in dimensions), *(
        stride * reduced[0][0] // slices for stride in reduced[0][1]))), *_dense(dimensions)]
    parts = [(reduced[0][0] // slices, reduced[0][1]), *reduced[1:]]
    first = _planned("sum" if kind == "mean" else kind, partial, parts, lanes, before, IDENTITY,
                     (FP32, *elements[1:]))
    size = partial[0][1][0]
    last = _planned(kind, [(dense[0], (strides[0], dense[1][0])) for dense, (_, strides) in zip(
        _dense(dimensions), dimensions, strict=True)], [(slices, (size,))], lanes, IDENTITY, after,
                    (elements[0], FP32))
    return _step([(first, count), (last, count)], len(operands), lanes, slices * size)


def global_average_pool(out: View, image: View, lanes: int, after: Formula = IDENTITY) -> StepSource:
    """The mean over the pixels of (n, h, w, c), a view with any strides, to (n, 1, 1, c)."""
    return reduction("mean", out, [image], (1, 2), lanes, after=after)


def _only(view: View, axes: Sequence[int]) -> View:
    return View(tuple(view.shape[axis] for axis in axes), tuple(view.strides[axis] for axis in axes))


def _dense(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """The same dimensions with the output in the workspace: without gaps."""
    step, result = 1, []
    for size, strides in reversed(dimensions):
        result.append((size, (step, *strides[1:])))
        step *= size
    return result[::-1]


def _slices(whole: Planned, size: int, floats: int) -> int:
    """The number of slices of the outermost reduced dimension, a divisor of its size; 1 where it does not pay."""
    if whole[1].tasks >= _FEW_TASKS or floats < 4 * TASK:
        return 1
    return max(number for number in range(1, _SLICES + 1) if size % number == 0)


def _planned(kind: str, dimensions: Sequence[Dimension], reduced: Sequence[Dimension], lanes: int, before: Formula,
             after: Formula, elements: tuple[Element, ...]) -> Planned:
    """The plan of a phase, the nest of its results, and sizes and strides of what is reduced."""
    views = 1 + before.operands
    empty = (1, (0,) * views)
    along = reduced[-1][1][0] == 1 and not any(strides[1] == 1 for _, strides in dimensions)
    dimensions = list(dimensions)
    count = max(1, math.prod(size for size, _ in reduced))
    if along:
        dimensions = [empty, *dimensions, empty]
        rows, inner = max(1, TASK // count), 1
    else:
        # Vectors along the dimension in which the first operand is dense, else along the last.
        dense = [dimension for dimension in dimensions if dimension[1][1] == 1][-1:] or dimensions[-1:]
        dimensions = [empty, *(dimension for dimension in dimensions if dimension not in dense), *(dense or [empty])]
        inner = min(-(-max(4 * lanes, TASK // count) // lanes) * lanes, max(1, dimensions[-1][0]))
        rows = max(1, TASK // (count * inner))
    loops = Nest(tuple(dimensions), "rows", min(rows, max(1, dimensions[-2][0])), inner)
    strides = [1, *reduced[-1][1]] if along else dimensions[-1][1]
    kinds = tuple({0: "same", 1: "dense"}.get(stride, "apart") for stride in strides)
    plan = ReductionPlan(kind, before, after, kinds, elements, len(dimensions), len(reduced), along)
    numbers = (*(size for size, _ in reduced), *(
        strides[operand] for operand in range(before.operands) for _, strides in reduced))
    return plan, loops, numbers


def _step(phases: Sequence[tuple[Planned, int]], operands: int, lanes: int,
          workspace: int) -> StepSource:
    arguments: tuple[int, ...] = ()
    for (plan, loops, sizes), count in phases:
        arguments += (0,) * (1 + plan.before.operands) + loops.arguments() + sizes + (count,)
    source = _source(tuple(plan for (plan, _, _), _ in phases), lanes)
    return StepSource(source, Launch(arguments, tuple(Phase(f"reduction{number}", loops.tasks) for number, (
        (_, loops, _), _) in enumerate(phases)), workspace), operands)


@lru_cache(maxsize=256)
def _source(plans: tuple[ReductionPlan, ...], lanes: int) -> KernelSource:
    return KernelSource(module_of(plans, lanes))
