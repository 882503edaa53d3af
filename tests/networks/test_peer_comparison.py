"""Whole graphs beside what PyTorch makes of them, with given times; Inductor itself takes too long for a test."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqtune.errors import SeqtuneWarning, UnavailableError
from seqtune.integrations.pytorch.hook.dynamo import BackendOptions, ShapedPrograms
from seqtune.integrations.pytorch.hook.optimization import Optimizer, optimize
from seqtune.integrations.pytorch.hook.tools import Tools
from seqtune.networks.compiled import Compiled
from seqtune.networks.optimized import Optimized
from seqtune.networks.peer_comparison import GraphVerdict, PeerComparison, guarded
from seqtune.networks.peer_graph import Inductor, PeerForms, PeerGraph, inductor_graph
from seqtune.pytorch import explain
from seqtune.tuner.load import Load, LoadMeter
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from tests.support.llvm import needs_llvm
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


class IdleMeter(LoadMeter):
    """A meter on a machine that does nothing else."""

    def load(self) -> Load:
        """No load."""
        return Load()


class BusyMeter(LoadMeter):
    """A meter on a machine that other programs use."""

    def load(self) -> Load:
        """All CPUs."""
        return Load(1.0)


def inductor(module: Any, examples: object) -> PeerGraph:
    """A form in place of Inductor's."""
    return PeerGraph("inductor", module)


def tools(times: Times, form: Inductor = inductor, **others: Any) -> Tools:
    """Tools that compare whole graphs with these times, on an idle machine."""
    return Tools(comparison=partial(PeerComparison, timer=times, inductor=form, share=lambda: 1.0, meter=IdleMeter),
                 **others)


@pytest.fixture
def made(checkpoint: Path, tmp_path: Path) -> Callable[..., Optimized]:
    """`optimize`, which compares the whole graph with these times."""
    def optimized(model: nn.Module, x: torch.Tensor, times: Times, form: Inductor = inductor, *,
                  clock: Callable[[], float] = lambda: 0.0, **options: Any) -> Optimized:
        return Optimizer("llvm:1", checkpoint=checkpoint, journal=tmp_path / "journal.sqlite",
                         tools=tools(times, form, clock=clock), **options).optimize(model, x)

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


def test_a_form_that_wins_one_look_needs_time_for_a_second(made: Callable[..., Optimized], model: nn.Module) -> None:
    x, times = torch.randn(3, 8), Times(inductor=0.5, eager=3.0)
    fast = made(model, x, times, clock=lambda: 3600.0 * times.looks)
    verdict = verdict_of(fast)
    assert times.looks == 1
    assert (verdict.peer, verdict.peer_seconds, verdict.peer_wins) == ("inductor", 0.5, False)
    assert "no time was left for the second measurement" in str(explain(fast, x))


def test_where_no_time_is_left_our_programs_compute_and_the_report_says_so(
        made: Callable[..., Optimized], model: nn.Module, tmp_path: Path) -> None:
    x, times, said = torch.randn(3, 8), Times(inductor=0.5, eager=3.0), list[str]()

    def slow(module: Any, examples: object) -> PeerGraph:
        times.now = 70.0
        return inductor(module, examples)

    fast = made(model, x, times, slow, clock=lambda: times.now, progress=said.append)
    assert isinstance(fast.model, Compiled)
    assert (times.looks, fast.model.verdict) == (0, None)
    assert said[-1] == "no time was left to compare the network with PyTorch's code"
    fast.save(tmp_path / "choice.json")
    for unproven in (fast, optimize(model, x, device="llvm:1", saved=tmp_path / "choice.json")):
        assert "the whole network: not compared with PyTorch's code" in str(explain(unproven, x))
    assert verdict_of(made(model, x, times)).peer_wins, "what was not compared is compared by the next call"


@pytest.mark.parametrize(("seconds", "looks"), [(1e-9, 0), (3600.0, 1), (None, 1)])
def test_one_measurement_takes_at_most_the_seconds(
        made: Callable[..., Optimized], model: nn.Module, seconds: float | None, looks: int) -> None:
    times = Times(eager=3.0)
    made(model, torch.randn(3, 8), times, compare="eager", seconds=seconds)
    assert times.looks == looks


def test_the_lines_say_what_is_compared(made: Callable[..., Optimized], model: nn.Module) -> None:
    said: list[str] = []
    made(model, torch.randn(3, 8), Times(inductor=2.0, eager=3.0), budget=120, progress=said.append)
    assert said == ["predicting 2 layers: gemm", "Inductor compiles the network, to be compared with",
                    "comparing the network with eager and inductor"]


