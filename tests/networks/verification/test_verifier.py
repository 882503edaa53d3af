"""The verification of a network within its budget, with a clock, times and verdicts that are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.networks.compiler import CompiledGraph
from seqtune.networks.program.device_threads import device_for_threads
from seqtune.networks.selection.choices import Choice
from seqtune.networks.selection.layer_predictor import LayerPredictor
from seqtune.networks.selection.selection import LayerSelection
from seqtune.networks.verification.layer_times import LayerTimes
from seqtune.networks.verification.speed_ratio import SpeedRatio
from seqtune.networks.verification.verifier import NetworkVerifier, VerifierTools
from seqtune.predictor.candidate import Confidence
from seqtune.tuner.measuring.deadline import OVERRUN, Deadline
from seqtune.tuner.measuring.stopwatch import Stopwatch
from tests.support.llvm import needs_llvm
from tests.support.networks.fakes import IdleMeter

pytestmark = needs_llvm


@dataclass
class FakeLayer:
    """A layer of a network: its share of the run time, and how fast its configurations are in the network."""

    size: int
    share: float = 0.1  # of the time of a run, as far as all shares together are 1
    low: float | None = 0.8  # lower end of the predicted share of the best speed
    winner: int = 1  # number of the configuration that a verification finds; 0 is the proposal
    gain: float = 0.1  # share of its time by which the winner shortens the network; below 0: it is slower
    takes: float = 1.0  # factor on the seconds of its verification

    @property
    def problem(self) -> Problem:
        """A matrix product."""
        return Problem.make("gemm", m=self.size, n=16, k=16, trans_b="yes", bias="yes")

    def configuration(self, number: int) -> Configuration:
        """A valid configuration."""
        device = device_for_threads(1)
        spaces = [SearchSpace(kernel, self.problem, device) for kernel in kernels_for(self.problem, device)]
        return next(space for space in spaces if len(space) > 2)[number]


@dataclass
class World:
    """A network on a machine with a clock that only measurements move."""

    layers: list[FakeLayer]
    journal: Path
    now: float = 0.0
    asked: list[tuple[int, float]] = field(default_factory=list)  # sizes of verified layers, and their seconds
    predicted: list[int] = field(default_factory=list)
    comparisons: int = 0  # of networks
    said: list[str] = field(default_factory=list)
    interrupted_at: int | None = None  # the number of verifications before Ctrl-C
    is_busy: bool = False  # so that a comparison of networks is not done before the end of the budget
    compares: float = 0.0  # seconds of a comparison with PyTorch's operation
    overhead: float = 1.0  # seconds of a verification beside those that it is given

    @property
    def memory(self) -> Path:
        """The file of remembered choices."""
        return self.journal.with_name(f"{self.journal.name}.choices.json")

    def layer(self, problem: Problem) -> FakeLayer:
        """The layer with this problem."""
        return next(layer for layer in self.layers if layer.problem == problem)

    def run_seconds(self, graph: Any) -> float:
        """The seconds of a run of a compiled graph."""
        return sum(layer.share * (1 - (0 if graph[layer.problem] == layer.configuration(0) else layer.gain))
                   for layer in self.layers)

    def verify(self, budget: float = 60.0, seconds: float = 10.0, overhead: float = 1.0,
               prepare: Callable[[], object] = lambda: None) -> tuple[CompiledGraph, Deadline]:
        """Verify the network as a new process does."""
        self.overhead = overhead
        predictor = WorldPredictor(None, self.journal, self.said.append, world=self)
        selection = LayerSelection(True, seconds, budget, predictor)
        stopwatch = Stopwatch(lambda: self.now)
        deadline = Deadline(budget, stopwatch)
        verifier = NetworkVerifier(selection, deadline, stopwatch, device_for_threads(1), VerifierTools(
            self.layer_times, self.compare_layer, self.measure_ratio, IdleMeter))
        with stopwatch.running():
            found = self.compile(verifier.choose)
            compiler: Any = SimpleNamespace(
                compile=self.compile, binder=SimpleNamespace(device=device_for_threads(1)), digest=lambda choices: str(
                    [(choice.problem.key, choice.configuration.key) for choice in choices]))
            return verifier.verify(compiler, found, (), prepare), deadline

    def layer_times(self, graph: object, examples: object, seconds: float) -> LayerTimes:
        """A run takes 10 ms, of which each layer has its share."""
        whole = sum(layer.share for layer in self.layers)
        return LayerTimes(0.01, 0.01, {layer.problem: 0.01 * layer.share / whole for layer in self.layers})

    def compare_layer(self, layer: Any, choice: Choice, binder: object,
                      guarded: Callable[[Callable[[], object]], Callable[[], object]]) -> Choice:
        """PyTorch's operation takes twice as long."""
        guarded(lambda: None)()
        self.now += self.compares
        guarded(lambda: None)()
        return replace(choice, seconds=layer.share, pytorch_seconds=2 * layer.share)

    def measure_ratio(self, predicted: Any, verified: Any, examples: object, run_seconds: float,
                      deadline: Deadline) -> SpeedRatio | None:
        """Move the clock, and compare two graphs."""
        self.comparisons += 1
        if self.is_busy:
            return None
        self.now += max(0.4 * deadline.left, 12 * run_seconds)
        return SpeedRatio(self.run_seconds(predicted) / self.run_seconds(verified), 0.01)

    def compile(self, choose: Callable[[Sequence[Any]], Sequence[Choice]]) -> CompiledGraph:
        """A graph that is the configurations by problem."""
        choices = choose(self.layers)
        return CompiledGraph({choice.problem: choice.configuration for choice in choices}, tuple(choices), ())


