"""LayerContestants: our kernel and PyTorch's own operation for one node of a network, on the same operands.

Both run on equal terms: in channels_last memory, with weights packed before. PyTorch's operation runs in the faster of
its two ways, with packed weights or as users call it. It counts as faster on clear evidence only: in two measurements,
some time apart and with newly packed weights. A network in which PyTorch computes these layers is measured later
(`networks/compilation.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from seqtune.errors import SeqtuneError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.llvm.text.elements import Element
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.measuring.comparison import Rule, faster_than, typical
from seqtune.tuner.measuring.timed_calls import time_calls

from ..capture.examples import difference
from ..nodes import AttentionHeads, Input, Layer, Product, Tuned
from ..plan.precision import DTYPES, NAMES, TOLERANCES
from ..program.bound_kernels import KernelBinder
from ..program.device_threads import TURN
from ..program.table import assemble
from ..steps.view import View
from .choices import Choice
from .peer_layers import peer_forms

SPLIT = Rule(margin=0.1)  # PyTorch's operation cuts the program in two, which costs more than a smaller lead gains
Call = Callable[[], object]


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
    return LayerContestants(ours, tuple(partial(form, operands[0]) for form in peer_forms(node)))


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


def compared(node: Tuned, choice: Choice, binder: KernelBinder, guarded: Callable[[Call], Call]) -> Choice:
    """The choice with the typical times of our kernel and of PyTorch's operation, and whether theirs is faster.

    `guarded` is applied to every call that is timed: it may raise an exception, such as OutOfTime, instead of calling.
    """
    assert choice.configuration is not None
    with torch.no_grad():
        pair = contestants(node, choice.configuration, binder)
        plain, *packed = pair.theirs
        allowed = TOLERANCES[node.problem.dtype]
        forms = [plain, *(form for form in packed if difference([plain()], [form()]) < allowed)]
        runs = {"ours": pair.ours, **{str(index): form for index, form in enumerate(forms)}}
        taken = time_calls({name: guarded(run) for name, run in runs.items()})
    seconds, slower = typical(taken), bool(faster_than("ours", taken, SPLIT))
    ours = seconds.pop("ours")
    return replace(choice, seconds=ours, pytorch_seconds=min(seconds.values()), slower=slower)
