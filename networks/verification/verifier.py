"""NetworkVerifier: spends the budget of a network's verification where it can gain, and keeps the faster network.

First the predicted network runs, which shows what share of the time each layer has. The possible gain of a layer is its
share times the uncertainty of its prediction, which is 1 less `Confidence.low`. Layers are verified in the order of
their gains, each for seconds in proportion to its gain; after each layer, the rest of the budget is divided again.
Layers whose gain is too small are not measured. Each verdict is remembered at once, so that a later call continues an
interrupted verification.

At the end the network with the winners and the predicted one run in turns, and the faster one is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import mean
from typing import Any

from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.tuner.load import LoadMeter
from seqtune.tuner.measuring.deadline import OVERRUN, Deadline, OutOfTime
from seqtune.tuner.measuring.stopwatch import Stopwatch

from ..compiler import CompiledGraph, GraphCompiler
from ..nodes import Tuned
from ..program.bound_kernels import KernelBinder
from ..selection.choices import Choice
from ..selection.layer_comparison import Call, compare_with_pytorch
from ..selection.memory import ChoiceMemory
from ..selection.reports import NetworkVerification
from ..selection.selection import LayerSelection
from .budget import divide, guarded
from .layer_times import LayerTimes, layer_times
from .speed_ratio import SpeedRatio, measure_ratio

LEAST_SECONDS = 2.0  # a layer; with 0.4 s, noise chose and networks became 5 to 10 % slower than predicted
LEAST_GAIN = 0.002  # share of the network's time; less is within the noise of a comparison of networks
UNKNOWN = 0.15  # uncertainty of a layer for which the predictor estimates no confidence
START_SECONDS = 1.5  # assumed for a worker's start, its operands and the comparison with PyTorch's operation
NETWORK_RUNS = 150  # runs of the network after its layers are verified, to compare it with its other forms
NETWORK_SHARE = 0.35  # share of the budget that these runs may take; where they take longer, there are fewer rounds
TIMES_SHARE = 0.1  # share of the budget for timing the predicted network and its layers
LEAST_SHARE = 0.01  # share of the run time; below it, no operation of PyTorch is worth cutting a program in two
COMPARED_RUNS = 70  # runs of a layer to compare it with PyTorch's: (11 rounds + 1 before) x 3 forms x 2 runs
UNDECIDED = "no time was left to compare it with the one of verified layers"


@dataclass(frozen=True, slots=True)
class VerifierTools:
    """The functions with which a verifier measures; `least_gain` is the least share of the run time to measure for."""

    layer_times: Callable[[Any, Sequence[Any], float], LayerTimes] = layer_times
    compare_layer: Callable[[Tuned, Choice, KernelBinder, Callable[[Call], Call]], Choice] = compare_with_pytorch
    measure_ratio: Callable[[Any, Any, Sequence[Any], float, Deadline], SpeedRatio | None] = measure_ratio
    meter: Callable[[], LoadMeter] = LoadMeter
    least_gain: float = LEAST_GAIN


class NetworkVerifier:
    """Verifies one network, or one part of it, until a deadline."""

    def __init__(self, selection: LayerSelection, deadline: Deadline, stopwatch: Stopwatch, device: Device,
                 tools: VerifierTools = VerifierTools()) -> None:
        """The deadline's clock is the stopwatch, which runs while the caller verifies and compares."""
        self.deadline = deadline
        self.stopwatch = stopwatch
        self.has_measured = False  # stays False where an earlier report on the network is remembered
        self._tools = tools
        self._selection = selection
        self._device = device
        self._layers: dict[Problem, Tuned] = {}
        self._say = selection.predictor.progress

    def choose(self, layers: Sequence[Tuned]) -> list[Choice]:
        """The known choices, and proposals for the other layers; `verify` verifies these layers."""
        self._layers.update((layer.problem, layer) for layer in reversed(layers))
        return self._selection.choose(layers, self._device)

    def _propose(self, layers: Sequence[Tuned]) -> list[Choice]:
        self._layers.update((layer.problem, layer) for layer in reversed(layers))
        return self._selection.propose(layers, self._device)

    def verify(self, compiler: GraphCompiler, compiled: CompiledGraph, examples: Sequence[Any],
               prepare: Callable[[], object]) -> CompiledGraph:
        """Return the faster of the predicted network and the one with verified layers.

        The caller compiled `compiled` with `choose`. `prepare` is called before the layers are verified, because the
        seconds that it takes, such as Inductor's compilation, are not known before.
        """
        memory = self._selection.memory(self._device)
        report = self._remembered(memory, compiler, compiled)
        if report is not None:
            return replace(compiled, verification=report)
        self.has_measured = True
        meter, predicted = self._tools.meter(), compiled
        if any(self._known(choice.problem) for choice in compiled.choices):
            proposed = compiler.compile(self._propose)
            assert proposed is not None
            predicted = proposed
        times = self._tools.layer_times(predicted.graph, examples, TIMES_SHARE * self.deadline.seconds)
        prepare()
        verified, without_gain = self._verify_layers(times, compiler.binder, memory)
        self._compare(times, compiler.binder)
        result, speed, note = self._faster(compiler, predicted, examples, times.run)
        ratio, spread = (None, 0.0) if speed is None else (speed.ratio, speed.spread)
        loaded = meter.load().heavy
        report = NetworkVerification(self.deadline.seconds, self.deadline.elapsed, len(self._layers), verified,
                                     without_gain, ratio, spread, note, loaded)
        self._say(str(report))
        digest = compiler.digest(result.choices)
        self._selection.reports[digest] = report
        if note:  # the winners of the layers are remembered; the next process compares the networks
            return replace(result, verification=report)
        self._keep(*result.choices)
        if not loaded:
            memory.keep(result.choices)
            memory.keep_answer(f"verification of {digest}", asdict(report))
        return replace(result, verification=report)

    def _remembered(self, memory: ChoiceMemory, compiler: GraphCompiler,
                    compiled: CompiledGraph) -> NetworkVerification | None:
        """The report on a network that was verified before; None where a choice is not known or there is no report."""
        if not all(self._known(choice.problem) for choice in compiled.choices):
            return None
        digest = compiler.digest(compiled.choices)
        if digest in self._selection.reports:
            return self._selection.reports[digest]
        with suppress(FormatError):
            return NetworkVerification.of_json(memory.find_answer(f"verification of {digest}"))
        return None

    def _verify_layers(self, times: LayerTimes, binder: KernelBinder, memory: ChoiceMemory) -> tuple[int, int]:
        """Verify the layers that may gain; return how many are verified, now or before, and how many may not gain."""
        unverified = [problem for problem in self._layers
                      if (choice := self._known(problem)) is None or not choice.verified]
        gains = {problem: possible_gain(self._proposal(problem), times) for problem in unverified}
        waiting = sorted((problem for problem, gain in gains.items() if gain >= self._tools.least_gain * times.steps),
                         key=lambda problem: -gains[problem])
        verified, total = len(self._layers) - len(gains), len(waiting)
        starts = [START_SECONDS]  # what each verification took beyond its seconds
        while waiting:
            seconds = self._next_share([gains[problem] for problem in waiting], mean(starts),
                                       self._reserve(times, COMPARED_RUNS + NETWORK_RUNS))
            if not seconds:
                break
            problem, *waiting = waiting
            self._say(f"{self.deadline.left:.0f} s left: layer {total - len(waiting)} of {total} that may gain, "
                      f"{problem.brief()}, for {seconds:.1f} s")
            before, meter = self.deadline.elapsed, self._tools.meter()
            choice = self._selection.predictor.verify(self._proposal(problem), self._device, seconds)
            if choice is not None:
                verified += 1
                if choice.configuration is not None:
                    choice = self._compared(choice, binder, times) or choice
                self._keep(choice)
                if meter.load().heavy:
                    self._say("other work had much of the machine meanwhile: another call measures this layer again")
                else:
                    memory.keep([choice])
            starts.append(max(0.0, self.deadline.elapsed - before - seconds))
        return verified, len(gains) - total

    def _known(self, problem: Problem) -> Choice | None:
        return self._selection.known.get((self._device.key, problem))

    def _proposal(self, problem: Problem) -> Choice:
        (choice,) = self._propose([self._layers[problem]])
        return choice

    def _keep(self, *choices: Choice) -> None:
        self._selection.known.update(((self._device.key, choice.problem), choice) for choice in choices)

    def _reserve(self, times: LayerTimes, runs: int = NETWORK_RUNS) -> float:
        """The seconds to keep free for later work that takes about `runs` runs of the network."""
        return min(NETWORK_SHARE * self.deadline.seconds, runs * times.run)

    def _next_share(self, gains: Sequence[float], start: float, reserve: float) -> float:
        """The seconds for verifying the first layer, which has the largest gain; 0 where too few are left.

        `start` is what a verification takes beyond its seconds. It may also take OVERRUN times its seconds, and then
        must still end within OVERRUN times the budget, less the reserve.
        """
        left = self.deadline.left - reserve
        least = min(LEAST_SECONDS, self._selection.seconds)
        most = min(self._selection.seconds, (self.deadline.scaled(OVERRUN).left - reserve - start) / OVERRUN)
        if most < least:
            return 0.0
        share = divide(gains, left, least + start, most + start)[0]
        return max(0.0, share - start)

    def _compared(self, choice: Choice, binder: KernelBinder, times: LayerTimes) -> Choice | None:
        """The choice with its time beside that of PyTorch's operation; None where no time is left for both."""
        problem, reserve = choice.problem, self._reserve(times)
        if COMPARED_RUNS * times.layers.get(problem, 0.0) < self.deadline.left - reserve:
            with suppress(OutOfTime):
                return self._tools.compare_layer(self._layers[problem], choice, binder, partial(
                    guarded, deadline=self.deadline, reserve=reserve))
        return None

    def _compare(self, times: LayerTimes, binder: KernelBinder) -> None:
        """Compare the other layers with PyTorch's operation, the longest first; a second time where that is faster."""
        longest = sorted((problem for problem, seconds in times.layers.items() if seconds >= LEAST_SHARE * times.steps),
                         key=lambda problem: -times.layers[problem])
        for problem in longest:
            choice = self._known(problem) or self._proposal(problem)
            if choice.configuration is not None and choice.seconds is None:
                measured = self._compared(choice, binder, times)
                if measured is not None:
                    self._keep(measured)
        for problem in times.layers:
            choice = self._known(problem) or self._proposal(problem)
            if choice.slower:
                self._say(f"a second look at {problem.brief()}")
                self._keep(self._compared(choice, binder, times) or replace(choice, slower=False))

    def _faster(self, compiler: GraphCompiler, predicted: CompiledGraph, examples: Sequence[Any],
                run_seconds: float) -> tuple[CompiledGraph, SpeedRatio | None, str]:
        """The network with the known choices, or the predicted one where it is faster; their speed ratio, and a note.

        There is no ratio where both have the same configurations, or where the note says why.
        """
        chosen = {choice.problem: self._known(choice.problem) or choice for choice in predicted.choices}
        equal = {choice.problem for choice in predicted.choices
                 if choice.configuration == chosen[choice.problem].configuration}
        same = replace(predicted, choices=tuple(
            chosen[choice.problem] if choice.problem in equal else choice for choice in predicted.choices))
        if len(equal) == len(chosen):
            return same, None, ""
        verified = compiler.compile(self.choose)
        assert verified is not None
        self._say(f"{self.deadline.left:.0f} s left: the predicted and the verified network in turns")
        speed = self._tools.measure_ratio(predicted.graph, verified.graph, examples, run_seconds, self.deadline)
        if speed is None:
            return same, None, UNDECIDED
        return (same if speed.ratio < 1 else verified), speed, ""


def possible_gain(proposal: Choice, times: LayerTimes) -> float:
    """The seconds of a run that a better configuration of a layer may save; in 90 % of all cases it saves less."""
    if proposal.configuration is None:  # no kernel solves it
        return 0.0
    uncertainty = UNKNOWN if proposal.confidence is None else 1 - proposal.confidence.low
    return uncertainty * times.layers.get(proposal.problem, 0.0)