def test_nothing_runs_after_the_deadline() -> None:
    now, calls = [0.0], list[float]()
    run = guarded(lambda: calls.append(now[0]), Deadline(10.0, lambda: now[0]))
    run()
    now[0] = 9.9
    run()
    now[0] = 10.0
    with pytest.raises(OutOfTime, match="10 s are over"):
        run()
    assert calls == [0.0, 9.9]


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


class InParts(nn.Module):
    """A model that is optimised in parts, because it cannot be exported: two linear layers and a branch."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        if tied:
            self.second.weight, self.second.bias = self.first.weight, self.first.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.first(x)
        z: torch.Tensor = self.second(y if y.sum().item() < 1e30 else -y)
        return z


@pytest.mark.parametrize(("tied", "budgets"), [(False, [30.0, 60.0]), (True, [60.0, 60.0])])
def test_the_parts_of_a_network_share_its_budget_by_their_parameters(
        tied: bool, budgets: list[float], checkpoint: Path, tmp_path: Path) -> None:
    """Nothing is used by the first part, so the second one has all. Parameters in common count for both."""
    seconds: list[float] = []
    compared: Callable[..., PeerComparison] = partial(PeerComparison, timer=Times(eager=3.0))

    def noting(*given: Any, deadline: Deadline, **others: Any) -> PeerComparison:
        seconds.append(deadline.seconds)
        return compared(*given, deadline=deadline, **others)

    Optimizer("llvm:1", checkpoint=checkpoint, budget=60.0, compare="eager", journal=tmp_path / "j.sqlite",
              tools=Tools(comparison=noting, clock=lambda: 0.0)).optimize(InParts(tied).eval(), torch.randn(2, 8))
    assert seconds == budgets


@pytest.mark.filterwarnings("ignore:.* measured while other work:seqtune.errors.SeqtuneWarning")
@pytest.mark.parametrize("heavy", [False, True])
def test_a_second_process_measures_only_what_was_disturbed(
        checkpoint: Path, tmp_path: Path, model: nn.Module, heavy: bool) -> None:
    x, times = torch.randn(3, 8), Times(eager=3.0)
    busy = Tools(comparison=partial(PeerComparison, timer=times, meter=BusyMeter if heavy else IdleMeter))
    optimizer = Optimizer("llvm:1", checkpoint=checkpoint, journal=tmp_path / "j.sqlite", compare="eager", tools=busy)
    first, second = optimizer.optimize(model, x), optimizer.optimize(model, x)
    assert times.looks == (2 if heavy else 1)
    assert second.choices == first.choices


def test_what_was_measured_on_a_busy_machine_is_told(checkpoint: Path, tmp_path: Path, model: nn.Module) -> None:
    x = torch.randn(3, 8)
    busy = Tools(comparison=partial(PeerComparison, timer=Times(eager=3.0), meter=BusyMeter))
    with pytest.warns(SeqtuneWarning, match="this Sequential was measured while other work had much of the machine"):
        fast = Optimizer("llvm:1", checkpoint=checkpoint, journal=tmp_path / "j.sqlite", compare="eager",
                         tools=busy).optimize(model, x)
    fast.save(tmp_path / "choice.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeqtuneWarning)
        again = optimize(model, x, device="llvm:1", saved=tmp_path / "choice.json")  # measures nothing
    for loaded in (fast, again):
        assert str(explain(loaded, x)).count("other work had much of the machine meanwhile") == 1


@pytest.mark.parametrize(("given", "says"), [
    ({"meter": BusyMeter}, r"a graph of torch.compile.* was measured while other"),
    ({"seconds": 1e-9}, r"a graph of torch.compile.* is used although no time was left")])
def test_torch_compile_warns_of_a_comparison_that_proves_little(
        model: nn.Module, checkpoint: Path, tmp_path: Path, given: dict[str, Any], says: str) -> None:
    options = BackendOptions(seconds=given.get("seconds"), checkpoint=checkpoint, journal=tmp_path / "j.sqlite",
                             compare="eager")
    meter = given.get("meter", IdleMeter)
    torch._dynamo.reset()
    fast = torch.compile(model, backend=lambda module, inputs: ShapedPrograms(
        module, inputs, options, tools=Tools(comparison=partial(PeerComparison, timer=Times(eager=3.0), meter=meter))))
    with torch.no_grad(), pytest.warns(SeqtuneWarning, match=says):
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
    assert torch.equal(form(x), graph(x))
    monkeypatch.setattr(torch, "compile", lambda *_, **__: given["missing"])
    with pytest.raises(UnavailableError, match="Inductor cannot compile the graph: 'missing'"):
        inductor_graph(graph, [x])
