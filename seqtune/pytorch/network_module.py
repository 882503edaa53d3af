"""NetworkModule: a segment of a model as one program, called like a module of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seqtune.kernels.kernel import Configuration
from seqtune.tuner.backends.llvm.bound_kernels import KernelBinder

from .lowering.lowering import lower
from .network.assembly import Assembly
from .network.nodes import Layer, Shape
from .network.rewriting import Rewriting
from .partition import Segment

Chooser = Callable[[Sequence[Layer]], Mapping[Layer, Configuration]]


@dataclass(frozen=True, slots=True)
class _Place:
    """Shape, strides and type of an operand or a result."""

    shape: Shape
    strides: Shape
    dtype: torch.dtype


class NetworkModule(nn.Module):
    """One program; `forward` takes the segment's operands and returns a tuple of its results.

    Not for several threads at once: the program has one block of memory.
    """

    def __init__(self, segment: Segment, binder: KernelBinder, choose: Chooser) -> None:
        super().__init__()
        network = lower(segment.graph)
        self._operands = [_Place(one.shape, one.strides, torch.int64 if one.indices else torch.float32)
                          for one in network.inputs]
        self._results = [_Place(tuple(node.meta["val"].shape), tuple(node.meta["val"].stride()), torch.float32)
                         for node in segment.results]
        rewriting = Rewriting(network.nodes, network.results)
        rewriting.rewrite()
        layers = [node for node in rewriting.nodes if isinstance(node, Layer)]
        assembly = Assembly(rewriting.nodes, rewriting.results, [result.strides for result in self._results],
                            choose(layers), binder)
        self.layers = layers
        self.steps = [job.name for job in assembly.jobs]
        self._program = assembly.program()

    def forward(self, *operands: Tensor) -> tuple[Tensor, ...]:
        """Run the program."""
        given = [_laid_out(x, place) for x, place in zip(operands, self._operands, strict=True)]
        results = [torch.empty_strided(place.shape, place.strides, dtype=place.dtype) for place in self._results]
        self._program.run([x.data_ptr() for x in given], [y.data_ptr() for y in results])
        return tuple(results)


def _laid_out(x: Tensor, place: _Place) -> Tensor:
    if x.stride() == place.strides:
        return x
    return torch.empty_strided(place.shape, place.strides, dtype=place.dtype).copy_(x)
