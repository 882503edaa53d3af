"""OpenVINO's time of one layer, with a stand-in for OpenVINO, and its columns in the tables of layers."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.common import openvino_layers
from benchmarks.common.contest import Contestant, with_relu6
from benchmarks.common.layer_sets import LAYER_SETS
from benchmarks.common.openvino_layers import METHOD, STEP, check_openvino, openvino_rows
from benchmarks.kernels import gemm, gemm_int8, network_layers
from seqtune.errors import SeqtuneError, UnavailableError
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import prepare

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


@pytest.fixture(autouse=True)
def short_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs in a sample, without a rest."""
    for name in ("WARM_UP_SECONDS", "SAMPLE_SECONDS", "REST_SECONDS"):
        monkeypatch.setattr(openvino_layers, name, 0.0)


def stand_in(monkeypatch: pytest.MonkeyPatch, node_type: str, wrong: bool = False,
             beside: str = "Reorder", kernel: str = "brgemm") -> StandIn:
    """OpenVINO, replaced."""
    openvino = StandIn(node_type, wrong, beside, kernel)
    monkeypatch.setitem(sys.modules, "openvino", openvino)
    return openvino


@pytest.mark.parametrize(("problem", "node"), [(PRODUCT, "FullyConnected"), (CONVOLUTION, "Convolution")])
def test_the_row_has_the_time_of_the_layer_s_node_without_its_slow_first_runs(
        monkeypatch: pytest.MonkeyPatch, problem: Problem, node: str) -> None:
    openvino = stand_in(monkeypatch, node)
    step, row = openvino_rows("C1", problem, 2, *prepare(problem), OURS)
    assert row["seconds"] == pytest.approx(6e-6)  # the profile says 22 after six runs
    assert (step["method"], step["seconds"], step["kernel"]) == (STEP, pytest.approx(3e-6), "llvm.gemm")
    assert (row["layer"], row["threads"], row["method"], row["kernel"]) == ("C1", 2, METHOD, "brgemm")
    assert row["error"] < 1e-5
    assert openvino.settings["INFERENCE_NUM_THREADS"] == 2
    assert openvino.settings["INFERENCE_PRECISION_HINT"] == "f32"


def test_bias_and_relu6_belong_to_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    operands, expected = prepare(FUSED)
    stand_in(monkeypatch, "Convolution")
    assert openvino_rows("C1", FUSED, 1, operands, with_relu6(expected), OURS, relu6=True)[1]["error"] < 1e-5
    with pytest.raises(SeqtuneError, match="openvino_node computes a wrong result"):
        openvino_rows("C1", FUSED, 1, operands, with_relu6(expected), OURS)
    stand_in(monkeypatch, "Convolution", beside="Eltwise")
    with pytest.raises(SeqtuneError, match=r"OpenVINO computes a part of conv2d .* in a node Eltwise"):
        openvino_rows("C1", FUSED, 1, operands, with_relu6(expected), OURS, relu6=True)


def test_a_wrong_result_and_a_profile_without_the_node_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "FullyConnected", wrong=True)
    with pytest.raises(SeqtuneError, match="openvino_node computes a wrong result"):
        openvino_rows("C1", PRODUCT, 1, *prepare(PRODUCT), OURS)
    stand_in(monkeypatch, "Reorder")
    with pytest.raises(SeqtuneError, match="OpenVINO's profile shows no node for gemm"):
        openvino_rows("C1", PRODUCT, 1, *prepare(PRODUCT), OURS)


def test_int8_products_have_the_time_of_their_node_and_must_be_computed_in_int8(
        monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.make("gemm", m=3, n=5, k=8, dtype="int8")
    operands, expected = prepare(problem)
    ours = Contestant(gemm_int8.OURS, int, 0.0, step=lambda: 3e-6)
    stand_in(monkeypatch, "FullyConnected", beside="Subgraph", kernel="brgemm_avx512_I8")
    rows = gemm_int8.open_vino(problem, operands, expected, 2, ours)
    assert [(row["layer"], row["threads"], row["method"]) for row in rows] == [("3x5x8", 2, STEP), ("3x5x8", 2, METHOD)]
    assert [row["seconds"] for row in rows] == pytest.approx([3e-6, 6e-6])
    whole = {"layer": "3x5x8", "threads": 2, "gflops": 1.0}
    times = {gemm_int8.OURS: 4e-6, "onnxruntime": 10e-6}
    found = gemm_int8.table([*({**whole, "method": method, "seconds": seconds} for method, seconds in times.items()),
                             *rows])
    assert "| 3x5x8 | 2 | 4 | 1 | 2.50 | 2.00 |" in found
    stand_in(monkeypatch, "FullyConnected", kernel="brgemm_avx512_F32")
    with pytest.raises(SeqtuneError, match="does not compute this product in int8, but by brgemm_avx512_F32"):
        gemm_int8.open_vino(problem, operands, expected, 2, ours)


def test_a_missing_openvino_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_layers, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"^OpenVINO is not installed: pip install openvino$"):
        check_openvino()


def test_the_tables_show_openvino_s_node_beside_our_step() -> None:
    times = {"llvm.direct": 2e-4, "llvm.direct nchw": 4e-4, "onednn": 3e-4, "conv2d_channels_last": 5e-4,
             "conv2d_nchw": 6e-4, STEP: 1e-4, METHOD: 5e-4}
    timed = [{"layer": "C4", "threads": 1, "method": method, "seconds": seconds, "error": 0.0}
             for method, seconds in times.items()]
    rows = [*timed, *network_layers.summaries(timed)]
    assert rows[-1]["ratio_openvino"] == pytest.approx(5.0)
    found = network_layers.table(rows, LAYER_SETS["resnet18"].layers([4]))
    assert "| C4 | 3×3 / 2, 64 → 128, 56 × 56 | 1 | 200 | 200 | direct |" in found
    assert "| 300 | 1.50 | 1.50 | 100 | 500 | 5.00 |" in found
    products = [{"layer": "LSTM 256", "threads": 1, "method": method, "seconds": seconds, "error": 0.0}
                for method, seconds in (("llvm.gemm", 1e-5), ("mm", 3e-5), (STEP, 8e-6), (METHOD, 2e-5))]
    rows = [*products, *gemm.summaries(products)]
    assert rows[-1]["ratio_openvino"] == pytest.approx(2.5)
    assert "| 8 | 20 | 2.50 |" in gemm.table(rows)
    without = [row for row in products if row["method"] != METHOD]
    assert "ratio_openvino" not in gemm.summaries(without)[0]
