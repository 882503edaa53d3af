"""The kernels that a model gets; a layer that cannot be tuned is reported."""

from __future__ import annotations

import copy
import math
import os
import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqtune.api import predict
from seqtune.data.record import Measurement, Status
from seqtune.errors import CheckpointError, MisuseError, SeqtuneError, SeqtuneWarning
from seqtune.integrations.pytorch.hook.optimization import Optimizer, optimize
from seqtune.integrations.pytorch.hook.tools import Tools
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.from_torch import from_module
from seqtune.networks.optimized import Optimized
from seqtune.networks.selection.choices import Choice
from seqtune.networks.selection.layer_comparison import compare_with_pytorch
from seqtune.networks.selection.layer_predictor import LayerPredictor, fastest
from seqtune.networks.selection.peer_layers import PeerConvolution, PeerProduct
from seqtune.networks.selection.reports import GraphVerdict
from seqtune.networks.verification.peer_comparison import PeerComparison
from seqtune.networks.verification.peer_graph import PeerGraph
from seqtune.networks.verification.verifier import NetworkVerifier, VerifierTools
from seqtune.predictor.answering import Answering, answering
from seqtune.pytorch import explain
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.load import LoadMeter
from seqtune.tuner.measuring.timed_calls import time_calls
from seqtune.tuner.measuring.verification import Verdict, decide
from tests.support.llvm import needs_llvm
from tests.support.networks.fakes import BusyMeter, IdleMeter, Unverified, times_of
from tests.support.torch_models import norm_net, same

pytestmark = needs_llvm


Timer = Callable[..., Mapping[str, Sequence[float]]]


class Proposing(LayerPredictor):
    """A predictor whose verifications find the proposal."""

    __slots__ = ()

    def verify(self, proposal: Choice, device: Device, seconds: float) -> Choice:
        """The proposal."""
        return replace(proposal, verified=True)


@pytest.fixture
def verified(checkpoint: Path, tmp_path: Path) -> Callable[..., Optimized]:
    """`optimize` with proposals in place of verifications, and with timers of layers and of networks."""
    def made(model: nn.Module, example: Any, layers: Timer = time_calls, networks: Timer = time_calls,
             meter: Callable[[], LoadMeter] = IdleMeter,
             network_meter: Callable[[], LoadMeter] | None = None) -> Optimized:
        tools = VerifierTools(compare_layer=partial(compare_with_pytorch, timer=layers), meter=meter, least_gain=0.0)
        return Optimizer(
            "llvm:1", compare="eager", journal=tmp_path / "journal.sqlite", checkpoint=checkpoint,
            tools=Tools(Proposing, partial(NetworkVerifier, tools=tools), partial(
                PeerComparison, timer=networks, meter=network_meter or meter))).optimize(model, example)

    return made


def test_verified_layers_are_measured_beside_pytorch_s(checkpoint: Path, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, 10)).eval()
    x = torch.randn(1, 16, 8, 8)
    fast = optimize(model, x, device="llvm:1", seconds=0.1, checkpoint=checkpoint, journal=tmp_path / "j.sqlite",
                    compare="eager")
    assert same(fast, model, x)
    for choice in fast.choices:
        assert choice.seconds is not None
        assert choice.pytorch_seconds is not None


def test_a_layer_that_is_slower_in_both_looks_is_kept_if_the_network_gains(
        verified: Callable[..., Optimized], tmp_path: Path) -> None:
    looks = iter([0.5, 0.5, 2.0])  # with PyTorch's layers the network is faster; then with PyTorch's code it is slower
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    fast = verified(model, x, times_of({"ours": [2.0] * 11, "theirs": [1.0] * 11}), lambda runs, *_: {
        name: [other] * 11 if name else [1.0] * 11 for other in [next(looks)] for name in runs})
    assert not list(looks)
    assert all(choice.configuration is None for choice in fast.choices)
    assert same(fast, model, x)
    fast.save(tmp_path / "kept.json")
    assert same(optimize(model, x, device="llvm:1", saved=tmp_path / "kept.json"), model, x)


