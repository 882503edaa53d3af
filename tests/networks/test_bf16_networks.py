"""Networks in bf16: which values are stored so, results beside those in fp32, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.errors import FormatError, MisuseError, UnavailableError
from seqtune.integrations.pytorch.hook.optimization import optimize
from seqtune.kernels.devices.device import Device
from seqtune.networks.node_list import NodeList
from seqtune.networks.nodes import (
    Input,
    Layer,
    Node,
    Pointwise,
    Reduction,
    RowOperation,
)
from seqtune.networks.optimized import Optimized
from seqtune.networks.plan.precision import TOLERANCES, checked_precision, give_elements
from seqtune.networks.program.device_threads import device_for_threads
from seqtune.pytorch import explain
from seqtune.tuner.backends.llvm import discovery as llvm
from tests.support.llvm import needs_llvm
from tests.support.networks.nodes import ADD, RELU, convolution, in_order, layer, operand

HAS_BF16 = llvm.unavailable() is None and any(device.names()["bf16_dots"] for device in llvm.devices())
needs_bf16 = pytest.mark.skipif(not HAS_BF16, reason="this CPU does not multiply bf16 numbers")
BF16 = Device("llvm:avx512:1", "llvm", "here", "avx512", threads=1, compute_units=1, vector_bits=512,
              vector_registers=32, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=8 << 20, extra=(("bf16_dots", 1),))


class Encoder(nn.Module):
    """A block of a transformer over an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(50, 32), nn.Linear(32, 7)
        self.block = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, activation="gelu")

    def forward(self, indices: Tensor) -> Tensor:
        result: Tensor = self.out(self.block(self.table(indices)))
        return result


