"""Whole graphs beside what PyTorch makes of them, with given times; Inductor itself takes too long for a test."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqtune.errors import MisuseError, SeqtuneWarning, UnavailableError
from seqtune.integrations.pytorch.hook.dynamo import BackendOptions, ShapedPrograms
from seqtune.integrations.pytorch.hook.optimization import Optimizer
from seqtune.integrations.pytorch.hook.tools import Tools
from seqtune.networks.compiled import Compiled
from seqtune.networks.compiler import CompiledGraph
from seqtune.networks.optimized import Optimized
from seqtune.networks.selection.reports import GraphVerdict, NetworkVerification
from seqtune.networks.verification.peer_comparison import PeerComparison
from seqtune.networks.verification.peer_graph import (
    Inductor,
    PeerForms,
    PeerGraph,
    eager_graph,
    inductor_graph,
    processor_share,
)
from seqtune.pytorch import explain
from seqtune.tuner.measuring.deadline import Deadline
from tests.support.llvm import needs_llvm
from tests.support.networks.fakes import BusyMeter, Unverified
from tests.support.torch_models import same

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
ROUNDS = 11


class Times:
    """Given seconds of our form (""), of Inductor's and of PyTorch's own; `looks` counts the measurements."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = {"": 1.0, **seconds}
        self.looks = 0
        self.now = 0.0  # seconds on a clock that tests may use

    def __call__(self, runs: Mapping[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, tuple[float, ...]]:
        for run in runs.values():
            run()
        self.looks += 1
        return {name: (self.seconds[name],) * ROUNDS for name in runs}


def inductor(module: Any, examples: object) -> PeerGraph:
    """A form in place of Inductor's."""
    return PeerGraph("inductor", module)


def tools(times: Times, form: Inductor = inductor, **others: Any) -> Tools:
    """Tools that keep the predicted choices and compare whole graphs with these times."""
    return Tools(verifier=Unverified, comparison=partial(PeerComparison, timer=times, inductor=form, share=lambda: 1.0),
                 **others)


@pytest.fixture
def made(checkpoint: Path, tmp_path: Path) -> Callable[..., Optimized]:
    """`optimize` with unmeasured choices; only the whole graph is compared, with these times."""
    def optimized(model: nn.Module, x: torch.Tensor, times: Times, form: Inductor = inductor, *,
                  compare: str = "inductor", **others: Any) -> Optimized:
        return Optimizer("llvm:1", checkpoint=checkpoint, journal=tmp_path / "journal.sqlite", compare=compare,
                         tools=tools(times, form, **others)).optimize(model, x)

    return optimized


@pytest.fixture
def model() -> nn.Module:
    """Two linear layers."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


def without_compiler(module: object, examples: object) -> PeerGraph:
    """Inductor on a machine that has no C++ compiler."""
    raise UnavailableError("Inductor cannot compile the graph: no working C++ compiler found")


def verdict_of(fast: Optimized) -> GraphVerdict:
    """The verdict on the whole model."""
    assert isinstance(fast.model, Compiled)
    assert fast.model.verdict is not None
    return fast.model.verdict


@pytest.mark.parametrize(("seconds", "peer", "wins"), [
    ({"inductor": 0.9, "eager": 1.5}, "inductor", True), ({"inductor": 0.9, "eager": 0.8}, "eager", True),
    ({"inductor": 0.99, "eager": 1.5}, "inductor", False), ({"inductor": 2.0, "eager": 1.5}, "eager", False)])
def test_the_fastest_form_computes_the_graph(made: Callable[..., Optimized], model: nn.Module, tmp_path: Path,
                                             seconds: dict[str, float], peer: str, wins: bool) -> None:
    x = torch.randn(3, 8)
    times = Times(**seconds)
    fast = made(model, x, times)
    fast.save(tmp_path / "choice.json")
    again = Optimizer("llvm:1", saved=tmp_path / "choice.json", tools=tools(Times())).optimize(model, x)
    assert isinstance(again.model, Compiled)
    assert isinstance(again.model.graph, PeerGraph) == wins
    assert same(again, model, x)
    verdict = verdict_of(fast)
    assert verdict_of(again) == verdict
    assert (verdict.peer, verdict.peer_wins, times.looks) == (peer, wins, 2 if wins else 1)
    assert isinstance(fast.model.graph, PeerGraph) == wins
    assert same(fast, model, x)
    said, whose = str(explain(fast, x)), {"inductor": "Inductor's code", "eager": "PyTorch's own operations"}
    assert ("PyTorch computes the whole network: " in said) == wins
    assert f"{1e3 * seconds[peer]:.3f} ms with {whose[peer]}, 1000.000 ms with our programs" in said


@pytest.mark.parametrize("wins", [False, True])
def test_a_remembered_verdict_is_not_measured_again(made: Callable[..., Optimized], model: nn.Module,
                                                    wins: bool) -> None:
    x = torch.randn(3, 8)
    first = made(model, x, Times(inductor=0.5 if wins else 2.0, eager=3.0))
    again = Times()
    second = made(model, x, again)
    assert again.looks == 0
    assert verdict_of(second) == verdict_of(first)
    assert isinstance(second.model.graph, PeerGraph) == wins
    other = Times(inductor=2.0, eager=3.0)
    made(model, torch.randn(5, 8), other)
    assert other.looks, "another shape is another graph"


def test_without_a_compiler_eager_is_the_peer_and_the_report_says_why(
        made: Callable[..., Optimized], model: nn.Module) -> None:
    x = torch.randn(3, 8)
    fast = made(model, x, Times(eager=2.0), without_compiler)
    assert verdict_of(fast).peer == "eager"
    assert "no working C++ compiler" in str(explain(fast, x))


def test_a_remembered_form_that_cannot_be_made_any_more_leaves_our_programs(
        made: Callable[..., Optimized], model: nn.Module) -> None:
    x = torch.randn(3, 8)
    assert verdict_of(made(model, x, Times(inductor=0.5, eager=3.0))).peer_wins
    fast = made(model, x, Times(), without_compiler)
    assert not verdict_of(fast).peer_wins
    assert not isinstance(fast.model.graph, PeerGraph)
    assert "no working C++ compiler" in str(explain(fast, x))


def test_a_form_with_other_results_is_not_taken(made: Callable[..., Optimized], model: nn.Module) -> None:
    fast = made(model, torch.randn(3, 8), Times(inductor=0.1, eager=2.0), lambda module, examples: PeerGraph(
        "inductor", lambda x: (module(x)[0] + 1,)))
    assert verdict_of(fast).peer == "eager"


def test_inductor_is_not_asked_where_eager_is_compared(made: Callable[..., Optimized], model: nn.Module) -> None:
    fast = made(model, torch.randn(3, 8), Times(eager=2.0), lambda *_: pytest.fail("compiled"), compare="eager")
    assert verdict_of(fast).note == ""
    with pytest.raises(MisuseError, match="compare='tvm' is not one of inductor, eager"):
        made(model, torch.randn(3, 8), Times(), compare="tvm")


def test_a_form_that_wins_one_look_needs_time_for_a_second(made: Callable[..., Optimized], model: nn.Module) -> None:
    times = Times(inductor=0.5, eager=3.0)
    verdict = verdict_of(made(model, torch.randn(3, 8), times, clock=lambda: 3600.0 * times.looks))
    assert times.looks == 1
    assert (verdict.peer, verdict.peer_seconds, verdict.peer_wins) == ("inductor", 0.5, False)


def test_after_the_end_of_the_budget_nothing_is_compared_and_the_report_says_so(
        checkpoint: Path, tmp_path: Path, model: nn.Module) -> None:
    class Late(Unverified):
        """A verifier that spends more than the budget."""

        def verify(self, compiler: object, compiled: CompiledGraph, *_: Any) -> CompiledGraph:
            """The predicted network with a report."""
            times.now = 70.0
            return replace(compiled, verification=NetworkVerification(60.0, 70.0, 2, 2, 0))

    x, times = torch.randn(3, 8), Times()
    late = replace(tools(times), verifier=Late, clock=lambda: times.now)
    fast = Optimizer("llvm:1", checkpoint=checkpoint, journal=tmp_path / "j.sqlite", compare="eager",
                     tools=late).optimize(model, x)
    assert isinstance(fast.model, Compiled)
    assert (times.looks, fast.model.verdict) == (0, None)
    assert "no time was left to compare the network with PyTorch's code" in str(explain(fast, x))


@pytest.mark.parametrize(("budget", "share", "compiles"), [
    (14.0, 1.0, False), (20.0, 1.0, True), (20.0, 0.5, False), (40.0, 0.5, True), (math.inf, 0.01, True)])
def test_inductor_compiles_within_half_of_the_budget(
        budget: float, share: float, compiles: bool) -> None:
    graph, said = torch.fx.symbolic_trace(nn.Linear(3, 2).eval()), list[str]()
    forms = PeerForms("inductor", graph, [torch.randn(1, 3)], said.append, Deadline(budget, lambda: 0.0),
                      inductor, lambda: share)
    assert list(forms.make()) == ["eager", *(["inductor"] if compiles else [])]
    assert ("Inductor would take about" in forms.note) != compiles
    assert len(said) == 1
    assert forms.make() is forms.make(), "what is made once is not made again"


def test_the_share_of_a_processor_is_what_the_thread_worked() -> None:
    now = iter(range(100))
    assert processor_share(lambda: 0.05 * next(now), iter([3.0, 3.05]).__next__) == pytest.approx(0.25)


def test_the_first_shape_decides_for_all_in_torch_compile(
        model: nn.Module, checkpoint: Path, tmp_path: Path) -> None:
    times = Times(inductor=0.5, eager=3.0)
    torch._dynamo.reset()
    fast = torch.compile(model, dynamic=True, backend=lambda module, inputs: ShapedPrograms(
        module, inputs, BackendOptions(checkpoint=checkpoint, journal=tmp_path / "j.sqlite", fallback="eager"),
        tools=tools(times)))
    for rows in (3, 4, 5):
        with torch.no_grad():
            assert same(fast, model, torch.randn(rows, 8))
    assert times.looks == 2


def test_torch_compile_warns_of_what_was_measured_on_a_busy_machine(
        model: nn.Module, checkpoint: Path, tmp_path: Path) -> None:
    busy = Tools(verifier=Unverified, comparison=partial(PeerComparison, timer=Times(eager=3.0), meter=BusyMeter))
    torch._dynamo.reset()
    fast = torch.compile(model, backend=lambda module, inputs: ShapedPrograms(
        module, inputs, BackendOptions(checkpoint=checkpoint, journal=tmp_path / "j.sqlite", compare="eager"),
        tools=busy))
    with torch.no_grad(), pytest.warns(SeqtuneWarning, match=r"a graph of torch.compile.* was measured while other"):
        fast(torch.randn(3, 8))


def test_inductor_gets_constant_weights_and_a_copy_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def compiled(module: Any, **options: Any) -> Any:
        given.update(options, module=module)
        return module

    monkeypatch.setattr(torch, "compile", compiled)
    graph = torch.fx.symbolic_trace(nn.Linear(3, 2).eval())
    form, x = inductor_graph(graph, [torch.randn(1, 3)]), torch.randn(1, 3)
    assert given["options"] == {"freezing": True}
    assert given["module"] is not graph
    assert torch.equal(form(x), eager_graph(graph)(x))
    monkeypatch.setattr(torch, "compile", lambda *_, **__: given["missing"])
    with pytest.raises(UnavailableError, match="Inductor cannot compile the graph: 'missing'"):
        inductor_graph(graph, [x])