def test_a_busy_machine_while_layers_are_compared_in_the_network_is_told(verified: Callable[..., Optimized]) -> None:
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    meters = iter([BusyMeter(), IdleMeter()])  # while PyTorch's layers are compared, and while its whole form is
    with pytest.warns(SeqtuneWarning, match="was measured while other work had much of the machine"):
        fast = verified(model, x, times_of({"ours": [2.0] * 11, "theirs": [1.0] * 11}),
                        times_of({"": [1.0] * 11, "theirs": [1.01] * 11}), network_meter=lambda: next(meters))
    assert not list(meters)
    assert "other work had much of the machine meanwhile" in str(explain(fast, x))


def test_a_layer_is_not_kept_if_the_network_does_not_gain(
        verified: Callable[..., Optimized]) -> None:
    fast = verified(norm_net(), torch.randn(1, 3, 20, 20), times_of({"ours": [2.0] * 11, "theirs": [1.0] * 11}),
                    times_of({"": [1.0] * 11, "theirs": [1.01] * 11}))
    assert all(choice.slower and choice.configuration is not None for choice in fast.choices)


def test_one_slow_look_is_no_evidence(verified: Callable[..., Optimized]) -> None:
    looks = Counter[str]()

    def time_layers(runs: Mapping[str, object], *_: object) -> dict[str, tuple[float, ...]]:
        looks["slow" if looks.total() < 2 else "quick"] += 1
        return {name: (2.0 if looks["quick"] == 0 and name == "ours" else 1.0,) * 11 for name in runs}

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    fast = verified(model, torch.randn(3, 8), time_layers)
    assert looks == {"slow": 2, "quick": 2}
    assert not any(choice.slower for choice in fast.choices)


@pytest.mark.filterwarnings("ignore:.* measured while other work:seqtune.errors.SeqtuneWarning")
@pytest.mark.parametrize("heavy", [False, True])
def test_a_second_process_measures_only_what_was_disturbed(
        verified: Callable[..., Optimized], heavy: bool) -> None:
    measured: list[str] = []
    layers, networks = (times_of({"theirs": (1.0,) * 11}, partial(measured.append, name))
                        for name in ("layer", "network"))
    model, x = nn.Linear(8, 4).eval(), torch.randn(3, 8)
    first = verified(model, x, layers, networks, BusyMeter if heavy else IdleMeter)
    assert measured == ["layer", "network"]
    second = verified(model, x, layers, networks, BusyMeter if heavy else IdleMeter)
    assert measured == ["layer", "network"] * (2 if heavy else 1)
    assert second.choices == first.choices


@pytest.mark.skipif(not torch._C._has_mkldnn, reason="this PyTorch has no oneDNN")
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_kept_computes_the_same_packed_or_not(packed: bool) -> None:
    conv, linear = nn.Conv2d(6, 8, (3, 2), (2, 1), (1, 0), (1, 2), 2), nn.Linear(6, 5)
    x, row = torch.randn(2, 6, 9, 8), torch.randn(2, 3, 6)
    problem = from_module(conv, x.shape, layout="NHWC")
    relu = Problem.make("conv2d", **{**dict(problem.features), "activation": "relu"})
    with torch.no_grad():
        for asked, wanted in ((problem, conv(x)), (relu, conv(x).relu())):
            kept = PeerConvolution(asked, conv.weight.detach(), conv.bias, packed)
            assert torch.allclose(kept(x), wanted, atol=1e-5)
        product = PeerProduct(from_module(linear, row.shape), linear.weight.detach(), linear.bias, packed)
        assert torch.allclose(product(row), linear(row), atol=1e-5)


