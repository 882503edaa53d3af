"""OpenVINO's time of one layer, with a stand-in for OpenVINO, and its columns in the tables of layers."""

from __future__ import annotations

import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.common import openvino_layers
from benchmarks.common.openvino_layers import METHOD, check_openvino, openvino_row
from benchmarks.kernels import gemm, resnet18_layers
from seqtune.errors import SeqtuneError, UnavailableError
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import prepare

PRODUCT = Problem.make("gemm", m=3, n=5, k=7, trans_b="yes")
CONVOLUTION = Problem.make("conv2d", c=4, h=5, w=6, k=8, r=1, s=1, stride_h=2, groups=2, layout="NHWC")


class StandIn:
    """A model of one layer whose node takes 9, 8, 7 ... microseconds, beside a node that changes the layout."""

    def __init__(self, node_type: str, wrong: bool) -> None:
        self.node_type, self.wrong, self.left = node_type, wrong, 9
        self.settings: dict[str, Any] = {}
        self.Type = SimpleNamespace(f32="f32")
        self.opset13 = SimpleNamespace(
            parameter=lambda shape, element: "x", constant=lambda array: array,
            matmul=lambda x, b, a_turned, b_turned: lambda given: given @ (b.T if b_turned else b),
            group_convolution=self.convolution)

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

        def infer(inputs: Any, **_: Any) -> dict[str, Any]:
            self.left -= 1
            return {"y": function(inputs[0]) + self.wrong}

        times = lambda: [SimpleNamespace(  # noqa: E731
            node_type=name, exec_type="brgemm", real_time=timedelta(microseconds=microseconds))
            for name, microseconds in ((self.node_type, self.left), ("Reorder", 1))]
        request = SimpleNamespace(infer=infer, get_profiling_info=times)
        return SimpleNamespace(create_infer_request=lambda: request)


def stand_in(monkeypatch: pytest.MonkeyPatch, node_type: str, wrong: bool = False) -> StandIn:
    """OpenVINO, replaced."""
    openvino = StandIn(node_type, wrong)
    monkeypatch.setitem(sys.modules, "openvino", openvino)
    return openvino


@pytest.mark.parametrize(("problem", "node"), [(PRODUCT, "FullyConnected"), (CONVOLUTION, "Convolution")])
def test_the_row_has_the_least_time_of_the_layer_s_node(
        monkeypatch: pytest.MonkeyPatch, problem: Problem, node: str) -> None:
    openvino = stand_in(monkeypatch, node)
    row = openvino_row("C1", problem, 2, *prepare(problem), runs=4)
    assert row["seconds"] == pytest.approx(4e-6)  # the first call checked the result
    assert (row["layer"], row["threads"], row["method"], row["kernel"]) == ("C1", 2, METHOD, "brgemm")
    assert row["error"] < 1e-5
    assert openvino.settings["INFERENCE_NUM_THREADS"] == 2
    assert openvino.settings["INFERENCE_PRECISION_HINT"] == "f32"


def test_a_wrong_result_and_a_profile_without_the_node_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "FullyConnected", wrong=True)
    with pytest.raises(SeqtuneError, match="openvino_node computes a wrong result"):
        openvino_row("C1", PRODUCT, 1, *prepare(PRODUCT), runs=1)
    stand_in(monkeypatch, "Eltwise")
    with pytest.raises(SeqtuneError, match="OpenVINO's profile shows no node for gemm"):
        openvino_row("C1", PRODUCT, 1, *prepare(PRODUCT), runs=1)


def test_a_missing_openvino_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openvino_layers, "find_spec", lambda name: None)
    with pytest.raises(UnavailableError, match=r"^OpenVINO is not installed: pip install openvino$"):
        check_openvino()


def test_the_tables_show_openvino_s_node_beside_ours() -> None:
    times = {"llvm.direct": 2e-4, "llvm.direct nchw": 4e-4, "onednn": 3e-4, "conv2d_channels_last": 5e-4,
             "conv2d_nchw": 6e-4, METHOD: 5e-4}
    layers = [{"layer": "C1", "threads": 1, "method": method, "seconds": seconds, "error": 0.0}
              for method, seconds in times.items()]
    rows = [*layers, *resnet18_layers.summaries(layers)]
    assert rows[-1]["ratio_openvino"] == pytest.approx(2.5)
    assert "| 300 | 1.50 | 1.50 | 500 | 2.50 |" in resnet18_layers.table(rows)
    products = [{"layer": "LSTM 256", "threads": 1, "method": method, "seconds": seconds, "error": 0.0}
                for method, seconds in (("llvm.gemm", 1e-5), ("mm", 3e-5), (METHOD, 2e-5))]
    rows = [*products, *gemm.summaries(products)]
    assert rows[-1]["ratio_openvino"] == pytest.approx(2.0)
    assert "| 20 | 2.00 |" in gemm.table(rows)
    without = [row for row in products if row["method"] != METHOD]
    assert "ratio_openvino" not in gemm.summaries(without)[0]
