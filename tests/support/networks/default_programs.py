"""Programs of models, by default with the default configuration of a kernel family for every layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from seqtune.kernels.registry import kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.networks.capture.export import exported
from seqtune.networks.compiler import compile_graph
from seqtune.networks.module import NetworkModule
from seqtune.networks.nodes import Tuned
from seqtune.networks.program.bound_kernels import KernelBinder
from seqtune.networks.selection.choices import Choice


def default_choices(binder: KernelBinder, family: int = 0) -> Callable[[Sequence[Tuned]], list[Choice]]:
    """Choices of default configurations, of the kernel family of this number, modulo those that solve a layer."""
    def choose(layers: Sequence[Tuned]) -> list[Choice]:
        choices = []
        for layer in layers:
            spaces = [SearchSpace(chosen, layer.problem, binder.device)
                      for chosen in kernels_for(layer.problem, binder.device)]
            valid = [space for space in spaces if len(space)]
            choices.append(Choice(layer.problem, valid[family % len(valid)].default))
        return choices

    return choose


def program_of(model: nn.Module, examples: Sequence[Tensor], binder: KernelBinder,
               choose: Callable[[Sequence[Tuned]], list[Choice]] | None = None) -> NetworkModule:
    """The only program of a model; without `choose`, of default configurations."""
    with torch.no_grad():
        compiled = compile_graph(exported(model, tuple(examples)), binder, choose or default_choices(binder))
    assert compiled is not None
    (program,) = (module for module in compiled.graph.modules() if isinstance(module, NetworkModule))
    return program
