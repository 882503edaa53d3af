"""Peers of a layer: operations of PyTorch and ONNX Runtime. Each packs its constant operand before the call if it can.

A build of PyTorch without oneDNN or MKL lacks their operations; a package that is not installed leaves out its peer.
OpenVINO's node is timed apart (`openvino_node.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from benchmarks.common.contest import Contestant
from benchmarks.common.progress import say

from .layer import RELU6, Layer
from .problem_sets import READ, window_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

Call = Callable[[], Any]  # computes the layer once
ZERO = 128  # the zero point of unsigned bytes


@dataclass(frozen=True)
class LayerPeer:
    """A peer: what prepares its call of a layer, and the packages beyond PyTorch that it needs."""

    operation: str  # the type of the problems that it computes
    prepare: Callable[[Layer], Call | None]  # None where this build of PyTorch has no such operation
    packages: Sequence[str] = ()
    computes: bool = True  # the layer's result, which is checked


def peers_of(layer: Layer, names: Sequence[str],
             peers: Mapping[str, LayerPeer] | None = None) -> list[Contestant]:
    """The contestants of these names (`peers`: PEERS) that are here. Raises SeqtuneError if a result is wrong."""
    contestants = []
    for name in names:
        peer = (peers or PEERS)[name]
        if peer.operation != layer.problem.type:
            continue
        run = peer.prepare(layer) if is_here(*peer.packages) else None
        if run is None:
            say(f"{name} is left out")
            continue

        def result(run: Call = run) -> NDArray[Any]:
            return layer.as_array(run())

        contestants.append(Contestant(name, run, layer.checked(result, name) if peer.computes else 0.0))
    return contestants


def is_here(*packages: str) -> bool:
    """Whether these packages are installed; one that is not is named."""
    for package in packages:
        if find_spec(package) is None:
            say(f"{package} is not installed")
            return False
    return True


def tensor(array: NDArray[Any]) -> Tensor:
    """Copy an array to a tensor; the operands themselves are read-only."""
    import torch

    return torch.from_numpy(array.copy())


def _onednn_convolution(layer: Layer) -> Call:
    """oneDNN's convolution of an image in channels_last with packed weights, which computes the activation, too."""
    import torch

    x = _image(layer)
    stride, padding, dilation, groups = window_of(layer.problem)
    reorder: Any = torch._C._nn.mkldnn_reorder_conv2d_weight
    packed = reorder(tensor(layer.operands["weights"]).to_mkldnn(), padding, stride, dilation, groups, list(x.shape))
    activation: tuple[Any, ...] = ("hardtanh", [0.0, RELU6], "") if layer.relu6 else ("none", [], "")
    return partial(torch.ops.mkldnn._convolution_pointwise, x, packed, _bias(layer), padding, stride, dilation, groups,
                   *activation)


def _conv2d(layer: Layer, channels_last: bool) -> Call:
    """F.conv2d on image and weights in one memory format, then its activation."""
    import torch
    from torch.nn.functional import conv2d, hardtanh_

    format = torch.channels_last if channels_last else torch.contiguous_format
    x = _image(layer).contiguous(memory_format=format)
    weights = tensor(layer.operands["weights"]).contiguous(memory_format=format)
    stride, padding, dilation, groups = window_of(layer.problem)
    run = partial(conv2d, x, weights, _bias(layer), stride, padding, dilation, groups)
    return (lambda: hardtanh_(run(), 0.0, RELU6)) if layer.relu6 else run


def _image(layer: Layer) -> Tensor:
    """The operand of a convolution in NHWC memory, whose shape PyTorch calls NCHW in channels_last."""
    return tensor(layer.operands["x"]).permute(0, 3, 1, 2)


def _bias(layer: Layer) -> Tensor | None:
    return tensor(layer.operands["bias"]) if "bias" in layer.operands else None


def _product(layer: Layer, call: Callable[[Tensor, Tensor], Call]) -> Call:
    """Make the call of A and B (k, n), which lies in memory as the layer stores it."""
    import torch

    a = tensor(layer.operands["x"])
    return layer.over_copies(lambda weights: call(a, torch.from_numpy(weights).t() if layer.problem["trans_b"] == "yes"
                                               else torch.from_numpy(weights)))


