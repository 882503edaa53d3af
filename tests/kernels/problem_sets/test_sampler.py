from __future__ import annotations

import pytest

from seqtune.errors import ProblemError
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.networks import NETWORKS, network
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.problem_sets.similarity import near


@pytest.mark.parametrize("type_name", ["conv2d", "gemm"])
def test_a_sample_is_seeded_distinct_and_bounded(type_name: str) -> None:
    sample = sample_problems(type_name, 150, seed=1)
    assert sample == sample_problems(type_name, 150, seed=1)
    assert sample[:40] == sample_problems(type_name, 40, seed=1)  # a larger sample continues a smaller one
    assert sample != sample_problems(type_name, 150, seed=2)
    assert len(set(sample)) == 150
    assert all(problem.type == type_name and problem["dtype"] == "fp32" for problem in sample)
    work = operation(type_name)
    assert all(work.least_flop <= problem.size("flop") <= work.most_flop for problem in sample)


def test_sampled_convolutions_vary_as_those_of_networks_do() -> None:
    sample = sample_problems("conv2d", 400, seed=0)
    shares = {
        "NHWC": sum(problem["layout"] == "NHWC" for problem in sample),
        "stride 2": sum(problem["stride_h"] == 2 for problem in sample),
        "grouped": sum(problem.size("groups") > 1 for problem in sample),
        "odd width": sum(problem.size("out_w") % 2 for problem in sample),
        "batch": sum(problem.size("n") > 1 for problem in sample),
    }
    assert all(20 <= count <= 220 for count in shares.values()), shares
    assert {problem["r"] for problem in sample} == {1, 3, 5, 7}
    assert any(problem["dilation_h"] == 2 for problem in sample)
    assert any(problem["groups"] == problem["c"] != 1 for problem in sample)
    assert sum(problem.size("k") % 8 == 0 for problem in sample) > 250


def test_no_sampled_problem_is_near_one_to_avoid() -> None:
    free = sample_problems("conv2d", 200, seed=5)
    avoid = [free[3], free[60], *network("mobilenet_v2")]
    kept = sample_problems("conv2d", 200, seed=5, avoid=avoid)
    assert free[3] not in kept
    assert not any(near(problem, other) for problem in kept for other in avoid)


def test_near_is_of_one_kind_and_within_a_quarter() -> None:
    def conv(**change: int | str) -> Problem:
        return Problem.make("conv2d", **{"c": 64, "h": 40, "w": 40, "k": 64, "r": 3, "s": 3, **change})

    here = conv()
    for close in (conv(), conv(h=50), conv(c=52, k=80), conv(pad_h=1, pad_w=1), conv(h=None)):  # type: ignore[arg-type]
        assert near(here, close)
        assert near(close, here)
    for far in (
        conv(h=51),
        conv(c=51),
        conv(n=2),
        conv(stride_h=2),
        conv(r=1),
        conv(layout="NHWC"),
        conv(groups=64),
        conv(groups=2),
        conv(dilation_w=2),
    ):
        assert not near(here, far)
        assert not near(far, here)
    assert not near(here, Problem.make("gemm", m=64, n=64, k=64))
    assert near(Problem.make("gemm", m=64, n=64, k=64), Problem.make("gemm", m=80, n=60, k=52))
    assert not near(Problem.make("gemm", m=64, n=64, k=64), Problem.make("gemm", m=64, n=64, k=64, trans_b="yes"))
    assert not near(Problem.make("recorded", size=4), Problem.make("recorded", size=5))


def test_what_cannot_be_sampled_is_refused() -> None:
    with pytest.raises(ProblemError, match="recorded has no sampler"):
        sample_problems("recorded", 3, 0)
    with pytest.raises(ProblemError, match="found only"):
        sample_problems(
            "gemm",
            3,
            0,
            avoid=[
                Problem.make("gemm", m=None, n=None, k=None, trans_a=a, trans_b=b)
                for a in ("no", "yes")
                for b in ("no", "yes")
            ],
        )  # near every size


def test_resnet18_is_the_table_of_autotvm() -> None:
    layers = network("resnet18")
    assert len(layers) == 12
    assert layers[0] == Problem.make(
        "conv2d", c=3, h=224, w=224, k=64, r=7, s=7, pad_h=3, pad_w=3, stride_h=2, stride_w=2
    )
    assert layers[11] == Problem.make("conv2d", c=512, h=7, w=7, k=512, r=3, s=3, pad_h=1, pad_w=1)
    assert [problem.size("out_h") for problem in layers] == [112, 56, 56, 28, 28, 28, 14, 14, 14, 7, 7, 7]


def test_networks_have_their_known_work() -> None:
    # multiply-adds of all layers, repeats counted: VGG-16's 13 convolutions have 15.35 G, of which 9 are distinct
    assert sum(problem.size("flop") for problem in NETWORKS["vgg16"](1)) / 2e9 == pytest.approx(15.35, rel=0.01)
    assert sum(problem.size("flop") for problem in NETWORKS["resnet50"](1)) / 2e9 == pytest.approx(4.09, rel=0.01)
    assert sum(problem.size("flop") for problem in NETWORKS["mobilenet_v2"](1)) / 2e9 == pytest.approx(0.300, rel=0.02)
    assert [len(network(name)) for name in ("resnet50", "vgg16", "mobilenet_v2")] == [23, 9, 30]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_distinct_problems_and_takes_a_batch(name: str) -> None:
    single, many = network(name), network(name, batch=8)
    assert len(set(single)) == len(single) == len(many)
    rows = "m" if single[0].type == "gemm" else "n"
    assert [problem.size(rows) * 8 for problem in single] == [problem.size(rows) for problem in many]
    assert [problem.size("flop") * 8 for problem in single] == [problem.size("flop") for problem in many]
