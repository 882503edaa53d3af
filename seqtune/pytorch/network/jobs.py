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
    read = assembly.locate(node.inputs[0])
    x = assembly.laid_out(read, lambda view: pitch(view) is not None,
                          channels_last(read.view.shape) if image else View.contiguous(read.view.shape))
    others = [assembly.laid_out(assembly.locate(other), lambda view: view.strides == y.view.strides,
                                View(y.view.shape, y.view.strides)) for other in node.inputs[1:]]
    x_pitch, y_pitch = pitch(x.view), pitch(y.view)
    fusion = Fusion(node.epilogue, None if x_pitch == x.view.shape[1 if image else -1] else x_pitch,
                    None if y_pitch == node.shape[1 if image else -1] else y_pitch)
    kernel = assembly.binder.bind(node.problem, assembly.configurations[node], node.weights, node.bias, fusion)
    uses = [Use(x, word=X), Use(y, word=Y), *(Use(other, argument=len(kernel.arguments) - 1) for other in others)]
    assembly.jobs.append(Job(kernel, tuple(uses), node.name))


def _pointwise(assembly: Assembly, node: Pointwise, y: Located) -> None:
    operands = [assembly.locate(read) for read in node.inputs]
    views = [operand.view.expanded(node.shape) for operand in operands]
    assembly.step(node.name, pointwise(node.formula, y.view, views, assembly.lanes), y, *operands)


_APPENDERS: dict[type[Node], Callable[[Assembly, Any, Located], None]] = {
    Layer: _layer, Pointwise: _pointwise}
