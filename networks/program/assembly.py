"""Assembly: turns the nodes of a network into a program: jobs in order, and memory for every value.

Intermediate results lie in one block of memory. Only the addresses of operands and results change from call to call:
the program writes them where the kernels read them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import encode
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.llvm.text.formula import IDENTITY

from ..nodes import Floats, Layer, Node, Tuned
from ..plan.layouts import Layouts, can_write
from ..plan.memory import Buffer, plan
from ..steps.pointwise import pointwise
from ..steps.step_source import StepSource
from ..steps.view import View
from .bound_kernels import BoundKernel, KernelBinder, ThreadPool


@dataclass(frozen=True, slots=True)
class Slot:
    """A word that holds an address: `array[index]` is the address of a buffer plus `offset` bytes."""

    array: NDArray[np.int64]
    index: int
    offset: int = 0

    def write(self, address: int) -> None:
        """Make the word point into the buffer at this address."""
        self.array[self.index] = address + self.offset


class Program:
    """Kernels that one call runs one after the other; `operands` and `results` are the slots of each outer buffer.

    `memory` is kept alive: constants and intermediate results, into which the kernels' other slots point.
    """

    def __init__(self, threads: ThreadPool, kernels: Sequence[BoundKernel], operands: Sequence[Sequence[Slot]],
                 results: Sequence[Sequence[Slot]], memory: Sequence[object]) -> None:
        self._threads = threads
        self._kernels = list(kernels)
        self.memory = list(memory)
        self._jobs = np.array([kernel.address for kernel in kernels], np.int64)
        self._slots = [list(slots) for slots in (*operands, *results)]

    def __len__(self) -> int:
        return len(self._kernels)

    def run(self, operands: Sequence[int], results: Sequence[int]) -> None:
        """Run all kernels; the numbers are the addresses of the outer buffers. One call at a time."""
        for address, slots in zip((*operands, *results), self._slots, strict=True):
            for slot in slots:
                slot.write(address)
        self._threads.run_all(self._jobs)

    def time(self, number: int) -> float:
        """Run one kernel with the addresses of the last call and return its seconds."""
        job = self._jobs[number:number + 1]
        begin = time.perf_counter()
        self._threads.run_all(job)
        return time.perf_counter() - begin


@dataclass(frozen=True, slots=True)
class BufferView:
    """A value in memory: a view of a buffer."""

    buffer: Buffer
    view: View


def new_buffer(view: View, kind: str = "inner", number: int = 0) -> BufferView:
    """A value in a new buffer of the view's size."""
    return BufferView(Buffer(view.element.bytes * view.extent, kind, number), view)


@dataclass(frozen=True, slots=True)
class Binding:
    """A value whose address a job needs, and where: index `word` of its job, or `argument` of its launch arguments."""

    value: BufferView
    word: int | None = None
    argument: int | None = None
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A bound kernel and the values whose addresses it needs. `node` is the node that it computes, None for a copy."""

    kernel: BoundKernel
    bindings: tuple[Binding, ...]
    node: Node | None

    @property
    def name(self) -> str:
        """PyTorch's operation, or "copy"."""
        return "copy" if self.node is None else self.node.name


