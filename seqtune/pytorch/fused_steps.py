"""Chains: steps of a graph that follow each other, run in one go on memory of their own.

Between the steps of a chain nothing returns to Python, and their results lie in few blocks of memory, used again as
soon as nothing will read them: what fits the caches stays there. Results that are read elsewhere get new memory at
every call.
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

from seqtune.tuner.backends.llvm.calls import OTHER, Caller, X, Y, aligned

from .modules import Step

Place = tuple[int, int]  # of a job among the chain's, and in that job


class Chain(nn.Module):
    """Steps in order. `operands` of each: numbers of earlier steps, or of the chain's own operands (-1 is the first).

    `results` are the numbers of the steps that are read outside.
    """

    def __init__(self, caller: Caller, steps: Sequence[Step], operands: Sequence[Sequence[int]],
                 results: Sequence[int]) -> None:
        super().__init__()
        self._team = caller.team
        self._calls = [step.call for step in steps]  # their code and weights live on in them
        self._jobs = np.array([call.address for call in self._calls], np.int64)
        self._made = [steps[number] for number in results]
        self._blocks = _Blocks()
        # operand of the chain and its format -> a step that knows how to make it ready, and who reads it
        self._ready: dict[tuple[int, torch.memory_format], tuple[Step, list[Place]]] = {}
        self._new: list[list[Place]] = [[] for _ in results]
        last_read = {number: place for place, numbers in enumerate(operands) for number in numbers if number >= 0}
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
                    self._calls[number].job[slot] = self._blocks.address(block_of[read if read in block_of else number])
            if number in block_of:
                self._calls[number].job[Y] = self._blocks.address(block_of[number])
            for read in set(reads):
                if read in block_of and last_read[read] == number:
                    self._blocks.give(block_of.pop(read))

    def forward(self, *operands: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The results; one alone as itself."""
        calls = self._calls
        ready = []  # alive until the end
        for (number, _), (step, places) in self._ready.items():
            x = step.ready(operands[number])
            ready.append(x)
            for place, slot in places:
                calls[place].job[slot] = x.data_ptr()
        made = [step.new() for step in self._made]
        for y, places in zip(made, self._new, strict=True):
            for place, slot in places:
                calls[place].job[slot] = y.data_ptr()
        self._team.run_all(self._jobs)
        return made[0] if len(made) == 1 else tuple(made)


class _Blocks:
    """Memory of a chain; what is given back is taken again, the smallest that is large enough."""

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


def link(module: GraphModule, caller: Caller) -> None:
    """Put chains in the place of all steps that follow each other in a graph, in one memory format."""
    for number, nodes in enumerate(list(_runs(module))):
        if len(nodes) > 1:
            _chain(module, caller, nodes, f"seqtune_chain_{number}")


def _runs(module: GraphModule) -> Iterator[list[Node]]:
    nodes: list[Node] = []
    forms: dict[Node, torch.memory_format] = {}
    for node in module.graph.nodes:
        step = module.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(step, Step):
            forms[node] = step.form
            if any(one in nodes and forms[one] != step.form for one in node.all_input_nodes):  # a conversion between
                yield nodes
                nodes = []
            nodes.append(node)
        elif node.op not in ("get_attr", "placeholder"):  # those do nothing
            yield nodes
            nodes = []
    yield nodes


def _chain(module: GraphModule, caller: Caller, nodes: Sequence[Node], name: str) -> None:
    numbers = {node: number for number, node in enumerate(nodes)}
    outside = list(dict.fromkeys(node for one in nodes for node in one.all_input_nodes if node not in numbers))
    numbers |= {node: -1 - number for number, node in enumerate(outside)}
    results = [number for number, node in enumerate(nodes) if any(user not in numbers for user in node.users)]
    steps = [module.get_submodule(str(node.target)) for node in nodes]
    chain = Chain(caller, [step for step in steps if isinstance(step, Step)],
                  [[numbers[node] for node in one.args if isinstance(node, Node)] for one in nodes], results)
    module.add_submodule(name, chain)
    with module.graph.inserting_after(nodes[-1]):
        made = module.graph.call_module(name, tuple(outside))
    for place, number in enumerate(results):
        node = made
        if len(results) > 1:
            with module.graph.inserting_after(made):
                node = module.graph.call_function(operator.getitem, (made, place))
        nodes[number].replace_all_uses_with(node, delete_user_cb=lambda user: user not in numbers)
    for node in reversed(nodes):
        module.graph.erase_node(node)
