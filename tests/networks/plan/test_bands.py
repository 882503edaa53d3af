"""Bands of images: which runs of nodes are divided, and results beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.integrations.pytorch.hook.optimization import optimize
from seqtune.kernels.devices.device import Device
from seqtune.networks.module import NetworkModule
from seqtune.networks.node_list import NodeList
from seqtune.networks.nodes import Concatenation, Layer, Node, Pointwise, Reduction
from seqtune.networks.optimized import Optimized
from seqtune.networks.plan import bands
from seqtune.networks.plan.bands import compute_in_bands
from seqtune.pytorch import explain
from seqtune.tuner.backends.discovery import find
from tests.networks.test_networks import steps_of
from tests.support.llvm import needs_llvm
from tests.support.networks.nodes import ADD, convolution, in_order, operand
from tests.support.torch_models import random_norms

LARGE, SMALL = 64, 4  # rows and columns
CACHE = 4 * 2 * 16 * LARGE * LARGE  # bytes of the input and the result of 16 channels of one large image


def device(cache: int = CACHE) -> Device:
    """A device with a last-level cache of which every sharer has so many bytes."""
    return Device("llvm:avx2:1", "llvm", "here", "avx2", threads=1, l2_bytes=1 << 10, l3_bytes=cache * bands.SHARERS)


def divided(device: Device, *results: Node) -> NodeList:
    """The network in bands."""
    nodes = NodeList(in_order(*results), results)
    compute_in_bands(nodes, device)
    return nodes


def batches(nodes: NodeList, kind: type[Node] = Layer) -> list[int]:
    """The images that each node of a kind computes."""
    return [node.shape[0] for node in nodes if isinstance(node, kind)]


def wide(images: int) -> Layer:
    """A convolution of large images."""
    return convolution(operand(images, 16, LARGE, LARGE), 16)


def test_layers_of_large_images_are_computed_image_by_image_and_of_small_ones_together() -> None:
    first = wide(4)
    second = convolution(first, 16)
    small = Reduction((4, 16, 1, 1), [second], "mean", (2, 3), True)
    nodes = divided(device(), convolution(small, 512))
    assert batches(nodes) == [1] * 8 + [4]
    assert batches(nodes, Reduction) == [1] * 4
    (whole,) = (node for node in nodes if isinstance(node, Concatenation))
    assert (whole.shape, whole.axis, len(whole.inputs)) == ((4, 16, 1, 1), 0, 4)
    assert len({id(node.unscaled) for node in nodes if isinstance(node, Layer)}) == 3  # shared by all bands


def test_an_operation_that_mixes_images_ends_a_run() -> None:
    mean = Reduction((1, 16, LARGE, LARGE), [convolution(wide(4), 16)], "mean", (0,), True)
    nodes = divided(device(), mean)
    assert batches(nodes) == [1] * 8
    assert batches(nodes, Reduction) == [1]
    (reduced,) = (node for node in nodes if isinstance(node, Reduction))
    assert reduced.inputs[0].shape[0] == 4


def test_results_and_values_that_others_read_are_whole() -> None:
    x = operand(4, 16, LARGE, LARGE)
    first = convolution(x, 16)
    total = Pointwise(first.shape, [convolution(first, 16), x], ADD)
    nodes = divided(device(), first, total)
    assert [(type(node), node.shape) for node in nodes.results] == [(Concatenation, x.shape)] * 2
    assert batches(nodes, Pointwise) == [1] * 4


class Mixed(nn.Module):
    """A network with a residual sum, excitation, a shuffle of channels, padding, pooling and joins."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, 2), nn.BatchNorm2d(16)
        self.deep = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.squeeze, self.last = nn.Linear(16, 16), nn.Conv2d(32, 8, 1)
        self.head, self.names = nn.Linear(8, 5), nn.Embedding(9, 4)
        self.shuffle = nn.ChannelShuffle(4)

    def forward(self, x: Tensor, scale: Tensor, names: Tensor) -> tuple[Tensor, ...]:
        first = functional.relu(self.norm(self.first(x)))
        y, names = first + self.deep(first), names.reshape(names.shape[0], 2, 3)
        y = y * torch.sigmoid(self.squeeze(y.mean((2, 3))))[:, :, None, None]
        low, high = self.shuffle(torch.cat([y, first * scale], 1)).chunk(2, 1)
        pooled = functional.max_pool2d(functional.pad(torch.cat([high, low], 1), (1, 0, 0, 1)), 2)
        last = self.last(pooled)
        return first, self.head(last.mean((2, 3))), last.softmax(3), self.names(names) * 2


@needs_llvm
def test_results_in_bands_are_those_of_pytorch(quick: Callable[..., Optimized]) -> None:
    model = random_norms(Mixed().eval())
    x, scale, names = torch.randn(5, 3, 85, 96), torch.randn(5, 16, 1, 1), torch.randint(9, (5, 6))
    fast = quick(model, (x, scale, names), device=replace(find("llvm:1"), l2_bytes=320_000, l3_bytes=0))
    assert steps_of(fast).count("aten.conv2d") > 5
    x, scale, names = torch.randn_like(x), torch.randn_like(scale), torch.randint(9, (5, 6))
    with torch.no_grad():
        for result, expected in zip(fast(x, scale, names), model(x, scale, names), strict=True):
            assert result.stride() == expected.stride()
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    assert [step.shape for step in explain(fast, x, scale, names).steps].count((1, 16, 42, 47)) >= 5


@needs_llvm
def test_all_bands_use_the_same_memory_and_weights(checkpoint: Path) -> None:
    model = nn.Sequential(nn.Conv2d(4, 32, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, groups=32), nn.Conv2d(32, 4, 1)).eval()
    x = torch.randn(4, 4, 64, 64).contiguous(memory_format=torch.channels_last)
    blocks, weights = [], []
    for cache in (800_000, 1 << 24):
        fast = optimize(model, x, device=replace(find("llvm:1"), l2_bytes=cache, l3_bytes=0), verify=False,
                        checkpoint=checkpoint)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-4)
        (program,) = (module for module in fast.modules() if isinstance(module, NetworkModule))
        buffers = {binding.value.buffer for job in program.jobs for binding in job.bindings}
        inner = [buffer for buffer in buffers if buffer.kind == "inner"]
        blocks.append(max(buffer.begin + buffer.size for buffer in inner))
        layers = [job for job in program.jobs if isinstance(job.node, Layer)]
        weights.append((len(layers), len({int(job.kernel.job[1]) for job in layers})))
    assert blocks[0] < blocks[1] / 2
    assert weights == [(12, 3), (3, 3)]