def _mm(layer: Layer) -> Call:
    import torch

    return _product(layer, lambda a, b: partial(torch.mm, a, b))


def _linear(layer: Layer) -> Call:
    import torch

    return _product(layer, lambda a, b: partial(torch.nn.functional.linear, a, b.t()))


def _onednn_product(layer: Layer) -> Call | None:
    import torch

    def call(a: Tensor, b: Tensor) -> Call:
        packed = torch.ops.mkldnn._reorder_linear_weight(b.t().contiguous(), len(a))
        return partial(torch.ops.mkldnn._linear_pointwise, a, packed, None, "none", [], "")

    return _product(layer, call) if torch._C._has_mkldnn else None


def _mkl_product(layer: Layer) -> Call | None:
    """MKL's product with packed panels, which torch.compile uses."""
    import torch

    def call(a: Tensor, b: Tensor) -> Call:
        by_column = b.t().contiguous()
        panels = torch.ops.mkl._mkl_reorder_linear_weight(by_column, len(a))
        return partial(torch.ops.mkl._mkl_linear, a, panels, by_column, None, len(a))

    return _product(layer, call) if torch._C.has_mkl else None


def _read(layer: Layer) -> Call:
    """Read B once: a sum of its elements."""
    return _product(layer, lambda a, b: b.t().sum)


def _onnx_product(layer: Layer) -> Call:
    """ONNX Runtime's MatMul with B as a constant; of int8 its MatMulInteger, with A as unsigned bytes."""
    import numpy as np

    a, b = layer.operands["x"], layer.operands["weights"]
    if layer.problem.dtype == "int8":
        return _onnx_call(layer, "MatMulInteger", ["zero"], (a.astype(np.int16) + ZERO).astype(np.uint8),
                          {"b": b, "zero": np.array(ZERO, np.uint8)})
    return _onnx_call(layer, "MatMul", [], a, {"b": b.T if layer.problem["trans_b"] == "yes" else b})


def _onnx_convolution(layer: Layer) -> Call:
    """ONNX Runtime's Conv with constant weights; its images are NCHW."""
    import numpy as np

    stride, padding, dilation, groups = window_of(layer.problem)
    constants = {"b": layer.operands["weights"], **{name: layer.operands[name] for name in ("bias",)
                                                    if name in layer.operands}}
    return _onnx_call(layer, "Conv", [name for name in constants if name != "b"],
                      np.ascontiguousarray(layer.operands["x"].transpose(0, 3, 1, 2)), constants, strides=stride,
                      pads=[*padding, *padding], dilations=dilation, group=groups)


def _onnx_call(layer: Layer, operator: str, further: Sequence[str], a: NDArray[Any],
               constants: Mapping[str, NDArray[Any]], **attributes: Any) -> Call:
    """The call of a model of one operator of `a`, the constant `b` and `further` constants."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    element = helper.np_dtype_to_tensor_dtype(a.dtype)
    result = TensorProto.INT32 if layer.problem.dtype == "int8" else element
    graph = helper.make_graph(
        [helper.make_node(operator, ["a", "b", *further], ["y"], **attributes)], "layer",
        [helper.make_tensor_value_info("a", element, a.shape)], [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(np.array(array), name) for name, array in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = layer.threads, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"a": a})[0]


PEERS: Mapping[str, LayerPeer] = {
    "onednn": LayerPeer("conv2d", _onednn_convolution),
    "conv2d_channels_last": LayerPeer("conv2d", partial(_conv2d, channels_last=True)),
    "conv2d_nchw": LayerPeer("conv2d", partial(_conv2d, channels_last=False)),
    "mm": LayerPeer("gemm", _mm),
    "linear": LayerPeer("gemm", _linear),
    "onednn_packed": LayerPeer("gemm", _onednn_product),
    "mkl_packed": LayerPeer("gemm", _mkl_product),
    READ: LayerPeer("gemm", _read, computes=False),
    "onnx_product": LayerPeer("gemm", _onnx_product, ("onnx", "onnxruntime")),
    "onnx_convolution": LayerPeer("conv2d", _onnx_convolution, ("onnx", "onnxruntime")),
}
