"""LayerForms: our kernel and PyTorch's own operation for one node of a network, on the same operands.

Both run on equal terms: in channels_last memory, with weights packed before. PyTorch's operation runs in the faster of
its two ways, with packed weights or as users call it. It counts as faster on clear evidence only: in two measurements,
some time apart and with newly packed weights. A network in which PyTorch computes these layers is measured later
(`networks/compilation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
Timer = Callable[[Mapping[str, Call]], Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class LayerForms:
    """Calls without arguments. `pytorch` has PyTorch's operation and, where oneDNN packs weights, its packed form."""

    ours: Call
    pytorch: tuple[Callable[[], Tensor], ...]


def layer_forms(node: Tuned, configuration: Configuration, binder: KernelBinder) -> LayerForms:
    """The forms of a layer, with bias and ReLU, of a product or of attention.

    Raises SeqtuneError if our kernel does not build.
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
        return LayerForms(ours, (partial(
            functional.scaled_dot_product_attention, q, k, v, mask, is_causal=node.causal, scale=node.scale,
            enable_gqa=node.problem.size("group") > 1),))
    if isinstance(node, Product):
        return LayerForms(ours, (partial(torch.matmul, *operands),))
    return LayerForms(ours, tuple(partial(form, operands[0]) for form in peer_forms(node)))


def _ours(node: Tuned, configuration: Configuration, binder: KernelBinder, operands: list[Tensor]) -> Call:
    """A program of this node alone. Each result gets new memory, as with PyTorch's operation."""
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
    view = View(node.shape, tuple(strides), 0, node.element)
    program = assemble([*inputs, alone], [alone], [view], {alone: configuration}, binder).program(len(inputs))
    addresses = [x.data_ptr() for x in operands]

    def run() -> object:
        y = torch.empty_strided(node.shape, strides, dtype=DTYPES[node.element.dtype])
        with TURN:
            program.run(addresses, [y.data_ptr()])
        return operands, y

    return run


def compare_with_pytorch(node: Tuned, choice: Choice, binder: KernelBinder, guarded: Callable[[Call], Call],
                         timer: Timer = time_calls) -> Choice:
    """Return the choice with the typical times of our kernel and of PyTorch's operation, and which one is faster.

    Every call that is timed is replaced by `guarded` of it, which may raise an exception, such as OutOfTime.
    """
    assert choice.configuration is not None
    with torch.no_grad():
        both = layer_forms(node, choice.configuration, binder)
        plain, *packed = both.pytorch
        allowed = TOLERANCES[node.problem.dtype]
        forms = [plain, *(form for form in packed if difference([plain()], [form()]) < allowed)]
        runs: dict[str, Call] = {"ours": both.ours, **{str(index): form for index, form in enumerate(forms)}}
        samples = timer({name: guarded(run) for name, run in runs.items()})
    seconds, slower = typical(samples), bool(faster_than("ours", samples, SPLIT))
    ours = seconds.pop("ours")
    return replace(choice, seconds=ours, pytorch_seconds=min(seconds.values()), slower=slower)
