"""PeerComparison: decides by measuring whether our programs or PyTorch's own code computes a graph.

PyTorch's forms are those of the whole graph, so that fusions which the programs break count, too. All forms take turns;
another form wins on clear evidence only, in two looks. Where no time is left to measure, our programs compute.
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
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime, Stopwatch
from seqtune.tuner.measuring.timed_calls import ROUNDS, time_calls

from .capture.examples import clones, difference
from .peer_graph import COMPARED, EAGER, INDUCTOR, Inductor, PeerForms, PeerGraph, inductor_graph, processor_share
from .plan.precision import TOLERANCES
from .program.device_threads import TURN
from .selection.memory import ChoiceMemory

RULE = Rule(margin=0.02)  # smaller leads are within the noise of a network's time
LOOKS = 2  # measurements that must agree: without a second one, no other form wins
OURS = ""  # the name of our form
CALLS = 2  # runs of each form in a round: one warms up
FEWEST_ROUNDS = 8  # the least p-value of a signed-rank test is 2**-rounds; among two forms, RULE asks for 0.005
OUT_OF_TIME = "no time was left to compare the network with PyTorch's code"
UNCONFIRMED = "no time was left for the second measurement, without which PyTorch's code is not used"
LOADED = "other work had much of the machine meanwhile"
Timer = Callable[[Mapping[str, Callable[[], object]], int], Mapping[str, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class GraphVerdict:
    """The typical seconds of one graph: of our form, and of the fastest other one."""

    peer: str  # "inductor" or "eager"
    seconds: float
    peer_seconds: float
    peer_wins: bool
    note: str = ""  # why Inductor's form is missing, or why the other form was not measured a second time
    loaded: bool = False  # whether other work had much of the machine meanwhile

    @classmethod
    def of_json(cls, value: Any) -> GraphVerdict | None:
        """The verdict that `asdict` wrote, or None for anything else."""
        with suppress(TypeError, ValueError, KeyError):
            peer, note = str(value["peer"]), str(value["note"])[:300]
            if peer in COMPARED:
                return cls(peer, float(value["seconds"]), float(value["peer_seconds"]), value["peer_wins"] is True,
                           note, value.get("loaded") is True)
        return None

    def __str__(self) -> str:
        whose = "Inductor's code" if self.peer == INDUCTOR else "PyTorch's own operations"
        notes = "".join(f"; {text}" for text in (self.note, LOADED if self.loaded else "") if text)
        return f"{self.peer_seconds * 1e3:.3f} ms with {whose}, {self.seconds * 1e3:.3f} ms with our programs{notes}"


@dataclass(frozen=True, slots=True)
class PeerComparison:
    """Compares forms of graphs. Verdicts are remembered in `memory`, but not those that were reached under heavy load.

    `compare` is "inductor", or "eager" to save the time of Inductor's compilation. `known` is the verdict on the same
    graph with operands of other shapes, or a saved one; with it, nothing is measured. Forms are made and measured until
    the `deadline`, whose clock may be the `stopwatch`: that runs meanwhile only. One look takes at most `seconds`;
    None: what the deadline leaves.
    """

    compare: str
    memory: ChoiceMemory | None
    progress: Say
    tolerance: float = TOLERANCES["fp32"]  # largest allowed difference of another form's results
    known: GraphVerdict | None = None
    deadline: Deadline = field(default_factory=Deadline)
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    seconds: float | None = None
    timer: Timer = time_calls
    meter: Callable[[], LoadMeter] = LoadMeter
    inductor: Inductor = inductor_graph
    share: Callable[[], float] = processor_share  # see `PeerForms`

    def verdict(self, digest: str, module: fx.GraphModule, ours: nn.Module,
                examples: Sequence[Any]) -> tuple[GraphVerdict | None, PeerGraph | None]:
        """The verdict on our form beside those that PyTorch makes of the module, and PyTorch's form if it wins.

        The verdict is None where no time was left for it; `progress` is told. A form that won earlier and cannot be
        made now does not win: ours computes the graph, and the note says why.
        """
        forms = PeerForms(self.compare, module, examples, self.progress, self.deadline, self.inductor, self.share)
        with self.stopwatch.running():
            verdict = self.known or self._remembered(f"{self.compare} {digest}", forms, ours)
            if verdict is None:
                self.progress(OUT_OF_TIME)
            if verdict is None or not verdict.peer_wins:
                return verdict, None
            peer = forms.make().get(verdict.peer)
        return (replace(verdict, peer_wins=False, note=forms.note), None) if peer is None else (verdict, peer)

    def _remembered(self, name: str, forms: PeerForms, ours: nn.Module) -> GraphVerdict | None:
        """The remembered verdict, else the measured one; None where no time is left to measure."""
        remembered = GraphVerdict.of_json(self.memory.find_answer(name)) if self.memory is not None else None
        if remembered is not None:
            return remembered
        meter = self.meter()
        measured = self._measured(forms, ours) if self._has_time(ours, forms.examples) else None
        if measured is None:
            return None
        verdict = replace(measured, loaded=meter.load().heavy)
        if self.memory is not None and not verdict.loaded:
            self.memory.keep_answer(name, asdict(verdict))
        return verdict

    def _has_time(self, ours: nn.Module, examples: Sequence[Any]) -> bool:
        """Whether FEWEST_ROUNDS of our form and of an equally fast one end in time."""
        with TURN, torch.no_grad():
            seconds = wall_clock(partial(ours, *clones(examples)), 1)
        return 2 * CALLS * FEWEST_ROUNDS * seconds < self._most

    @property
    def _most(self) -> float:
        """The seconds that are left for one look."""
        return self.deadline.left if self.seconds is None else min(self.seconds, self.deadline.left)

    def _measured(self, forms: PeerForms, ours: nn.Module) -> GraphVerdict | None:
        """The verdict by measuring all forms with our results; None where FEWEST_ROUNDS take too long."""
        peers = forms.make()
        self.progress(f"comparing the network with {' and '.join(peers)}")
        expected = _results(ours, forms.examples)
        equal = {name: form for name, form in peers.items()
                 if name == EAGER or difference(expected, _results(form, forms.examples)) < self.tolerance}
        verdict = self._look(equal, ours, forms.examples)
        return verdict and replace(verdict, note="; ".join(filter(None, (forms.note, verdict.note))))

    def _look(self, forms: Mapping[str, nn.Module], ours: nn.Module, examples: Sequence[Any]) -> GraphVerdict | None:
        """Measure all forms together, again if another one seems faster; None where FEWEST_ROUNDS take too long.

        Where there is no time for the second look, no other form wins.
        """
        verdict, end = None, self.deadline.hard
        with TURN, torch.no_grad(), suppress(OutOfTime):
            for look in range(1, LOOKS + 1):
                operands = clones(examples)  # a graph may change its operands
                runs = {name: guarded(partial(form, *operands), end) for name, form in {**forms, OURS: ours}.items()}
                round_seconds = CALLS * sum(wall_clock(run, 1) for run in runs.values())
                if FEWEST_ROUNDS * round_seconds > self._most:
                    break
                rounds = rounds_within(min(self._most, self.deadline.left / LOOKS), round_seconds)
                samples = self.timer(runs, rounds)
                faster, seconds = faster_than(OURS, samples, RULE), typical(samples)
                peer = faster[0] if faster else min(forms, key=seconds.__getitem__)
                verdict = GraphVerdict(peer, seconds[OURS], seconds[peer], bool(faster) and look == LOOKS,
                                       UNCONFIRMED if faster and look < LOOKS else "")
                if not faster:
                    break
        return verdict


def _results(form: nn.Module, examples: Sequence[Any]) -> list[Tensor]:
    with TURN, torch.no_grad():
        return [leaf.clone() for leaf in pytree.tree_leaves(form(*clones(examples))) if isinstance(leaf, Tensor)]


def guarded(run: Callable[[], object], deadline: Deadline) -> Callable[[], object]:
    """A call that raises OutOfTime instead of running after the deadline."""
    def call() -> object:
        if deadline.is_over:
            raise OutOfTime(f"{deadline.seconds:.3g} s are over")
        return run()

    return call


def rounds_within(seconds: float, round_seconds: float) -> int:
    """The number of rounds that fit into `seconds`, from FEWEST_ROUNDS to ROUNDS."""
    return max(FEWEST_ROUNDS, int(min(ROUNDS, seconds / max(round_seconds, 1e-9))))  # a clock may be too coarse


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
