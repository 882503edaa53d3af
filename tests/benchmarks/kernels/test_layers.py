"""The layers of the problem sets in the form in which they are timed, their contestants, and a small contest."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.kernels import layers
from benchmarks.kernels.layer import Layer, OurKernel, our_contestant
from benchmarks.kernels.peers import peers_of
from benchmarks.kernels.problem_sets import ONEDNN, PROBLEM_SETS, READ, copies_of
from seqtune.errors import SeqtuneError
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.networks.program.device_threads import device_for_threads

RESNET, MOBILENET, LINEAR = (PROBLEM_SETS[name] for name in ("resnet18", "mobilenet_v2", "linear"))


def test_few_rows_find_no_weights_in_the_caches() -> None:
    few, many = (copies_of(Problem.make("gemm", m=m, n=1024, k=1024)) for m in (8, 64))
    assert (few, many) == (64, 1)
    problem = Problem.make("gemm", m=8, n=3, k=5, trans_b="yes")
    layer = replace(Layer.of(problem, 1, replace(LINEAR, proposals=0)), copies=3)
    seen: list[int] = []
    run = layer.over_copies(lambda weights: lambda: seen.append(id(weights)))
    for _ in range(6):
        run()
    assert len(set(seen[:3])) == 3
    assert seen[:3] == seen[3:]


@pytest.mark.parametrize("groups", [1, 16])
def test_contestants_with_bias_and_relu6_compute_the_same(groups: int) -> None:
    problem = Problem.make("conv2d", c=16, h=6, w=5, k=16, r=3, s=3, pad_h=1, pad_w=1, groups=groups, layout="NHWC",
                           bias="yes", activation="relu")
    layer, plain = Layer.of(problem, 1, MOBILENET), Layer.of(problem, 1, RESNET)
    assert plain.expected.y.max() > layer.expected.y.max() == 6.0
    peers = peers_of(layer, [*ONEDNN, "conv2d_nchw"])
    assert len(peers) == 3
    assert all(peer.error < 1e-5 for peer in peers)
    device = device_for_threads(1)
    ours = OurKernel("llvm.direct", problem, device, SearchSpace(kernel("llvm.direct"), problem, device).default)
    with ExitStack() as stack:
        contestant = our_contestant(ours, layer, stack)
        assert contestant.error < 1e-5
        assert contestant.details["kernel"] == "llvm.direct"
        assert contestant.step is not None
        assert 0 < contestant.step() < 1
        with pytest.raises(SeqtuneError, match="computes a wrong result"):
            our_contestant(ours, replace(plain, relu6=True), stack)


@pytest.mark.parametrize("transposed", ["no", "yes"])
def test_products_of_pytorch_are_checked_and_reading_is_not(transposed: str) -> None:
    problem = Problem.make("gemm", m=4, n=6, k=5, trans_b=transposed)
    layer = Layer.of(problem, 1, PROBLEM_SETS["products"])
    contestants = {contestant.method: contestant for contestant in peers_of(
        layer, ["mm", "linear", "onednn_packed", "mkl_packed", READ])}
    assert {"mm", "linear", READ} <= contestants.keys()
    assert all(contestant.error < 1e-5 for contestant in contestants.values())
    read: Any = contestants[READ].run()
    assert float(read) == pytest.approx(float(layer.operands["weights"].sum()), abs=1e-4)


def test_a_contest_has_a_row_for_each_method_and_the_limit_of_the_machine() -> None:
    problem, device = Problem.make("gemm", m=2, n=8, k=16, trans_b="yes"), device_for_threads(1)
    default = SearchSpace(kernel("llvm.gemm"), problem, device).default
    rows = layers.contest("toy", replace(LINEAR, proposals=0), problem, device,
                          [OurKernel("proposal 1", problem, device, default)], rounds=1)
    seconds = {row["method"]: row["seconds"] for row in rows}
    assert {"linear", "read", "proposal 1", "machine"} <= seconds.keys()
    assert seconds["machine"] == max(seconds["read"], problem.size("flop") / device.peak_gflops / 1e9)
    assert {(row["layer"], row["threads"]) for row in rows} == {("toy", 1)}


def test_a_built_kernel_takes_part_by_its_call_from_python_and_its_function_in_c() -> None:
    problem, device = Problem.make("gemm", m=2, n=8, k=16), device_for_threads(1)
    default = SearchSpace(kernel("llvm.gemm"), problem, device).default
    rows = layers.contest("toy", replace(PROBLEM_SETS["built"], peers=("onednn", "mm")), problem, device,
                          [OurKernel("llvm.gemm", problem, device, default)], rounds=1)
    methods = {row["method"]: row for row in rows}
    assert {*methods} - {"C llvm.gemm"} == {"mm", "Python llvm.gemm"}  # oneDNN's is of convolutions
    assert ("C llvm.gemm" in methods) is bool(shutil.which("cc"))
    assert methods["Python llvm.gemm"]["kernel"] == "llvm.gemm"
