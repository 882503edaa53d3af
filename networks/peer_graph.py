"""PeerGraph: a graph as PyTorch alone computes it: by Inductor's code, or by its own operations one by one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from seqtune.errors import MisuseError, UnavailableError, one_line, shown
from seqtune.kernels.say import Say
from seqtune.tuner.measuring.deadline import Deadline

from .capture.examples import clones

INDUCTOR, EAGER = "inductor", "eager"  # the names of the forms
COMPARED = (INDUCTOR, EAGER)
INDUCTOR_START, INDUCTOR_OPERATION = 8.0, 0.17  # seconds, and seconds for each operation: 60 took 17 s, 430 took 86 s
SHARE_SECONDS = 0.2  # many time slices of a busy machine
LEAST_PROCESSOR = 0.01  # share; the estimate divides by it


def check_compared(name: object) -> None:
    """Raise MisuseError if `name` is no form to compare with."""
    if name not in COMPARED:
        raise MisuseError(f"compare={shown(name)} is not one of {', '.join(COMPARED)}")


class PeerGraph(nn.Module):
    """A form of a graph, called like the graph. `name` is "inductor" or "eager"."""

    def __init__(self, name: str, run: Any) -> None:
        super().__init__()
        self.name = name
        self._run = run

    def forward(self, *operands: Any) -> Any:
        """The graph's results, in a tuple or list."""
        return self._run(*operands)


def inductor_graph(module: fx.GraphModule, examples: Sequence[Tensor]) -> PeerGraph:
    """The graph compiled by Inductor with its weights as constants, which lets it pack them; takes 10 s and more.

    Raises UnavailableError with the reason if Inductor cannot compile it, such as a missing C++ compiler.
    """
    copied = fx.GraphModule(module, module.graph)  # Inductor changes what it compiles
    try:
        compiled = torch.compile(copied, backend="inductor", dynamic=False, options={"freezing": True})
        with torch.no_grad():
            compiled(*examples)
    except Exception as error:  # many kinds: a missing compiler, an operation that Inductor cannot lower
        cause = getattr(error, "inner_exception", None) or error
        raise UnavailableError(f"Inductor cannot compile the graph: {one_line(cause, 150)}") from None
    return PeerGraph(INDUCTOR, compiled)


def inductor_seconds(module: fx.GraphModule, share: float) -> float:
    """The seconds that Inductor will take to compile a graph, within a factor of 2, with that share of a processor."""
    operations = sum(node.op == "call_function" for node in module.graph.nodes)
    return (INDUCTOR_START + INDUCTOR_OPERATION * int(operations)) / share


def processor_share(clock: Callable[[], float] = time.perf_counter,
                    worked: Callable[[], float] = time.thread_time) -> float:
    """The share of a processor that this thread gets, measured for SHARE_SECONDS: less than 1 on a busy machine.

    `clock` and `worked` return seconds: the time that passes, and the time in which the thread computes.
    """
    began, before = clock(), worked()
    while (elapsed := clock() - began) < SHARE_SECONDS:
        pass
    return min(1.0, max(LEAST_PROCESSOR, (worked() - before) / elapsed))


Inductor = Callable[[fx.GraphModule, Sequence[Any]], PeerGraph]


class PeerForms:
    """PyTorch's forms of one graph: its own operations, and Inductor's code. `make` makes them when they are needed.

    `note` is the reason why Inductor's form is missing.
    """

    def __init__(self, compare: str, module: fx.GraphModule, examples: Sequence[Any], progress: Say,
                 deadline: Deadline, inductor: Inductor = inductor_graph,
                 share: Callable[[], float] = processor_share) -> None:
        """Inductor compiles only if it takes at most half of the seconds left before the deadline.

        `share` measures the share of a processor that the compilation will get.
        """
        self._inductor, self._share = inductor, share
        self.compare = compare
        self.examples = examples
        self.note = ""
        self._module, self._progress, self._deadline = module, progress, deadline
        self._forms: dict[str, PeerGraph] = {}

    def make(self) -> dict[str, PeerGraph]:
        """Make the forms once, and return them by name."""
        if not self._forms:
            self._forms[EAGER] = PeerGraph(EAGER, self._module)  # PyTorch's own operations
            if self.compare == INDUCTOR:
                self._add_inductor()
        return self._forms

    def _add_inductor(self) -> None:
        left = self._deadline.left
        try:
            if left < math.inf and (seconds := inductor_seconds(self._module, self._share())) > left / 2:
                raise UnavailableError(f"Inductor would take about {seconds:.0f} s to compile the network, more than "
                                       f"half of the {left:.0f} s that the budget has left")
            self._progress("Inductor compiles the network, to be compared with")
            self._forms[INDUCTOR] = self._inductor(self._module, clones(self.examples))
        except UnavailableError as reason:
            self._progress(f"the network is compared with PyTorch's own operations alone: {reason}")
            self.note = str(reason)
