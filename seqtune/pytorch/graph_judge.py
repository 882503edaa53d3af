"""GraphJudge: decides by measuring which of several forms of a graph computes it.

Our programs are compared with what PyTorch makes of the whole graph, so that fusions which the programs break count,
too. All forms take turns; another form wins on clear evidence only, in two looks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from seqtune.predictor.say import Say
from seqtune.tuner.load import LoadMeter
from seqtune.tuner.measuring.comparison import Rule, faster_than, typical
from seqtune.tuner.measuring.timed_calls import time_calls

from ..errors import FormatError, UnavailableError
from .choice_memory import ChoiceMemory
from .device_threads import TURN
from .peer_graph import COMPARED, EAGER, INDUCTOR, PeerGraph, eager_graph, inductor_graph
from .precisions import TOLERANCES
from .saved_choices import Choice
from .selection import difference

RULE = Rule(margin=0.02)  # smaller leads are within the noise of a network's time
LOOKS = 2  # that must agree
OURS = ""  # the name of our form beside those of the others


@dataclass(frozen=True, slots=True)
class GraphVerdict:
    """The typical seconds of one graph: of our form, and of the fastest other one."""

    peer: str  # "inductor" or "eager"
    seconds: float
    peer_seconds: float
    peer_wins: bool
    note: str = ""  # the reason why Inductor's form is missing

    @classmethod
    def of_json(cls, value: Any) -> GraphVerdict | None:
        """The verdict that `asdict` wrote, or None for anything else."""
        with suppress(TypeError, ValueError, KeyError):
            peer, note = str(value["peer"]), str(value["note"])[:300]
            if peer in COMPARED:
                return cls(peer, float(value["seconds"]), float(value["peer_seconds"]), value["peer_wins"] is True,
                           note)
        return None

    def __str__(self) -> str:
        whose = "Inductor's code" if self.peer == INDUCTOR else "PyTorch's own operations"
        note = f"; {self.note}" if self.note else ""
        return f"{self.peer_seconds * 1e3:.3f} ms with {whose}, {self.seconds * 1e3:.3f} ms with our programs{note}"


@dataclass(frozen=True, slots=True)
class GraphJudge:
    """Compares forms of graphs. Verdicts are remembered in `memory`, but not those that were reached under heavy load.

    `compare` is "inductor", or "eager" to save the time of Inductor's compilation. `settled` is the verdict on the same
    graph with operands of other shapes, or a saved one, if there is one: nothing is measured then.
    """

    compare: str
    memory: ChoiceMemory | None
    progress: Say
    tolerance: float = TOLERANCES["fp32"]  # largest allowed difference of another form's results
    settled: GraphVerdict | None = None

    def splits(self, digest: str, ours: nn.Module, split: nn.Module, examples: Sequence[Any]) -> bool:
        """Whether the graph is faster if PyTorch computes some of its layers; `split` is that form."""
        def measured() -> GraphVerdict:
            self.progress("comparing the network with one in which PyTorch computes its faster layers")
            return _look({EAGER: split}, ours, examples)

        return self.settled is None and self._remembered(f"layers of {digest}", measured).peer_wins

    def verdict(self, digest: str, module: fx.GraphModule, ours: nn.Module,
                examples: Sequence[Any]) -> tuple[GraphVerdict, PeerGraph | None]:
        """The verdict on our form beside PyTorch's, and PyTorch's form if it wins.

        A form that won earlier and cannot be made now does not win: ours computes the graph, and the note says why.
        """
        forms: dict[str, PeerGraph] = {}

        def measured() -> GraphVerdict:
            note = self._make(forms, module, examples)
            self.progress(f"comparing the network with {' and '.join(forms)}")
            expected = _results(ours, examples)
            equal = {name: form for name, form in forms.items()
                     if name == EAGER or difference(expected, _results(form, examples)) < self.tolerance}
            return replace(_look(equal, ours, examples), note=note)

        verdict = self.settled or self._remembered(f"{self.compare} {digest}", measured)
        if not verdict.peer_wins:
            return verdict, None
        note = "" if verdict.peer in forms else self._make(forms, module, examples)
        if verdict.peer not in forms:
            return replace(verdict, peer_wins=False, note=note), None
        return verdict, forms[verdict.peer]

    def _make(self, forms: dict[str, PeerGraph], module: fx.GraphModule, examples: Sequence[Any]) -> str:
        """Make PyTorch's forms of the graph; returns the reason why Inductor's is missing."""
        forms[EAGER] = eager_graph(module)
        if self.compare == INDUCTOR:
            self.progress("Inductor compiles the network, to be compared with")
            try:
                forms[INDUCTOR] = inductor_graph(module, _clones(examples))
            except UnavailableError as reason:
                self.progress(f"the network is compared with PyTorch's own operations alone: {reason}")
                return str(reason)
        return ""

    def _remembered(self, name: str, measure: Callable[[], GraphVerdict]) -> GraphVerdict:
        known = GraphVerdict.of_json(self.memory.find_answer(name)) if self.memory is not None else None
        if known is not None:
            return known
        meter = LoadMeter()
        verdict = measure()
        if self.memory is not None and not meter.load().heavy:
            self.memory.keep_answer(name, asdict(verdict))
        return verdict


def _look(forms: Mapping[str, nn.Module], ours: nn.Module, examples: Sequence[Any]) -> GraphVerdict:
    """Measure all forms together, again if another one seems faster."""
    with TURN, torch.no_grad():
        for _ in range(LOOKS):
            operands = _clones(examples)  # a graph may change its operands
            taken = time_calls({name: partial(form, *operands) for name, form in {**forms, OURS: ours}.items()})
            faster = faster_than(OURS, taken, RULE)
            if not faster:
                break
    seconds = typical(taken)
    peer = faster[0] if faster else min(forms, key=seconds.__getitem__)
    return GraphVerdict(peer, seconds[OURS], seconds[peer], bool(faster))


def graph_digest(module: fx.GraphModule, choices: Sequence[Choice]) -> str:
    """A digest of a graph's operations, of the shapes of its operands and constants, and of the layers' choices."""
    parts = []
    for node in module.graph.nodes:
        value = attrgetter(str(node.target))(module) if node.op == "get_attr" else node.meta.get("val")
        form = (value.shape, value.stride(), value.dtype) if isinstance(value, Tensor) else ""
        parts.append(f"{node.name} {node.op} {node.target} {node.args} {node.kwargs} {form}")
    parts += [f"{choice.problem.key} {choice.configuration and choice.configuration.key}" for choice in choices]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _clones(examples: Sequence[Any]) -> list[Any]:
    return [example.clone() if isinstance(example, Tensor) else example for example in examples]


def _results(form: nn.Module, examples: Sequence[Any]) -> list[Tensor]:
    with TURN, torch.no_grad():
        return [leaf.clone() for leaf in pytree.tree_leaves(form(*_clones(examples))) if isinstance(leaf, Tensor)]


def next_judge(saved: list[Any], progress: Say, tolerance: float) -> GraphJudge | None:
    """Take the next saved verdict from the list, and return the judge that repeats it; None where there is none.

    Raises FormatError if it is no verdict.
    """
    entry = saved.pop(0) if saved else None
    if entry is None:
        return None
    verdict = GraphVerdict.of_json(entry)
    if verdict is None:
        raise FormatError(f"{str(entry)!r:.60} is not a saved choice of an optimised model: no verdict on a network")
    return GraphJudge(verdict.peer, None, progress, tolerance, verdict)