class Assembly:
    """The jobs of a network. `result_views` are shape, strides and element that each result has in PyTorch."""

    def __init__(self, nodes: Sequence[Node], results: Sequence[Node], result_views: Sequence[View],
                 configurations: Mapping[Tuned, Configuration], binder: KernelBinder) -> None:
        self.binder = binder
        self.lanes = min(16, binder.device.vector_floats)
        self.configurations = configurations
        self.jobs: list[Job] = []
        self.flag = np.zeros(1, np.int64)  # 1 after a run that met an index outside its table
        self.values: dict[Node, BufferView] = {}
        self._destinations: dict[Node, BufferView] = {}
        self._constants: dict[Buffer, NDArray[Any]] = {}
        self.layouts = Layouts(nodes, results)
        layers = {node: (id(node.unscaled), id(node.factors), node.problem, configurations[node])
                  for node in nodes if isinstance(node, Layer)}
        distinct = {key: layer for layer, key in layers.items()}  # bands of one layer are packed once
        packed = dict(zip(distinct, binder.pack_all([
            (layer.problem, configurations[layer], partial(_weights, layer)) for layer in distinct.values()]),
            strict=True))
        self.packed = {layer: packed[key] for layer, key in layers.items()}
        self._results = self._result_values(results, result_views)

    def program(self, operands: int) -> Program:
        """Plan the memory and write all addresses that never change; `operands` is their number, read or not."""
        used = [binding.value.buffer for job in self.jobs for binding in job.bindings]
        for number, job in enumerate(self.jobs):
            for binding in job.bindings:
                binding.value.buffer.used_by(number)
        inner = [buffer for buffer in dict.fromkeys(used) if buffer.kind == "inner"]
        block = self.binder.blocks.take(plan(inner) // 4)
        constants = {buffer: self._constants[buffer] for buffer in dict.fromkeys(used) if buffer.kind == "constant"}
        outer: dict[tuple[str, int], list[Slot]] = {}
        for job in self.jobs:
            for binding in job.bindings:
                buffer, view = binding.value.buffer, binding.value.view
                array, index = (job.kernel.job, binding.word) if binding.word is not None else \
                    (job.kernel.arguments, binding.argument)
                assert index is not None
                slot = Slot(array, index, view.element.bytes * view.offset)
                constant = constants.get(buffer)
                if buffer.kind == "inner":
                    slot.write(int(block.ctypes.data) + buffer.begin)
                elif constant is not None:
                    slot.write(int(constant.ctypes.data))
                else:
                    outer.setdefault((buffer.kind, buffer.number), []).append(slot)
        read, written = ([outer.get((kind, number), []) for number in range(count)] for kind, count in (
            ("operand", operands), ("result", len(self._results))))
        return Program(self.binder.threads, [job.kernel for job in self.jobs], read, written,
                       [block, self.flag, *constants.values()])

    def constant(self, view: View, floats: Floats) -> BufferView:
        """Memory that holds these numbers at the beginning of every run; a job that writes there must restore them."""
        value = new_buffer(view, "constant")
        self._constants[value.buffer] = encode(floats, view.element.dtype)
        return value

    def finish(self, results: Sequence[Node]) -> None:
        """Copy the results that lie elsewhere to the memory of PyTorch's tensors."""
        for node, y in zip(results, self._results, strict=True):
            x = self.values[node]
            for axis, size in enumerate(node.shape):
                if size != y.view.shape[axis]:
                    x = BufferView(x.buffer, x.view.sliced(axis, 0, 1))
            if x.buffer is not y.buffer:
                self.copy(x, y)

    def destination(self, node: Node) -> BufferView:
        """The memory of a value that is about to be computed."""
        if node not in self._destinations:
            part = self.layouts.parts.get(node)
            if part is not None:
                whole = self.destination(part.whole)
                view = whole.view.sliced(part.axis, part.begin, part.begin + node.shape[part.axis])
                self._destinations[node] = BufferView(whole.buffer, view)
            else:
                view = self.layouts.own(node)
                self._destinations[node] = new_buffer(view)
        return self._destinations[node]

    def step(self, node: Node | None, source: StepSource, y: BufferView, *operands: BufferView) -> None:
        """Append a generated step, which writes y and reads the operands."""
        bindings = (Binding(value, argument=index, writes=not index) for index, value in enumerate((y, *operands)))
        self.jobs.append(Job(self.binder.bind_source(source.source, source.launch), tuple(bindings), node))

    def copy(self, x: BufferView, y: BufferView) -> None:
        """Append a copy of a value to other memory."""
        self.step(None, pointwise(IDENTITY, y.view, [x.view], self.lanes), y, x)

    def laid_out(self, x: BufferView, fits: Callable[[View], bool], view: View) -> BufferView:
        """The value itself where its layout fits and its element is that of `view`, else a copy in that layout."""
        if x.view.element.dtype == view.element.dtype and fits(x.view):
            return x
        y = new_buffer(view)
        self.copy(x, y)
        return y

    def _result_values(self, results: Sequence[Node], views: Sequence[View]) -> list[BufferView]:
        values = []
        for number, (node, given) in enumerate(zip(results, views, strict=True)):
            shape = tuple(1 if stride == 0 else size for size, stride in zip(node.shape, given.strides, strict=True))
            view = replace(given, shape=shape)  # along an axis of stride 0, one element is written for all
            value = new_buffer(view, "result", number)
            is_free = node not in self._destinations and node not in self.layouts.parts
            if shape == node.shape and is_free and view.element == node.element and self._can_write(node, view):
                self._destinations[node] = value
            values.append(value)
        return values

    def _can_write(self, node: Node, view: View) -> bool:
        """Whether a node, and the parts that are written in place, can write their results in this layout."""
        return can_write(node, view) and all(
            self._can_write(read, view.sliced(part.axis, part.begin, part.begin + read.shape[part.axis]))
            for read in node.inputs if (part := self.layouts.parts.get(read)) is not None and part.whole is node)


def _weights(layer: Layer) -> Floats:
    return layer.weights
