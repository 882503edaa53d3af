"""PeerComparison: decides by measuring which of several forms of a graph computes it.

Our programs are compared with what PyTorch makes of the whole graph, so that fusions which the programs break count,
too. All forms take turns; another form wins on clear evidence only, in two looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from seqtune.errors import FormatError
from seqtune.kernels.say import Say
from seqtune.tuner.backends.backend import wall_clock
from seqtune.tuner.load import LoadMeter
from seqtune.tuner.measuring.comparison import Rule, faster_than, typical
from seqtune.tuner.measuring.deadline import OVERRUN, Deadline, OutOfTime
from seqtune.tuner.measuring.timed_calls import ROUNDS, time_calls

from ..capture.examples import clones, difference
from ..plan.precision import TOLERANCES
from ..program.device_threads import TURN
from ..selection.memory import ChoiceMemory
from ..selection.reports import EAGER, GraphVerdict
from .budget import guarded, rounds_within
from .peer_graph import Inductor, PeerForms, PeerGraph, inductor_graph, processor_share

RULE = Rule(margin=0.02)  # smaller leads are within the noise of a network's time
LOOKS = 2  # measurements that must agree: without a second one, no other form wins
OURS = ""  # the name of our form
CALLS = 2  # runs of each form in a round: one warms up
FEWEST_ROUNDS = 8  # the least p-value of a signed-rank test is 2**-rounds; among two forms, RULE asks for 0.005
Timer = Callable[[Mapping[str, Callable[[], object]], int], Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class PeerComparison:
    """Compares forms of graphs. Verdicts are remembered in `memory`, but not those that were reached under heavy load.

    `compare` is "inductor", or "eager" to save the time of Inductor's compilation. `known` is the verdict on the same
    graph with operands of other shapes, or a saved one; with it, nothing is measured. Measuring ends at the `deadline`.
    """

    compare: str
    memory: ChoiceMemory | None
    progress: Say
    tolerance: float = TOLERANCES["fp32"]  # largest allowed difference of another form's results
    known: GraphVerdict | None = None
    deadline: Deadline = field(default_factory=Deadline)
    timer: Timer = time_calls
    meter: Callable[[], LoadMeter] = LoadMeter
    inductor: Inductor = inductor_graph
    share: Callable[[], float] = processor_share  # see `PeerForms`

    def forms(self, module: fx.GraphModule, examples: Sequence[Any]) -> PeerForms:
        """PyTorch's forms of a graph, which are made when they are needed."""
        return PeerForms(self.compare, module, examples, self.progress, self.deadline, self.inductor, self.share)

    def split_verdict(self, digest: str, ours: nn.Module, split: nn.Module,
                      examples: Sequence[Any]) -> GraphVerdict | None:
        """The verdict on our form beside `split`, in which PyTorch computes some layers; None if not compared."""
        def measured() -> GraphVerdict | None:
            if not self._has_time(ours, examples):
                return None
            self.progress("comparing the network with one in which PyTorch computes its faster layers")
            return self._look({EAGER: split}, ours, examples)

        return self._remembered(f"layers of {digest}", measured) if self.known is None else None

    def verdict(self, digest: str, forms: PeerForms,
                ours: nn.Module) -> tuple[GraphVerdict | None, PeerGraph | None]:
        """The verdict on our form beside PyTorch's, and PyTorch's form if it wins; None where no time was left for it.

        A form that won earlier and cannot be made now does not win: ours computes the graph, and the note says why.
        """
        def measured() -> GraphVerdict | None:
            if not self._has_time(ours, forms.examples):
                return None
            peers = forms.make()
            self.progress(f"comparing the network with {' and '.join(peers)}")
            expected = _results(ours, forms.examples)
            equal = {name: form for name, form in peers.items()
                     if name == EAGER or difference(expected, _results(form, forms.examples)) < self.tolerance}
            verdict = self._look(equal, ours, forms.examples)
            return verdict and replace(verdict, note=forms.note)

        verdict = self.known or self._remembered(f"{self.compare} {digest}", measured)
        if verdict is None or not verdict.peer_wins:
            return verdict, None
        peer = forms.make().get(verdict.peer)
        return (replace(verdict, peer_wins=False, note=forms.note), None) if peer is None else (verdict, peer)

    def _has_time(self, ours: nn.Module, examples: Sequence[Any]) -> bool:
        """Whether FEWEST_ROUNDS of our form and of an equally fast one end before the deadline."""
        with TURN, torch.no_grad():
            seconds = wall_clock(partial(ours, *clones(examples)), 1)
        return 2 * CALLS * FEWEST_ROUNDS * seconds < self.deadline.left

    def _remembered(self, name: str, measure: Callable[[], GraphVerdict | None]) -> GraphVerdict | None:
        """The remembered verdict, else the measured one; None where no time is left to measure."""
        remembered = GraphVerdict.of_json(self.memory.find_answer(name)) if self.memory is not None else None
        if remembered is not None:
            return remembered
        meter = self.meter()
        measured = measure()
        if measured is None:
            return None
        verdict = replace(measured, loaded=meter.load().heavy)
        if self.memory is not None and not verdict.loaded:
            self.memory.keep_answer(name, asdict(verdict))
        return verdict

    def _look(self, forms: Mapping[str, nn.Module], ours: nn.Module, examples: Sequence[Any]) -> GraphVerdict | None:
        """Measure all forms together, again if another one seems faster; None where FEWEST_ROUNDS take too long.

        Where there is no time for the second look, no other form wins.
        """
        verdict, deadline, end = None, self.deadline, self.deadline.scaled(OVERRUN)
        with TURN, torch.no_grad(), suppress(OutOfTime):
            for look in range(1, LOOKS + 1):
                operands = clones(examples)  # a graph may change its operands
                runs = {name: guarded(partial(form, *operands), end) for name, form in {**forms, OURS: ours}.items()}
                round_seconds = CALLS * sum(wall_clock(run, 1) for run in runs.values())
                if FEWEST_ROUNDS * round_seconds > deadline.left:
                    break
                samples = self.timer(runs, rounds_within(deadline.left / LOOKS, round_seconds, FEWEST_ROUNDS, ROUNDS))
                faster, seconds = faster_than(OURS, samples, RULE), typical(samples)
                peer = faster[0] if faster else min(forms, key=seconds.__getitem__)
                verdict = GraphVerdict(peer, seconds[OURS], seconds[peer], bool(faster) and look == LOOKS)
                if not faster:
                    break
        return verdict


def _results(form: nn.Module, examples: Sequence[Any]) -> list[Tensor]:
    with TURN, torch.no_grad():
        return [leaf.clone() for leaf in pytree.tree_leaves(form(*clones(examples))) if isinstance(leaf, Tensor)]


def saved_comparison(saved: list[Any], progress: Say, tolerance: float,
                     compare: Callable[..., PeerComparison] = PeerComparison) -> PeerComparison | None:
    """Take the next saved verdict from the list, and return a comparison that repeats it; None where there is none.

    Raises FormatError if the list's entry is no verdict.
    """
    entry = saved.pop(0) if saved else None
    if entry is None:
        return None
    verdict = GraphVerdict.of_json(entry)
    if verdict is None:
        raise FormatError(f"{str(entry)!r:.60} is not a saved choice of an optimised model: no verdict on a network")
    return compare(verdict.peer, None, progress, tolerance, verdict)
