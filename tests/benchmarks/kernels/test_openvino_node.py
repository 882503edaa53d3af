"""OpenVINO's time of one layer, with a stand-in for OpenVINO."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.common.contest import Contestant
from benchmarks.kernels.layer import Layer
from benchmarks.kernels.openvino_node import Turns, node_rows
from benchmarks.kernels.problem_sets import NODE, PROBLEM_SETS, STEP
from seqtune.errors import SeqtuneError
from seqtune.kernels.problem import Problem

PRODUCT = Problem.make("gemm", m=3, n=5, k=7, trans_b="yes")
CONVOLUTION = Problem.make("conv2d", c=4, h=5, w=6, k=8, r=1, s=1, stride_h=2, groups=2, layout="NHWC")
FUSED = Problem.make("conv2d", **{**dict(CONVOLUTION), "bias": "yes", "activation": "relu"})
OURS = Contestant("llvm.gemm", int, 0.0, step=lambda: 3e-6)


class StandIn:
    """A model of one layer whose node takes 102 microseconds in the first run and then 6, beside a node `beside`."""

    def __init__(self, node_type: str, wrong: bool, beside: str, kernel: str) -> None:
        self.node_type, self.wrong, self.beside, self.kernel = node_type, wrong, beside, kernel
        self.settings: dict[str, Any] = {}
        self.Type = SimpleNamespace(f32="f32")
        self.opset13 = SimpleNamespace(
            parameter=lambda shape, element: "x", constant=lambda array: array,
            matmul=lambda x, b, a_turned, b_turned: lambda given: given @ (b.T if b_turned else b),
            group_convolution=self.convolution,
            add=lambda node, bias: lambda given: node(given) + bias,
            clamp=lambda node, low, high: lambda given: np.clip(node(given), low, high),
            convert=lambda array, element: array.astype(np.float32), multiply=lambda array, factor: array * factor,
            fake_quantize=lambda x, *limits: x)

    def convolution(self, x: str, weights: Any, strides: Any, begin: Any, end: Any, dilations: Any) -> Any:
        """A function from x to the convolution with one pixel, in NCHW."""
        def result(given: Any) -> Any:
            groups, outputs, inputs = weights.shape[:3]
            parts = given[:, :, ::strides[0], ::strides[1]].reshape(groups, inputs, -1)
            y = np.einsum("goi,gip->gop", weights[..., 0, 0], parts)
            return y.reshape(1, groups * outputs, -(-given.shape[2] // strides[0]), given.shape[3])

        return result

    def Model(self, results: Any, parameters: Any) -> Any:  # OpenVINO's name
        """The function of the node."""
        return results[0]

    def Core(self) -> StandIn:
        """The stand-in itself."""
        return self

    def compile_model(self, function: Any, device: str, settings: dict[str, Any]) -> Any:
        """A compiled model whose request is itself."""
        self.settings = settings
        runs = 0

        def infer(inputs: Any, **_: Any) -> dict[str, Any]:
            nonlocal runs
            runs += 1
            return {"y": function(inputs[0]) + self.wrong}

        def times() -> list[Any]:
            return [SimpleNamespace(node_type=name, exec_type=self.kernel, real_time=timedelta(microseconds=mean))
                    for name, mean in ((self.node_type, (96 + 6 * runs) // runs), (self.beside, 1))]

        request = SimpleNamespace(infer=infer, get_profiling_info=times)
        return SimpleNamespace(create_infer_request=lambda: request)


SHORT = Turns(0.0, 0.0, 0.0)  # few runs in a sample, without a rest


def stand_in(monkeypatch: pytest.MonkeyPatch, node_type: str, wrong: bool = False,
             beside: str = "Reorder", kernel: str = "brgemm") -> StandIn:
    """OpenVINO, replaced."""
    openvino = StandIn(node_type, wrong, beside, kernel)
    monkeypatch.setitem(sys.modules, "openvino", openvino)
    return openvino


def layer_of(problem: Problem, name: str = "products") -> Layer:
    """Prepare a problem in the form of a set."""
    return Layer.of(problem, 2, PROBLEM_SETS[name])


@pytest.mark.parametrize(("problem", "node"), [(PRODUCT, "FullyConnected"), (CONVOLUTION, "Convolution")])
def test_the_row_has_the_time_of_the_layer_s_node_without_its_slow_first_runs(
        monkeypatch: pytest.MonkeyPatch, problem: Problem, node: str) -> None:
    openvino = stand_in(monkeypatch, node)
    step, row = node_rows("C1", layer_of(problem), OURS, SHORT)
    assert row["seconds"] == pytest.approx(6e-6)  # the profile says 22 after six runs
    assert (step["method"], step["seconds"], step["kernel"]) == (STEP, pytest.approx(3e-6), "llvm.gemm")
    assert (row["layer"], row["threads"], row["method"], row["kernel"]) == ("C1", 2, NODE, "brgemm")
    assert row["error"] < 1e-5
    assert openvino.settings["INFERENCE_NUM_THREADS"] == 2
    assert openvino.settings["INFERENCE_PRECISION_HINT"] == "f32"


def test_bias_and_relu6_belong_to_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of(FUSED, "mobilenet_v2")
    assert layer.relu6
    stand_in(monkeypatch, "Convolution")
    assert node_rows("C1", layer, OURS, SHORT)[1]["error"] < 1e-5
    with pytest.raises(SeqtuneError, match="openvino_node computes a wrong result"):
        node_rows("C1", replace(layer, relu6=False), OURS, SHORT)
    stand_in(monkeypatch, "Convolution", beside="Eltwise")
    with pytest.raises(SeqtuneError, match=r"OpenVINO computes a part of conv2d .* in a node Eltwise"):
        node_rows("C1", layer, OURS, SHORT)


def test_a_wrong_result_and_a_profile_without_the_node_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "FullyConnected", wrong=True)
    with pytest.raises(SeqtuneError, match="openvino_node computes a wrong result"):
        node_rows("C1", layer_of(PRODUCT), OURS, SHORT)
    stand_in(monkeypatch, "Reorder")
    with pytest.raises(SeqtuneError, match="OpenVINO's profile shows no node for gemm"):
        node_rows("C1", layer_of(PRODUCT), OURS, SHORT)


def test_int8_products_must_be_computed_in_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = layer_of(Problem.make("gemm", m=3, n=5, k=8, dtype="int8"), "int8")
    stand_in(monkeypatch, "FullyConnected", beside="Subgraph", kernel="brgemm_avx512_I8")
    rows = node_rows("3x5x8", layer, OURS, SHORT)
    assert [(row["layer"], row["threads"], row["method"]) for row in rows] == [("3x5x8", 2, STEP), ("3x5x8", 2, NODE)]
    assert [row["seconds"] for row in rows] == pytest.approx([3e-6, 6e-6])
    stand_in(monkeypatch, "FullyConnected", kernel="brgemm_avx512_F32")
    with pytest.raises(SeqtuneError, match="does not compute this product in int8, but by brgemm_avx512_F32"):
        node_rows("3x5x8", layer, OURS, SHORT)
