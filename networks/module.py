"""NetworkModule: a segment of a model as one program, called like a module of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.llvm.text.elements import Element

from .lowering.partition import Segment
from .lowering.table import lower
from .node_list import NodeList
from .nodes import Shape, Tuned
from .passes.rewriting import rewrite
from .plan.bands import compute_in_bands
from .plan.precision import DTYPES, NAMES, give_elements
from .program.bound_kernels import KernelBinder
from .program.table import assemble
from .steps.view import View

MOST_FORMATS = 64  # memory formats of one model's operands; the oldest is forgotten
ROUNDS = 20  # samples of a job; the least counts


class SegmentNetwork:
    """The network of a segment after all rewriting, with the forms of its operands and results."""

    def __init__(self, segment: Segment, device: Device, precision: str = "fp32") -> None:
        network = lower(segment.graph)
        self.segment = segment
        self.operands = [TensorForm(operand.shape, operand.strides,
                               torch.int64 if operand.indices else DTYPES[operand.element.dtype])
                         for operand in network.inputs]
        self.results = [TensorForm(tuple(node.meta["val"].shape), tuple(node.meta["val"].stride()),
                              node.meta["val"].dtype)
                        for node in segment.results]
        nodes = NodeList(network.nodes, network.results)
        rewrite(nodes)
        give_elements(nodes, [NAMES[form.dtype] for form in self.results], precision, device)
        compute_in_bands(nodes, device)
        self.nodes, self.values = nodes.nodes, nodes.results
        self.tuned = [node for node in self.nodes if isinstance(node, Tuned)]


@dataclass(frozen=True, slots=True)
class TensorForm:
    """Shape, strides and type of an operand or a result."""

    shape: Shape
    strides: Shape
    dtype: torch.dtype


class NetworkModule(nn.Module):
    """One program; `forward` takes the segment's operands and returns a tuple of its results.

    Not for several threads at once: the program has one block of memory.
    """

    def __init__(self, network: SegmentNetwork, binder: KernelBinder,
                 configurations: Mapping[Tuned, Configuration]) -> None:
        super().__init__()
        self._operands, self._results = network.operands, network.results
        views = [View(form.shape, form.strides, 0, Element.of(NAMES[form.dtype], binder.device))
                  for form in network.results]
        assembly = assemble(network.nodes, network.values, views, configurations, binder)
        self.jobs = assembly.jobs
        self.configurations = dict(configurations)
        self._flag = assembly.flag
        self.program = assembly.program(len(self._operands))

    @property
    def steps(self) -> list[str]:
        """PyTorch's operations that the jobs compute, in order."""
        return [job.name for job in self.jobs]

    def forward(self, *operands: Tensor) -> tuple[Tensor, ...]:
        """Run the program. Raises IndexError, as PyTorch does, for an index outside a table.

        Raises MisuseError for tensors without memory: those of FakeTensorMode.
        """
        given = [_laid_out(x, form) for x, form in zip(operands, self._operands, strict=True)]
        results = [torch.empty_strided(form.shape, form.strides, dtype=form.dtype) for form in self._results]
        addresses = [[tensor.data_ptr() for tensor in tensors] for tensors in (given, results)]
        if not all(map(all, addresses)):
            raise MisuseError("an optimised model computes with tensors in memory; fake tensors have none")
        self.program.run(*addresses)
        if self._flag[0]:
            self._flag[0] = 0
            raise IndexError("index out of range in self")
        return tuple(results)

    def measure(self, *operands: Tensor) -> list[float]:
        """The least seconds of each job alone, of ROUNDS samples, with these operands."""
        results = self.forward(*operands)  # the program uses their memory until the next call
        least = [math.inf] * len(self.jobs)
        for _ in range(ROUNDS):
            for number in range(len(self.jobs)):
                least[number] = min(least[number], self.program.time(number))
        del results
        return least


class ResultStrides:
    """Remembers the strides that a model gives its results, by the strides of its operands.

    A graph is exported for operands in one memory format, such as channels_last, and returns results in one format.
    Operands are refused where the graph does not compute them as the model does.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Shape, ...], list[Shape | None]] = {}
        self._refused: dict[tuple[Shape, ...], None] = {}  # in the order in which they were refused

    def learn(self, operands: tuple[Shape, ...], results: Sequence[object]) -> None:
        """Remember the strides of the results, which the model itself has computed."""
        _forget_oldest(self._known)
        self._known[operands] = [x.stride() if isinstance(x, Tensor) and 0 not in x.stride() else None
                                 for x in results]

    def refuse(self, operands: tuple[Shape, ...]) -> None:
        """Remember that the graph does not compute operands of these strides."""
        _forget_oldest(self._refused)
        self._refused[operands] = None

    def are_refused(self, operands: tuple[Shape, ...]) -> bool:
        """Whether operands of these strides were refused."""
        return operands in self._refused

    def find(self, operands: tuple[Shape, ...]) -> list[Shape | None] | None:
        """The strides of each result (None: any), or None for operands of unknown strides."""
        return self._known.get(operands)


def _forget_oldest(formats: dict[tuple[Shape, ...], Any]) -> None:
    """Delete the oldest entry of a full dictionary."""
    if len(formats) >= MOST_FORMATS:
        del formats[next(iter(formats))]


def with_strides(results: Sequence[Any], strides: Sequence[Shape | None]) -> list[Any]:
    """The results, copied where their strides differ from these (None: any)."""
    return [x if wanted is None or x.stride() == wanted else
            torch.empty_strided(x.shape, wanted, dtype=x.dtype).copy_(x)
            for x, wanted in zip(results, strides, strict=True)]


def _laid_out(x: Tensor, form: TensorForm) -> Tensor:
    if x.stride() == form.strides and not x.is_neg() and not x._is_zerotensor():  # PyTorch changes signs lazily
        return x
    return torch.empty_strided(form.shape, form.strides, dtype=form.dtype).copy_(x)
