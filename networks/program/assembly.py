"""Assembly: turns the nodes of a network into a program: jobs in order, and a place in memory for every value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import encode
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.llvm.text.formula import IDENTITY

from ..nodes import Floats, Input, Layer, Node, Tuned
from ..plan.layouts import Layouts, can_write
from ..plan.memory import Buffer, plan
from ..steps.pointwise import pointwise
from ..steps.step_source import StepSource
from ..steps.view import View
from .bound_kernels import BoundKernel, KernelBinder
from .program import Program, Slot


@dataclass(frozen=True, slots=True)
class Located:
    """A value in memory."""

    buffer: Buffer
    view: View


def placed(view: View, kind: str = "inner", number: int = 0) -> Located:
    """A value in a new buffer, which the view fills."""
    return Located(Buffer(view.element.bytes * view.extent, kind, number), view)


@dataclass(frozen=True, slots=True)
class Use:
    """An address that a job needs: a word of its job (`word`), or else of its launch arguments (`argument`)."""

    located: Located
    word: int | None = None
    argument: int | None = None
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A bound kernel and the addresses that it needs; `node` is what it computes, None for a copy."""

    kernel: BoundKernel
    uses: tuple[Use, ...]
    node: Node | None

    @property
    def name(self) -> str:
        """PyTorch's operation, or "copy"."""
        return "copy" if self.node is None else self.node.name


class Assembly:
    """The jobs of a network. `places` are shape, strides and element that each result has in PyTorch."""

    def __init__(self, nodes: Sequence[Node], results: Sequence[Node], places: Sequence[View],
                 configurations: Mapping[Tuned, Configuration], binder: KernelBinder) -> None:
        self.binder = binder
        self.lanes = min(16, binder.device.vector_floats)
        self.configurations = configurations
        self.jobs: list[Job] = []
        self.flag = np.zeros(1, np.int64)  # 1 after a run that met an index outside its table
        self.located: dict[Node, Located] = {}
        self._wholes: dict[Node, Located] = {}
        self._constants: dict[Buffer, NDArray[Any]] = {}
        self.layouts = Layouts(nodes, results)
        layers = {node: (id(node.unscaled), id(node.factors), node.problem, configurations[node])
                  for node in nodes if isinstance(node, Layer)}
        distinct = {key: layer for layer, key in layers.items()}  # bands of one layer are packed once
        packed = dict(zip(distinct, binder.pack_all([
            (layer.problem, configurations[layer], partial(_weights, layer)) for layer in distinct.values()]),
            strict=True))
        self.packed = {layer: packed[key] for layer, key in layers.items()}
        self._operands = [node for node in nodes if isinstance(node, Input)]
        self._results = self._result_places(results, places)

    def program(self) -> Program:
        """Plan the memory and write all addresses that never change."""
        used = [use.located.buffer for job in self.jobs for use in job.uses]
        for number, job in enumerate(self.jobs):
            for use in job.uses:
                use.located.buffer.used_by(number)
        inner = [buffer for buffer in dict.fromkeys(used) if buffer.kind == "inner"]
        block = self.binder.blocks.take(plan(inner) // 4)
        constants = {buffer: self._constants[buffer] for buffer in dict.fromkeys(used) if buffer.kind == "constant"}
        outer: dict[tuple[str, int], list[Slot]] = {}
        for job in self.jobs:
            for use in job.uses:
                buffer, view = use.located.buffer, use.located.view
                array, index = (job.kernel.job, use.word) if use.word is not None else \
                    (job.kernel.arguments, use.argument)
                assert index is not None
                slot = Slot(array, index, view.element.bytes * view.offset)
                constant = constants.get(buffer)
                if buffer.kind == "inner":
                    slot.write(int(block.ctypes.data) + buffer.begin)
                elif constant is not None:
                    slot.write(int(constant.ctypes.data))
                else:
                    outer.setdefault((buffer.kind, buffer.number), []).append(slot)
        operands, results = ([outer.get((kind, number), []) for number in range(count)] for kind, count in (
            ("operand", len(self._operands)), ("result", len(self._results))))
        return Program(self.binder.threads, [job.kernel for job in self.jobs], operands, results,
                       [block, self.flag, *constants.values()])

    def constant(self, view: View, floats: Floats) -> Located:
        """A place that holds these numbers at the beginning of every run; a job that writes there must restore them."""
        place = placed(view, "constant")
        self._constants[place.buffer] = encode(floats, view.element.dtype)
        return place

    def finish(self, results: Sequence[Node]) -> None:
        """Copy the results that lie elsewhere to their places."""
        for node, place in zip(results, self._results, strict=True):
            x = self.located[node]
            for axis, size in enumerate(node.shape):
                if size != place.view.shape[axis]:
                    x = Located(x.buffer, x.view.sliced(axis, 0, 1))
            if x.buffer is not place.buffer:
                self.copy(x, place)

    def destination(self, node: Node) -> Located:
        """The place for a value that is about to be computed."""
        if node not in self._wholes:
            part = self.layouts.parts.get(node)
            if part is not None:
                whole = self.destination(part.whole)
                view = whole.view.sliced(part.axis, part.begin, part.begin + node.shape[part.axis])
                self._wholes[node] = Located(whole.buffer, view)
            else:
                view = self.layouts.own(node)
                self._wholes[node] = placed(view)
        return self._wholes[node]

    def fresh(self, view: View) -> Located:
        """A place of this layout for a copy."""
        return placed(view)

    def step(self, node: Node | None, source: StepSource, y: Located, *operands: Located) -> None:
        """Append a generated step, which writes y and reads the operands."""
        uses = (Use(located, argument=index, writes=not index) for index, located in enumerate((y, *operands)))
        self.jobs.append(Job(self.binder.bind_source(source.source, source.launch), tuple(uses), node))

    def copy(self, x: Located, y: Located) -> None:
        """Append a copy of a value to another place."""
        self.step(None, pointwise(IDENTITY, y.view, [x.view], self.lanes), y, x)

    def laid_out(self, x: Located, fits: Callable[[View], bool], view: View) -> Located:
        """The value itself where its layout fits and its element is that of `view`, else a copy in that layout."""
        if x.view.element.dtype == view.element.dtype and fits(x.view):
            return x
        y = self.fresh(view)
        self.copy(x, y)
        return y

    def _result_places(self, results: Sequence[Node], views: Sequence[View]) -> list[Located]:
        places = []
        for number, (node, given) in enumerate(zip(results, views, strict=True)):
            shape = tuple(1 if stride == 0 else size for size, stride in zip(node.shape, given.strides, strict=True))
            view = replace(given, shape=shape)  # an axis whose elements are one in memory is written once
            place = placed(view, "result", number)
            is_free = node not in self._wholes and node not in self.layouts.parts
            if shape == node.shape and is_free and view.element == node.element and self._can_write(node, view):
                self._wholes[node] = place
            places.append(place)
        return places

    def _can_write(self, node: Node, view: View) -> bool:
        """Whether a node, and the parts that are written in place, can write their results in this layout."""
        return can_write(node, view) and all(
            self._can_write(read, view.sliced(part.axis, part.begin, part.begin + read.shape[part.axis]))
            for read in node.inputs if (part := self.layouts.parts.get(read)) is not None and part.whole is node)


def _weights(layer: Layer) -> Floats:
    return layer.weights
