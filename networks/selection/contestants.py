"""LayerContestants: our kernel and PyTorch's own operation for one node of a network, on the same operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from seqtune.errors import SeqtuneError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.llvm.text.elements import Element
from seqtune.tuner.backends.backend import BuildError

from ..nodes import AttentionHeads, Input, Layer, Product, Tuned
from ..plan.precisions import DTYPES, NAMES
from ..program.bound_kernels import KernelBinder
from ..program.device_threads import TURN
from ..program.table import assemble
from ..steps.view import View
from .peer_layers import kept_forms


@dataclass(frozen=True, slots=True)
class LayerContestants:
    """Calls without arguments; `theirs` are one or two forms of PyTorch's operation, the second with packed weights."""

    ours: Callable[[], object]
    theirs: tuple[Callable[[], Tensor], ...]


def contestants(node: Tuned, configuration: Configuration, binder: KernelBinder) -> LayerContestants:
    """The contestants for a layer, with bias and ReLU, a product or attention.

    Raises SeqtuneError if ours does not build.
    """
    generator = torch.Generator().manual_seed(0)
    reads = [node.inputs[0], *node.others] if isinstance(node, Layer) else node.inputs
    elements = [read.element.dtype for read in reads]
    for index in range(1 if isinstance(node, Layer) else 2 if isinstance(node, Product) else 3):  # what is multiplied
        elements[index] = str(node.problem["dtype"])
    operands = [torch.randn(read.shape, generator=generator).to(DTYPES[element])
                for read, element in zip(reads, elements, strict=True)]
    image = isinstance(node, Layer) and node.work.type == "conv2d"
    if image:
        operands = [x.contiguous(memory_format=torch.channels_last) for x in operands]
    elif isinstance(node, AttentionHeads):  # as projections leave them: token by token
        operands = [x.transpose(1, 2).contiguous().transpose(1, 2) if x.dim() == 4 else x for x in operands]
    try:
        ours = _ours(node, configuration, binder, operands)
    except BuildError as error:
        raise SeqtuneError(f"{configuration.kernel} {configuration.brief()} does not build on "
                           f"{binder.device.name}: {error}") from None
    if isinstance(node, AttentionHeads):
        q, k, v = operands[:3]
        mask = operands[3].to(q.dtype) if len(operands) > 3 else None
        return LayerContestants(ours, (partial(
            functional.scaled_dot_product_attention, q, k, v, mask, is_causal=node.causal, scale=node.scale,
            enable_gqa=node.problem.size("group") > 1),))
    if isinstance(node, Product):
        return LayerContestants(ours, (partial(torch.matmul, *operands),))
    return LayerContestants(ours, tuple(partial(form, operands[0]) for form in kept_forms(node)))


def _ours(node: Tuned, configuration: Configuration, binder: KernelBinder,
          operands: list[Tensor]) -> Callable[[], object]:
    """A program of this node alone, with new memory for every result, as PyTorch's operation has."""
    inputs = [Input(tuple(x.shape), [], index, tuple(x.stride()), element=Element.of(NAMES[x.dtype], binder.device))
              for index, x in enumerate(operands)]
    alone: Tuned
    if isinstance(node, AttentionHeads):
        alone = AttentionHeads(node.shape, [*inputs], node.scale, node.causal, node.dtype, element=node.element)
    elif isinstance(node, Product):
        alone = Product(node.shape, [*inputs])  # without its formula, which torch.matmul does not compute either
    else:
        alone = Layer(node.shape, [*inputs], node.work, node.unscaled, node.bias, node.epilogue,
                      factors=node.factors, element=node.element)
    form = torch.channels_last if isinstance(node, Layer) and node.work.type == "conv2d" else torch.contiguous_format
    strides = torch.empty(node.shape, device="meta").contiguous(memory_format=form).stride()
    place = View(node.shape, tuple(strides), 0, node.element)
    program = assemble([*inputs, alone], [alone], [place], {alone: configuration}, binder).program()
    addresses = [x.data_ptr() for x in operands]

    def run() -> object:
        y = torch.empty_strided(node.shape, strides, dtype=DTYPES[node.element.dtype])
        with TURN:
            program.run(addresses, [y.data_ptr()])
        return operands, y

    return run
