"""Jobs: how each kind of node that computes becomes kernels and steps of an assembly.

Every function appends the jobs that compute a node into the value y.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seqtune.errors import KernelError
from seqtune.kernels.launches.implementation import Array, implementation_of
from seqtune.kernels.llvm.attention import LLVMAttention
from seqtune.kernels.llvm.attention_bf16 import LLVMAttentionBF16
from seqtune.kernels.llvm.attention_decode import AttentionDecode
from seqtune.kernels.llvm.attention_views import AttentionViews
from seqtune.kernels.llvm.fusion import Fusion
from seqtune.kernels.llvm.text.elements import Element
from seqtune.kernels.registry import kernel

from ..nodes import AttentionHeads, Gather, Layer, MovedRows, Pointwise, Pool, Reduction, RowOperation, Shape
from ..plan.layouts import channels_last, image_pitch, row_pitch
from ..steps.gather import gather
from ..steps.pointwise import pointwise
from ..steps.pooling import Window, average_pool, max_pool
from ..steps.reduction import reduction
from ..steps.rows import SCALE, row_step
from ..steps.view import View
from .assembly import Assembly, Binding, BufferView, Job, new_buffer
from .bound_kernels import BIAS, OTHER, X, Y


def append_layer(assembly: Assembly, node: Layer, y: BufferView) -> None:
    """A tuned convolution or product with its epilogue."""
    image = node.work.type == "conv2d"
    pitch = image_pitch if image else row_pitch
    element = Element.of(str(node.work["dtype"]), assembly.binder.device)
    weights: list[Binding] = []
    if node.scaled is None:
        x = _dense(assembly, assembly.values[node.inputs[0]], image, element)
    elif element.dtype == "fp32":
        x = _dense(assembly, assembly.values[node.inputs[0]], image, element)
        weights.append(Binding(_scaled_weights(assembly, node, node.scaled), word=OTHER))
    else:  # weights would be rounded twice
        x = _scaled_image(assembly, node, node.scaled, element)
    others = [_dense(assembly, assembly.values[other], image, assembly.values[other].view.element)
              for other in node.others]
    pitches = [pitch(value.view) for value in (x, y, *others)]
    dense = [value.view.shape[1 if image else -1] for value in (x, y, *others)]
    x_pitch, y_pitch, *other_pitch = (None if own == floats else own
                                      for own, floats in zip(pitches, dense, strict=True))
    y_element, *other_element = (None if stored == x.view.element else stored.dtype
                                 for stored in (value.view.element for value in (y, *others)))
    fusion = Fusion(node.epilogue if node.epilogue.lines else None, x_pitch, y_pitch, next(iter(other_pitch), None),
                    y_element, next(iter(other_element), None), chained=True)
    kernel = assembly.binder.bind_packed(node.problem, assembly.configurations[node], assembly.packed[node], node.bias,
                                         fusion)
    bindings = [Binding(x, word=X), Binding(y, word=Y, writes=True),
            *(Binding(other, argument=len(kernel.arguments) - 1) for other in others), *weights]
    assembly.jobs.append(Job(kernel, tuple(bindings), node))


def _scaled_weights(assembly: Assembly, node: Layer, product: Pointwise) -> BufferView:
    """The packed weights of a 1x1 convolution times the factors of x's channels, computed by a step."""
    shape = node.unscaled.shape
    numbers = assembly.binder.pack(node.problem, assembly.configurations[node], np.broadcast_to(
        np.arange(shape[1], dtype=np.float32)[:, None, None], shape))
    view = channel_runs(numbers, shape[1])
    factors = assembly.values[node.inputs[-1]]
    of_channels = factors.view.reshaped((1, shape[1], 1))
    assert of_channels is not None  # one axis alone is longer than 1
    y = new_buffer(view)
    step = pointwise(SCALE, view, [view, of_channels.expanded(view.shape)], assembly.lanes)
    assembly.step(product, step, y, assembly.constant(view, assembly.packed[node].reshape(-1)), factors)
    return y