@dataclass(frozen=True, slots=True)
class WorldPredictor(LayerPredictor):
    """Proposes the first configuration of each layer, and finds the winners of a world."""

    world: World = field(kw_only=True)

    def predict(self, problems: Sequence[Problem], device: object) -> list[Choice]:
        """The proposals, with the confidence of each layer."""
        self.world.predicted += [problem.size("m") for problem in problems]
        return [Choice(problem, self.world.layer(problem).configuration(0), confidence=None if low is None else
                       Confidence(0.95, low, 1.0))
                for problem in problems for low in [self.world.layer(problem).low]]

    def verify(self, proposal: Choice, device: object, seconds: float) -> Choice | None:
        """Move the clock, and return the winner."""
        world = self.world
        if len(world.asked) == world.interrupted_at:
            raise KeyboardInterrupt
        layer = world.layer(proposal.problem)
        world.asked.append((layer.size, seconds))
        world.now += world.overhead + layer.takes * seconds
        return None if layer.winner < 0 else replace(
            proposal, configuration=layer.configuration(layer.winner), verified=True)


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    """A world of layers, in place of the machine."""
    return lambda *layers: World(list(layers), tmp_path / "journal.sqlite")


def test_layers_are_verified_in_the_order_of_what_they_may_gain(world: Callable[..., World]) -> None:
    network = world(FakeLayer(1, share=0.1, low=0.9), FakeLayer(2, share=0.5, low=0.9),
                    FakeLayer(3, share=0.2, low=0.2), FakeLayer(4, share=0.2, low=None))
    network.verify(budget=25.0)
    assert [size for size, _ in network.asked] == [3, 2, 4, 1]
    seconds = dict(network.asked)
    assert seconds[3] > seconds[4] > seconds[1]


def test_layers_that_can_gain_nothing_are_not_measured(world: Callable[..., World]) -> None:
    network = world(FakeLayer(1, share=1.0), FakeLayer(2, share=0.001), FakeLayer(3, share=0.5, low=0.9999))
    graph, _ = network.verify()
    assert [size for size, _ in network.asked] == [1]
    assert graph.verification is not None
    assert (graph.verification.verified, graph.verification.without_gain, graph.verification.out_of_time) == (1, 2, 0)