class Image(nn.Module):
    """Layers of every kind: of images with 3 channels, depthwise, with a residual sum, pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.depthwise = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.second, self.classes = nn.Conv2d(16, 16, 1), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first(x))
        y = functional.relu(y + self.second(functional.relu6(self.depthwise(y))))
        result: Tensor = self.classes(y.mean((2, 3)))
        return result


def stored(*results: Node, dtypes: str = "fp32", device: Device = BF16, precision: str = "bf16") -> NodeList:
    """The network with its elements."""
    nodes = NodeList(in_order(*results), results)
    give_elements(nodes, [dtypes] * len(results), precision, device)
    return nodes


def elements(*nodes: Node) -> list[str]:
    """The elements of nodes."""
    return [node.element.dtype for node in nodes]


def test_values_between_layers_are_bf16_and_those_outside_are_not() -> None:
    x = operand(8, 16)
    first = layer(x, 32)
    norm = RowOperation((8, 32), [first], "layer_norm")
    second = layer(norm, 6)
    stored(second)
    assert elements(x, first, norm, second) == ["fp32", "bf16", "bf16", "fp32"]
    assert first.problem["dtype"] == second.problem["dtype"] == "bf16"


def test_results_and_operands_have_the_model_s_types() -> None:
    x = operand(8, 16)
    x.element = replace(x.element, dtype="bf16")
    first = layer(x, 32)
    stored(first, dtypes="bf16")
    assert elements(x, first) == ["bf16", "bf16"]
    again = layer(operand(8, 16), 32)
    stored(again, precision="fp32")
    assert (again.element.dtype, again.problem["dtype"]) == ("fp32", "fp32")


def test_masks_and_means_stay_fp32() -> None:
    x, mask = operand(8, 16), Input((8, 8), [], 1, (8, 1))
    hidden = Pointwise((8, 8), [mask], RELU)
    scores = layer(x, 8)
    masked = Pointwise((8, 8), [scores, hidden], ADD)
    mean = Reduction((8, 1), [masked], "mean", (1,), True)
    moved = Pointwise((8, 8), [masked, mean], ADD)
    stored(layer(moved, 4))
    assert elements(hidden, scores, masked, mean, moved) == ["fp32", "bf16", "bf16", "fp32", "bf16"]


def test_a_layer_that_no_kernel_computes_in_bf16_stays_fp32_with_what_it_reads() -> None:
    x = operand(1, 6, 5, 5)
    first = convolution(x, 6)
    odd = replace_groups(convolution(first, 6), 2)  # 3 channels of a group are no pairs
    last = convolution(odd, 4)
    stored(last)
    assert [node.problem["dtype"] for node in (first, odd, last)] == ["bf16", "fp32", "bf16"]
    assert elements(first, odd, last) == ["fp32", "fp32", "fp32"]
    plain = replace(BF16, extra=())
    alone = convolution(operand(1, 6, 5, 5), 6)
    stored(alone, device=plain)
    assert alone.problem["dtype"] == "fp32"


def replace_groups(node: Layer, groups: int) -> Layer:
    """The convolution in groups."""
    node.work = type(node.work).make("conv2d", **{**dict(node.work), "groups": groups})
    node.unscaled = np.ones((node.unscaled.shape[0], node.unscaled.shape[1] // groups, 1, 1), np.float32)
    return node


def test_an_unknown_precision_and_a_device_without_bf16_are_refused() -> None:
    with pytest.raises(MisuseError, match="precision='fp8' is not one of fp32, bf16"):
        checked_precision("fp8", [], BF16)
    with pytest.raises(UnavailableError, match="does not multiply bf16 numbers"):
        checked_precision("bf16", [], replace(BF16, extra=()))
    assert checked_precision(None, [torch.zeros(1, dtype=torch.bfloat16)], BF16) == "bf16"
    assert checked_precision(None, [torch.zeros(1)], BF16) == "fp32"


@needs_bf16
def test_a_model_in_fp32_is_computed_in_bf16(quick: Callable[..., Optimized], tmp_path: Path) -> None:
    model, x = Image().eval(), torch.randn(1, 3, 24, 20)
    fast = quick(model, x, precision="bf16")
    assert 1e-5 < fast.error < TOLERANCES["bf16"]
    assert fast(x).dtype == torch.float32
    assert all(choice.problem["dtype"] == "bf16" for choice in fast.choices)
    steps = explain(fast, x).steps
    assert [step.element for step in steps][-1] == "fp32"
    assert sum(step.element == "bf16" for step in steps) >= 4
    fast.save(tmp_path / "choice.json")
    again = optimize(model, x, device=device_for_threads(1), saved=tmp_path / "choice.json", precision="bf16")
    assert torch.equal(again(x), fast(x))
    with pytest.raises(FormatError, match="was saved with precision='bf16'"):
        optimize(model, x, device=device_for_threads(1), saved=tmp_path / "choice.json")


@needs_bf16
def test_a_transformer_is_computed_in_bf16(quick: Callable[..., Optimized]) -> None:
    model, indices = Encoder().eval(), torch.randint(0, 50, (2, 9))
    fast = quick(model, indices, precision="bf16")
    assert fast.error < TOLERANCES["bf16"]
    elements_of = {step.operation.split()[0]: step.element for step in explain(fast, indices).steps}
    assert elements_of["aten.layer_norm"] == "bf16"
    assert elements_of["aten.embedding"] == "bf16"
    (heads,) = [choice for choice in fast.choices if choice.problem.type == "attention"]
    assert heads.configuration is not None
    assert (heads.configuration.kernel, heads.problem["dtype"]) == ("llvm.attention_bf16", "bf16")


@needs_bf16
def test_a_model_in_bf16_has_operands_and_results_in_bf16(quick: Callable[..., Optimized]) -> None:
    model, x = Image().eval().bfloat16(), torch.randn(1, 3, 24, 20).bfloat16()
    fast = quick(model, x)
    assert (fast.precision, fast(x).dtype) == ("bf16", torch.bfloat16)
    assert fast.error < TOLERANCES["bf16"]
    with torch.no_grad():
        assert torch.allclose(fast(x).float(), model(x).float(), atol=0.02)


@needs_llvm
def test_a_model_in_bf16_is_computed_in_fp32_where_that_is_asked_for(quick: Callable[..., Optimized]) -> None:
    model = nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 3)).eval().bfloat16()
    x = torch.randn(2, 8).bfloat16()
    fast = quick(model, x, precision="fp32")
    assert fast(x).dtype == torch.bfloat16
    assert all(choice.problem["dtype"] == "fp32" for choice in fast.choices)


@pytest.fixture
def clean() -> Iterator[None]:
    """Dynamo without compiled graphs."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@needs_bf16
@pytest.mark.usefixtures("clean")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_the_backend_computes_in_bf16(checkpoint: Path) -> None:
    plain: dict[str, Any] = {"verify": False, "checkpoint": str(checkpoint), "fallback": "eager"}
    model, x = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).eval(), torch.randn(3, 16)
    with torch.no_grad():
        y, expected = torch.compile(model, backend="seqtune", options={**plain, "precision": "bf16"})(x), model(x)
        assert not torch.equal(y, expected)
        assert torch.allclose(y, expected, atol=float(TOLERANCES["bf16"] * expected.abs().max()))
        narrow, x = model.bfloat16(), x.bfloat16()
        y = torch.compile(narrow, backend="seqtune", options=plain)(x)
        assert y.dtype == torch.bfloat16
        assert torch.allclose(y.float(), expected, atol=float(2 * TOLERANCES["bf16"] * expected.abs().max()))