def _scaled_image(assembly: Assembly, node: Layer, product: Pointwise, element: Element) -> BufferView:
    """The image x times the factors of its channels, computed by a step."""
    x, factors = (assembly.values[read] for read in (node.inputs[0], node.inputs[-1]))
    y = new_buffer(channels_last(x.view.shape).stored_as(element))
    step = pointwise(SCALE, y.view, [x.view, factors.view.expanded(x.view.shape)], assembly.lanes)
    assembly.step(product, step, y, x, factors)
    return y


def channel_runs(numbers: Array, channels: int) -> View:
    """The view (block, input channel, output channel) of packed weights, from the packed numbers of input channels.

    Raises KernelError for another order.
    """
    flat = numbers.reshape(-1)
    run = flat.size if channels == 1 else int(np.argmax(flat != flat[0]))
    view = View.contiguous((flat.size // (channels * max(run, 1)), channels, run))
    if view.size != flat.size or (flat.reshape(view.shape) != np.arange(channels)[:, None]).any():
        raise KernelError("the packed weights are not in the order of block, input channel, output channel")
    return view


def _dense(assembly: Assembly, x: BufferView, image: bool, element: Element) -> BufferView:
    """The value as an image in NHWC, or as rows of a matrix, of this element."""
    pitch = image_pitch if image else row_pitch
    layout = channels_last(x.view.shape) if image else View.contiguous(x.view.shape)
    return assembly.laid_out(x, lambda view: pitch(view) is not None, layout.stored_as(element))


def append_pointwise(assembly: Assembly, node: Pointwise, y: BufferView) -> None:
    """One step."""
    operands = [assembly.values[read] for read in node.inputs]
    views = [operand.view.expanded(node.shape) for operand in operands]
    assembly.step(node, pointwise(node.formula, y.view, views, assembly.lanes), y, *operands)


def append_rows(assembly: Assembly, node: RowOperation, y: BufferView) -> None:
    """A normalisation with its scale and shift."""
    operands = [assembly.values[read] for read in node.inputs]
    views = [operand.view.expanded(node.shape) for operand in operands]
    assembly.step(node, row_step(node.kind, y.view, views, assembly.lanes, node.epsilon), y, *operands)


def append_reduction(assembly: Assembly, node: Reduction, y: BufferView) -> None:
    """A reduction; the step writes the reduced axes with size 1."""
    operands = [assembly.values[read] for read in node.inputs]
    shape = node.inputs[0].shape
    whole = replace(y.view, shape=tuple(1 if axis in node.axes else size for axis, size in enumerate(shape)),
                   strides=_whole_strides(y.view.strides, node))
    views = [operand.view.expanded(shape) for operand in operands]
    assembly.step(node, reduction(node.kind, whole, views, node.axes, assembly.lanes, node.formula), y, *operands)


def _whole_strides(strides: Shape, node: Reduction) -> Shape:
    """The strides of the result with the reduced axes, of size 1."""
    if node.keep:
        return strides
    left = iter(strides)
    return tuple(0 if axis in node.axes else next(left) for axis in range(len(node.inputs[0].shape)))


def append_attention(assembly: Assembly, node: AttentionHeads, y: BufferView) -> None:
    """Tuned attention on q, k and v in their own layouts."""
    device = assembly.binder.device
    element = Element.of(node.dtype, device)
    q, k, v = (assembly.laid_out(x, lambda view: view.strides[-1] == 1, View.contiguous(x.view.shape, 0, element))
               for x in (assembly.values[read] for read in node.inputs[:3]))
    masks = [_dense_mask(assembly, assembly.values[mask], node) for mask in node.inputs[3:]]
    mask_steps = [_steps(mask.view.expanded((*node.shape[:3], mask.view.shape[-1]))) for mask in masks]
    q_steps, k_steps, v_steps, y_steps = (_steps(value.view) for value in (q, k, v, y))
    views = AttentionViews(q_steps, k_steps, v_steps, y_steps, mask_steps[0] if masks else (0, 0, 0), node.scale,
                           y.view.element.dtype)
    problem, configuration = node.problem, assembly.configurations[node]
    implementation = implementation_of(kernel(configuration.kernel))
    assert isinstance(implementation, LLVMAttention | LLVMAttentionBF16 | AttentionDecode)
    bound = assembly.binder.bind_source(implementation.source(problem, device, configuration, views),
                                        implementation.launch(problem, device, configuration, views))
    bindings = [Binding(q, word=X), Binding(k, word=OTHER), Binding(v, word=BIAS), Binding(y, word=Y, writes=True),
            *(Binding(mask, argument=len(bound.arguments) - 1) for mask in masks)]
    assembly.jobs.append(Job(bound, tuple(bindings), node))


def _steps(view: View) -> tuple[int, int, int]:
    """The strides of the first three of four axes."""
    return view.strides[0], view.strides[1], view.strides[2]


def _dense_mask(assembly: Assembly, mask: BufferView, node: AttentionHeads) -> BufferView:
    """The mask with the keys of each row contiguous."""
    keys = node.inputs[1].shape[2]
    shape = (*mask.view.shape[:-1], keys)
    whole = BufferView(mask.buffer, mask.view.expanded(shape))
    return assembly.laid_out(whole, lambda view: view.strides[-1] == 1, View.contiguous(shape))


def append_pool(assembly: Assembly, node: Pool, y: BufferView) -> None:
    """Pooling of an image whose channels are contiguous."""
    x = assembly.values[node.inputs[0]]
    x = assembly.laid_out(x, lambda view: view.strides[1] == 1 or view.shape[1] == 1,
                          channels_last(x.view.shape).stored_as(x.view.element))
    out, image = (view.permuted((0, 2, 3, 1)) for view in (y.view, x.view))
    window = Window(node.filter, node.stride, node.pad, node.dilation)
    if node.kind == "max":
        source = max_pool(out, image, window, assembly.lanes)
    else:
        source = average_pool(out, image, window, assembly.lanes, count_include_pad=node.count_pad,
                              divisor=node.divisor)
    assembly.step(node, source, y, x)


def append_gather(assembly: Assembly, node: Gather, y: BufferView) -> None:
    """Rows of a table."""
    indices, table = (assembly.values[read] for read in node.inputs)
    counted = View(indices.view.shape, tuple(2 * stride for stride in indices.view.strides))  # int64 in floats
    source = gather(y.view, table.view, counted, [], assembly.lanes)
    assembly.step(node, source, y, table, indices)
    assembly.jobs[-1].kernel.arguments[3] = assembly.flag.ctypes.data


def append_moved_rows(assembly: Assembly, node: MovedRows, y: BufferView) -> None:
    """Rows by constant numbers, and a formula of them."""
    x = _dense(assembly, assembly.values[node.inputs[0]], False, assembly.values[node.inputs[0]].view.element)
    columns = node.shape[-1]
    table = x.view.reshaped((x.view.size // columns, columns))
    assert table is not None  # rows with a pitch
    contiguous = View.contiguous(node.numbers.shape)
    counted = View(contiguous.shape, tuple(2 * stride for stride in contiguous.strides))  # int64 in floats
    numbers = assembly.constant(View.contiguous((2 * node.numbers.size,)), node.numbers.reshape(-1).view(np.float32))
    others = [assembly.values[read] for read in node.inputs[1:]]
    views = [other.view.expanded(node.shape) for other in others]
    source = gather(y.view, table, counted, views, assembly.lanes, node.formula)
    assembly.step(node, source, y, BufferView(x.buffer, table), numbers, *others)
    assembly.jobs[-1].kernel.arguments[3 + len(others)] = assembly.flag.ctypes.data
