"""Chain: consecutive steps of a graph, run by one call on memory of their own.

A chain does not return to Python between its steps. Intermediate results lie in few blocks of memory, which are reused
as soon as no later step reads them, so that they stay in the caches. Results that are read outside the chain get new
memory at every call.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from seqtune.tuner.backends.llvm.bound_kernels import OTHER, KernelBinder, X, Y, aligned

from .modules import Step

Slot = tuple[int, int]  # (number of a step, operand slot in its job)


class Chain(nn.Module):
    """Steps that run in order.

    `operands` of a step are numbers of earlier steps, or of the chain's own operands (-1 is the first). `results` are
    the numbers of the steps whose results are read outside.
    """

    def __init__(self, binder: KernelBinder, steps: Sequence[Step], operands: Sequence[Sequence[int]],
                 results: Sequence[int]) -> None:
        super().__init__()
        self._threads = binder.threads
        self._kernels = [step.kernel for step in steps]  # they keep code and weights alive
        self._jobs = np.array([kernel.address for kernel in self._kernels], np.int64)
        self._result_steps = [steps[number] for number in results]
        self._blocks = _Blocks()
        # (operand of the chain, format) -> a step that can convert the operand, and the slots that read it
        self._ready: dict[tuple[int, torch.memory_format], tuple[Step, list[Slot]]] = {}
        self._new: list[list[Slot]] = [[] for _ in results]
        last_read = {number: reader for reader, numbers in enumerate(operands) for number in numbers if number >= 0}
        block_of: dict[int, int] = {}
        for number, (step, reads) in enumerate(zip(steps, operands, strict=True)):
            if number in results:
                self._new[results.index(number)].append((number, Y))
            elif step.over and reads[0] in block_of:
                block_of[number] = block_of.pop(reads[0])
            else:
                block_of[number] = self._blocks.take(math.prod(step.shape))
            for slot, read in zip((X, OTHER), reads, strict=False):
                if read < 0:
                    self._ready.setdefault((-1 - read, step.form), (step, []))[1].append((number, slot))
                elif read in results:
                    self._new[results.index(read)].append((number, slot))
                else:
                    block = block_of[read if read in block_of else number]
                    self._kernels[number].job[slot] = self._blocks.address(block)
            if number in block_of:
                self._kernels[number].job[Y] = self._blocks.address(block_of[number])
            for read in set(reads):
                if read in block_of and last_read[read] == number:
                    self._blocks.give(block_of.pop(read))

    def forward(self, *operands: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The results; a single one is returned as a tensor, not a tuple."""
        kernels = self._kernels
        ready = []  # keeps converted operands alive until the end
        for (number, _), (step, slots) in self._ready.items():
            x = step.ready(operands[number])
            ready.append(x)
            for reader, slot in slots:
                kernels[reader].job[slot] = x.data_ptr()
        results = [step.new() for step in self._result_steps]
        for y, slots in zip(results, self._new, strict=True):
            for user, slot in slots:
                kernels[user].job[slot] = y.data_ptr()
        self._threads.run_all(self._jobs)
        return results[0] if len(results) == 1 else tuple(results)


class _Blocks:
    """Blocks of memory of a chain. A returned block is reused, the smallest that is large enough first."""

    def __init__(self) -> None:
        self._blocks: list[NDArray[np.float32]] = []
        self._free: list[int] = []

    def take(self, floats: int) -> int:
        fits = [number for number in self._free if self._blocks[number].size >= floats]
        if fits:
            best = min(fits, key=lambda number: self._blocks[number].size)
            self._free.remove(best)
            return best
        self._blocks.append(aligned((floats,)))
        return len(self._blocks) - 1

    def give(self, number: int) -> None:
        self._free.append(number)

    def address(self, number: int) -> int:
        return int(self._blocks[number].ctypes.data)


def link(module: GraphModule, binder: KernelBinder) -> None:
    """Replace all runs of consecutive steps of a graph that share a memory format by chains."""
    for number, nodes in enumerate(list(_runs(module))):
        if len(nodes) > 1:
            _chain(module, binder, nodes, f"seqtune_chain_{number}")


def _runs(module: GraphModule) -> Iterator[list[Node]]:
    nodes: list[Node] = []
    forms: dict[Node, torch.memory_format] = {}
    for node in module.graph.nodes:
        step = module.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(step, Step):
            forms[node] = step.form
            if any(read in nodes and forms[read] != step.form for read in node.all_input_nodes):  # needs a conversion
                yield nodes
                nodes = []
            nodes.append(node)
        elif node.op not in ("get_attr", "placeholder"):  # these compute nothing
            yield nodes
            nodes = []
    yield nodes


def _chain(module: GraphModule, binder: KernelBinder, nodes: Sequence[Node], name: str) -> None:
    numbers = {node: number for number, node in enumerate(nodes)}
    outside = list(dict.fromkeys(read for node in nodes for read in node.all_input_nodes if read not in numbers))
    numbers |= {node: -1 - number for number, node in enumerate(outside)}
    results = [number for number, node in enumerate(nodes) if any(user not in numbers for user in node.users)]
    steps = [module.get_submodule(str(node.target)) for node in nodes]
    chain = Chain(binder, [step for step in steps if isinstance(step, Step)],
                  [[numbers[read] for read in node.args if isinstance(read, Node)] for node in nodes], results)
    module.add_submodule(name, chain)
    with module.graph.inserting_after(nodes[-1]):
        call = module.graph.call_module(name, tuple(outside))
    for index, number in enumerate(results):
        node = call
        if len(results) > 1:
            with module.graph.inserting_after(call):
                node = module.graph.call_function(operator.getitem, (call, index))
        nodes[number].replace_all_uses_with(node, delete_user_cb=lambda user: user not in numbers)
    for node in reversed(nodes):
        module.graph.erase_node(node)