@pytest.mark.parametrize("takes", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("overhead", [0.2, 3.0])
@pytest.mark.parametrize("budget", [5.0, 10.0, 20.0, 60.0])
@pytest.mark.parametrize("prepared", [0.0, 0.4])
def test_the_budget_holds(world: Callable[..., World], takes: float, overhead: float, budget: float,
                          prepared: float) -> None:
    network = world(*(FakeLayer(size, share=1 / size, takes=takes) for size in range(1, 41)))

    def prepare() -> None:
        network.now += prepared * budget

    graph, spent = network.verify(budget, overhead=overhead, prepare=prepare)
    assert spent.elapsed <= 1.3 * budget
    assert all(2.0 <= seconds <= 10.0 for _, seconds in network.asked)
    assert graph.verification is not None
    assert network.asked or budget <= 10.0


def test_one_late_verification_does_not_break_the_budget(world: Callable[..., World]) -> None:
    network = world(FakeLayer(1, takes=OVERRUN))  # the most that a verification may take
    _, spent = network.verify(12.0, overhead=1.5)
    assert len(network.asked) == 1
    assert spent.elapsed <= 1.3 * 12.0


@pytest.mark.parametrize("compares", [0.02, 5.0])
def test_comparisons_with_pytorch_leave_time_for_that_of_the_networks(world: Callable[..., World],
                                                                      compares: float) -> None:
    network = world(*(FakeLayer(size) for size in range(1, 31)))
    network.compares = compares
    graph, spent = network.verify(30.0)
    assert spent.elapsed <= 1.3 * 30.0
    assert network.comparisons == 1
    assert any(choice.seconds is None for choice in graph.choices) == (compares == 5.0)


def test_what_quick_verifications_leave_goes_to_the_other_layers(world: Callable[..., World]) -> None:
    counts = []
    for takes in (1.0, 0.2):
        network = world(*(FakeLayer(size, takes=takes) for size in range(1, 41)))
        network.verify(overhead=takes)
        counts.append(len(network.asked))
        network.memory.unlink()
    assert counts[1] > 1.5 * counts[0]


def test_a_network_whose_verified_layers_make_it_slower_keeps_its_prediction(world: Callable[..., World]) -> None:
    network = world(FakeLayer(1, gain=-0.2), FakeLayer(2, gain=0.1), FakeLayer(3, winner=0))
    graph, _ = network.verify()
    assert network.comparisons == 1
    assert all(choice.configuration == network.layer(choice.problem).configuration(0) for choice in graph.choices)
    assert graph.verification is not None
    assert graph.verification.keeps_predicted
    assert "so the predicted one is kept" in str(graph.verification)
    assert [choice.verified for choice in graph.choices] == [False, False, True]
    asked = len(network.asked)
    again, spent = network.verify()
    assert again.choices == graph.choices
    assert again.verification == graph.verification
    assert (len(network.asked), network.comparisons, spent.elapsed) == (asked, 1, 0.0)


def test_a_network_that_is_as_fast_with_its_verified_layers_has_them(world: Callable[..., World]) -> None:
    for gain in (0.0, 0.1):
        network = world(FakeLayer(7, gain=gain), FakeLayer(8, winner=0))
        graph, _ = network.verify()
        assert graph.graph[network.layers[0].problem] == network.layers[0].configuration(1)
        assert graph.verification is not None
        assert not graph.verification.keeps_predicted
        network.memory.unlink()


def test_layers_that_keep_their_predictions_need_no_comparison(world: Callable[..., World]) -> None:
    network = world(FakeLayer(1, winner=0), FakeLayer(2, winner=0))
    graph, _ = network.verify()
    assert network.comparisons == 0
    assert graph.verification is not None
    assert graph.verification.ratio is None
    assert "the predicted network computes" in str(graph.verification)
    assert all(choice.verified and choice.seconds is not None for choice in graph.choices)


def test_without_time_to_compare_the_prediction_is_kept_and_the_next_process_compares(
        world: Callable[..., World]) -> None:
    network = world(FakeLayer(1), FakeLayer(2))
    network.is_busy = True
    first, _ = network.verify()
    assert all(choice.configuration == network.layer(choice.problem).configuration(0) for choice in first.choices)
    assert first.verification is not None
    assert "no time was left" in str(first.verification)
    network.is_busy = False
    second, _ = network.verify()
    assert all(choice.configuration == network.layer(choice.problem).configuration(1) for choice in second.choices)
    assert (len(network.asked), network.comparisons) == (2, 2)


def test_a_layer_whose_measurements_take_too_long_keeps_its_proposal(world: Callable[..., World]) -> None:
    network = world(FakeLayer(1, winner=-1), FakeLayer(2))
    graph, _ = network.verify()
    assert graph.verification is not None
    assert (graph.verification.verified, graph.verification.out_of_time) == (1, 1)
    assert graph.graph[network.layers[0].problem] == network.layers[0].configuration(0)


def test_an_interrupted_verification_goes_on_where_it_was(world: Callable[..., World]) -> None:
    network = world(*(FakeLayer(size) for size in range(1, 6)))
    network.interrupted_at = 2
    with pytest.raises(KeyboardInterrupt):
        network.verify()
    done = [size for size, _ in network.asked]
    assert len(done) == 2
    network.interrupted_at = None
    graph, _ = network.verify()
    assert sorted(size for size, _ in network.asked) == [1, 2, 3, 4, 5]
    assert graph.verification is not None
    assert graph.verification.verified == 5
    assert network.comparisons == 1
    assert all(choice.configuration == network.layer(choice.problem).configuration(1) for choice in graph.choices)


def test_a_second_process_predicts_and_measures_nothing(world: Callable[..., World]) -> None:
    network = world(FakeLayer(1), FakeLayer(2), FakeLayer(3, low=0.9999))
    first, _ = network.verify()
    before = (list(network.asked), list(network.predicted), network.comparisons)
    second, spent = network.verify()
    assert (network.asked, network.predicted, network.comparisons) == before
    assert second.choices == first.choices
    assert second.verification == first.verification
    assert spent.elapsed == 0
    network.verify(budget=120.0)
    assert len(network.asked) > len(before[0]), "another budget is another verification"


def test_another_network_uses_what_is_verified_and_measures_what_is_not(world: Callable[..., World]) -> None:
    shared, small = FakeLayer(1), FakeLayer(2, share=1e-5)
    world(shared, small, FakeLayer(3)).verify()
    other = world(shared, FakeLayer(2, share=0.5))
    graph, _ = other.verify()
    assert [size for size, _ in other.asked] == [2]
    assert other.comparisons == 1
    assert graph.verification is not None
    assert graph.verification.verified == 2


def test_the_lines_say_how_much_time_is_left(world: Callable[..., World]) -> None:
    network = world(FakeLayer(1), FakeLayer(2, low=0.7))
    network.verify()
    assert network.said[0].startswith("60 s left: layer 1 of 2 that may gain, gemm m=2 ")
    assert network.said[-2].endswith("the predicted and the verified network in turns")
    assert network.said[-1].startswith("2 of 2 layers verified in ")
