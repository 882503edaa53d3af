"""The layers of networks in the form in which they are timed, and contestants with bias and ReLU6."""

from __future__ import annotations

import pytest

from benchmarks.common.contest import convolution_contestants, our_contestant, with_relu6
from benchmarks.common.layer_sets import LAYER_SETS, described
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.networks.program.device_threads import binder_of, device_for_threads
from seqtune.tuner.measuring.timing import prepare

RESNET, MOBILENET = LAYER_SETS["resnet18"], LAYER_SETS["mobilenet_v2"]


def test_mobilenet_s_layers_have_bias_and_all_but_projections_relu6() -> None:
    layers = MOBILENET.layers()
    assert len(layers) == 30
    assert {problem["layout"] for problem in layers.values()} == {"NHWC"}
    assert {problem["bias"] for problem in layers.values()} == {"yes"}
    without = [described(problem) for problem in layers.values() if not MOBILENET.has_relu6(problem)]
    assert len(without) == 12
    assert without[0] == "1×1, 32 → 16, 112 × 112"
    assert described(layers["C1"]) == "3×3 / 2, 3 → 32, 224 × 224"
    assert described(layers["C5"]) == "3×3 / 2, depthwise 96, 112 × 112"
    strides = {(problem.size("stride_h"), problem.size("h")) for problem in layers.values()
               if problem.size("groups") > 1}
    assert strides == {(1, 112), (2, 112), (1, 56), (2, 56), (1, 28), (2, 28), (1, 14), (2, 14), (1, 7)}


def test_resnet_s_layers_stand_alone_and_are_chosen_by_number() -> None:
    assert list(RESNET.layers((2, 12))) == ["C2", "C12"]
    assert not any(RESNET.has_relu6(problem) or problem["bias"] == "yes" for problem in RESNET.layers().values())
    with pytest.raises(MisuseError, match="the layers of ResNet-18 are numbers from 1 to 12"):
        RESNET.layers((13,))


@pytest.mark.parametrize("groups", [1, 16])
def test_contestants_with_bias_and_relu6_compute_the_same(groups: int) -> None:
    problem = Problem.make("conv2d", c=16, h=6, w=5, k=16, r=3, s=3, pad_h=1, pad_w=1, groups=groups, layout="NHWC",
                           bias="yes", activation="relu")
    operands, plain = prepare(problem)
    expected = with_relu6(plain)
    assert plain.y.max() > expected.y.max() == 6.0
    assert all(peer.error < 1e-5 for peer in convolution_contestants(problem, operands, expected, relu6=True))
    binder = binder_of(device_for_threads(1))
    default = SearchSpace(kernel("llvm.direct"), problem, binder.device).default
    ours = our_contestant(binder, problem, operands, expected, default, "llvm.direct", relu6=True)
    assert ours.error < 1e-5
    assert ours.step is not None
    assert 0 < ours.step() < 1
    with pytest.raises(SeqtuneError, match="computes a wrong result"):
        our_contestant(binder, problem, operands, expected, default, "llvm.direct")