@pytest.mark.parametrize("networks", [False, True])
def test_what_was_measured_on_a_busy_machine_is_told(
        networks: bool, verified: Callable[..., Optimized], tmp_path: Path) -> None:
    """The machine is busy while the layers are verified, or while the networks are compared."""
    model, x, timer = nn.Linear(8, 4).eval(), torch.randn(3, 8), times_of({"theirs": (1.0,) * 11})
    with pytest.warns(SeqtuneWarning, match="this Linear was measured while other work had much of the machine"):
        fast = verified(model, x, timer, timer, *((IdleMeter, BusyMeter) if networks else (BusyMeter, IdleMeter)))
    assert str(explain(fast, x)).count("other work had much of the machine meanwhile") == 1
    fast.save(tmp_path / "choice.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeqtuneWarning)
        again = optimize(model, x, device="llvm:1", saved=tmp_path / "choice.json")  # measures nothing
        verified(model, x, timer, timer)
    assert str(explain(again, x)).count("other work had much of the machine meanwhile") == 1


@pytest.mark.parametrize(("model", "example", "says"), [
    (nn.Conv2d(3, 3, 1), torch.randn(1, 3, 4, 4), "training mode"),
    (nn.Conv2d(3, 3, 1).half().eval(), torch.randn(1, 3, 4, 4), "torch.float16"),
    (nn.Conv2d(3, 3, 1).double().eval(), torch.randn(1, 3, 4, 4), "torch.float64"),
    (nn.Conv2d(3, 3, 1).eval(), torch.randn(1, 3, 4, 4).double(), "example input is of torch.float64"),
    (nn.Conv2d(3, 3, 1, device="meta").eval(), torch.randn(1, 3, 4, 4), "on meta"),
    (nn.ReLU().eval(), torch.randn(3), "no layer of this ReLU"),
    (nn.Conv2d(3, 3, 1).eval(), "an image", "must be a tensor"),
    (nn.Conv2d(3, 3, 1).eval(), (), "must be a tensor"),
    (nn.Conv2d(3, 3, 1).eval(), 5, "must be a tensor"),
    (torch.relu, torch.randn(3), "not a torch.nn.Module"),
])
def test_what_cannot_be_optimised_is_refused_in_one_line(model: Any, example: Any, says: str) -> None:
    with pytest.raises(MisuseError) as caught:
        optimize(model, example)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_device_that_has_memory_of_its_own_is_refused() -> None:
    with pytest.raises(MisuseError, match="llvm device"):
        optimize(norm_net(), torch.randn(1, 3, 20, 20), device=Device("opencl:0", "opencl", "x", "y"))


def test_what_would_part_a_model_from_its_kernels_is_refused(quick: Callable[..., Optimized]) -> None:
    fast = quick(nn.Conv2d(3, 3, 1).eval(), torch.randn(1, 3, 4, 4))
    for deed in (fast.train, fast.double, lambda: copy.deepcopy(fast), lambda: pickle.dumps(fast),
                 lambda: optimize(fast, torch.randn(1, 3, 4, 4))):
        with pytest.raises(MisuseError):
            deed()
    assert not fast.eval().training


def test_changed_weights_are_never_answered_with_the_old_ones(quick: Callable[..., Optimized]) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    example = torch.randn(1, 3, 8, 8)
    fast = quick(model, example)
    with pytest.raises(MisuseError, match="optimise it again"):
        fast.load_state_dict(fast.state_dict())
    for changed, expected in ((dict(fast.named_parameters()), dict(model.named_parameters())),
                              (dict(fast.named_buffers()), dict(model.named_buffers()))):
        name = next(iter(expected))
        with torch.no_grad():
            next(weight for key, weight in changed.items() if key.endswith(name)).mul_(1.5)
            expected[name].mul_(1.5)
            with pytest.warns(SeqtuneWarning, match="weights of an optimised model were changed"):
                assert torch.allclose(fast(example), model(example), atol=1e-5)


def test_what_is_done_with_the_original_does_not_matter(quick: Callable[..., Optimized]) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()
    example = torch.randn(1, 3, 8, 8)
    expected = model(example).detach()
    fast = quick(model, example)
    if os.path.isdir("/dev/shm"):
        model.share_memory()  # its weights move
    model.load_state_dict({name: torch.zeros_like(weight) for name, weight in model.state_dict().items()})
    model.double()
    torch.testing.assert_close(fast(example), expected)


def configurations(checkpoint: Path) -> list[Configuration]:
    """Three configurations of a small problem; the last one is the safe default."""
    answer = predict(Problem.make("gemm", m=8, n=32, k=32), "llvm:1", 3, checkpoint=checkpoint)
    default = answer.default.configuration
    return [*[one.configuration for one in answer.candidates if one.configuration != default][:2], default]


def verdict_of(default: Configuration, measurements: Mapping[Configuration, Measurement]) -> Verdict:
    """The verdict of a verification with these measurements."""
    return decide(measurements, default, measurements)


@pytest.mark.parametrize(("first", "second", "default", "chosen"), [
    ([1.0] * 18, [0.995] * 18, [2.0] * 18, 0),  # a lead within the margin
    ([1.0, 1.2] * 9, [1.2, 1.0] * 8 + [1.2, 0.9], [2.0] * 18, 0),  # the least time, by luck
    ([1.0] * 18, [0.9] * 18, [0.8] * 18, 2), ([1.0] * 18, [0.8] * 18, [0.9] * 18, 1),
    ([1.0] * 3, [0.6] * 18, [0.9] * 18, 1),  # so slow alone that it was not compared
    ([1.0] * 3, [0.9] * 18, [0.9] * 18, 0),
    (None, [0.9] * 18, [0.8] * 18, 2), (None, None, [0.8] * 18, 2)])
def test_another_configuration_than_the_proposed_one_needs_evidence(
        checkpoint: Path, first: list[float] | None, second: list[float] | None, default: list[float] | None,
        chosen: int) -> None:
    *distinct, safe = configurations(checkpoint)
    measured = (*distinct[:2], safe)
    verdict = verdict_of(safe, {configuration: Measurement(Status.CORRECTNESS) if samples is None else
                                Measurement(Status.CORRECT, tuple(samples))
                                for configuration, samples in zip(measured, (first, second, default), strict=True)})
    assert fastest(verdict, measured[:2], measured[0]) == measured[chosen]


def test_a_proposal_that_was_not_measured_is_kept_unless_the_first_candidate_is_beaten(checkpoint: Path) -> None:
    first, second, third = configurations(checkpoint)
    one, other = (Measurement(Status.CORRECT, (seconds,) * 18) for seconds in (1.0, 0.5))
    assert fastest(verdict_of(first, {first: one, second: one}), (first, second), third) == third
    assert fastest(verdict_of(first, {first: one, second: other}), (first, second), third) == second


def test_a_proposal_for_which_no_time_was_left_is_kept(checkpoint: Path) -> None:
    proposed, *_, default = configurations(checkpoint)
    late = verdict_of(default, {default: Measurement(Status.CORRECT, (1.0,) * 6)})
    assert fastest(late, (proposed,), proposed) == proposed


@pytest.mark.parametrize(("example", "says"), [
    (torch.randn(1, 3, 4, 4), "results differ by"),
    (torch.full((1, 3, 4, 4), math.nan), "take an example with finite results")])
def test_a_wrong_result_is_never_returned(example: torch.Tensor, says: str, checkpoint: Path) -> None:
    zeros = PeerGraph("inductor", lambda x: (torch.zeros(1, 3, 4, 4),))
    tools = Tools(verifier=Unverified, comparison=partial(
        PeerComparison, known=GraphVerdict("inductor", 1.0, 0.5, True), inductor=lambda module, examples: zeros,
        share=lambda: 1.0))
    with pytest.raises(SeqtuneError, match=says):
        Optimizer("llvm:1", checkpoint=checkpoint, tools=tools).optimize(nn.Conv2d(3, 3, 1).eval(), example)


def test_attention_that_a_checkpoint_does_not_know_is_predicted_without_it(checkpoint: Path) -> None:
    asked: list[tuple[str, object]] = []

    def answered(problem: Problem, device: Device, name: str | Path | None = None) -> Answering:
        asked.append((problem.type, name))
        if problem.type == "attention" and name == checkpoint:
            raise CheckpointError("attention is not in it")
        return answering(problem, device, name)

    said: list[str] = []
    predictor = LayerPredictor(checkpoint, None, said.append, answered)
    problems = [*(Problem.make("gemm", m=5, n=size, k=24, trans_b="yes") for size in (24, 72)),
                Problem.make("attention", n=1, heads=3, q_len=5, kv_len=5, head_dim=8, value_dim=8)]
    choices = predictor.predict(problems, find("llvm:1"))
    assert [choice.problem for choice in choices] == problems
    assert all(choice.configuration is not None for choice in choices)
    assert [name for kind, name in asked if kind == "attention"] == [checkpoint, None]
    assert [line for line in said if "attention is not in it" in line]
    assert "predicting 2 layers: gemm" in said, "the linear layers are predicted together"
    assert len(asked) == len(problems) + 1, "who answers a layer is asked once"
