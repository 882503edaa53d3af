"""Jobs: how each kind of node becomes kernels and steps of an assembly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seqtune.kernels.llvm.fusion import Fusion
from seqtune.kernels.llvm.steps.pointwise import pointwise
from seqtune.kernels.llvm.steps.view import View
from seqtune.tuner.backends.llvm.bound_kernels import X, Y

from .assembly import Assembly, Job, Located, Use
from .layouts import channels_last, image_pitch, row_pitch
from .nodes import Attention, Gather, Layer, Node, Pointwise, Pool, Reduction, RowOperation


def append_jobs(assembly: Assembly, node: Node, y: Located) -> None:
    """Append the jobs that compute a node into its place."""
    _APPENDERS[type(node)](assembly, node, y)


def _layer(assembly: Assembly, node: Layer, y: Located) -> None:
    image = node.work.type == "conv2d"
    pitch = image_pitch if image else row_pitch
    x = _dense(assembly, assembly.locate(node.inputs[0]), image)
    others = [_dense(assembly, assembly.locate(other), image) for other in node.inputs[1:]]
    pitches = [pitch(located.view) for located in (x, y, *others)]
    dense = [located.view.shape[1 if image else -1] for located in (x, y, *others)]
    x_pitch, y_pitch, *other_pitch = (None if own == floats else own
                                      for own, floats in zip(pitches, dense, strict=True))
    fusion = Fusion(node.epilogue if node.epilogue.lines else None, x_pitch, y_pitch, *other_pitch)
    kernel = assembly.binder.bind(node.problem, assembly.configurations[node], node.weights, node.bias, fusion)
    uses = [Use(x, word=X), Use(y, word=Y), *(Use(other, argument=len(kernel.arguments) - 1) for other in others)]
    assembly.jobs.append(Job(kernel, tuple(uses), node.name))


def _dense(assembly: Assembly, x: Located, image: bool) -> Located:
    """The value as an image in NHWC, or as rows of a matrix."""
    pitch = image_pitch if image else row_pitch
    return assembly.laid_out(x, lambda view: pitch(view) is not None,
                             channels_last(x.view.shape) if image else View.contiguous(x.view.shape))


def _pointwise(assembly: Assembly, node: Pointwise, y: Located) -> None:
    operands = [assembly.locate(read) for read in node.inputs]
    views = [operand.view.expanded(node.shape) for operand in operands]
    assembly.step(node.name, pointwise(node.formula, y.view, views, assembly.lanes), y, *operands)


_APPENDERS: dict[type[Node], Callable[[Assembly, Any, Located], None]] = {
    Layer: _layer, Pointwise: _pointwise}
