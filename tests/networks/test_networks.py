"""Networks in which nothing of PyTorch is left between the kernels: the same results as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.networks.compiled import Compiled
from seqtune.networks.module import NetworkModule
from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm
from tests.support.torch_models import random_norms, same

pytestmark = needs_llvm


def steps_of(fast: Optimized) -> list[str]:
    """The steps of the only program of a model. Fails where PyTorch computes something."""
    assert isinstance(fast.model, Compiled)
    graph = fast.model.graph
    assert not [node for node in graph.graph.nodes if str(node.target).startswith("aten.")]
    (program,) = graph.children()
    assert isinstance(program, NetworkModule)
    return program.steps


class InvertedResidual(nn.Module):
    """MobileNet-V2's block."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.first = nn.Conv2d(8, 24, 1, bias=False), nn.BatchNorm2d(24)
        self.depthwise, self.second = nn.Conv2d(24, 24, 3, padding=1, groups=24, bias=False), nn.BatchNorm2d(24)
        self.project, self.third = nn.Conv2d(24, 8, 1, bias=False), nn.BatchNorm2d(8)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu6(self.first(self.expand(x)))
        y = functional.relu6(self.second(self.depthwise(y)))
        result: Tensor = x + self.third(self.project(y))
        return result


class Excitation(nn.Module):
    """MobileNet-V3's block with squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(16, 16, 5, padding=2, groups=16), nn.BatchNorm2d(16)
        self.squeeze, self.excite = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.project = nn.Conv2d(16, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.hardswish(self.norm(self.depthwise(x)))
        scale = functional.hardsigmoid(self.excite(functional.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        result: Tensor = self.project(y * scale)
        return result


class Dense(nn.Module):
    """DenseNet's block: every layer reads all results before it."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm2d(8 + 4 * number) for number in range(3))
        self.layers = nn.ModuleList(nn.Conv2d(8 + 4 * number, 4, 3, padding=1) for number in range(3))

    def forward(self, x: Tensor) -> Tensor:
        parts = [functional.max_pool2d(x, 3, 2, 1)]
        for norm, layer in zip(self.norms, self.layers, strict=True):
            parts.append(layer(functional.relu(norm(torch.cat(parts, 1)))))
        return functional.avg_pool2d(torch.cat(parts, 1), 2)


class Shuffle(nn.Module):
    """ShuffleNet-V2's block."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.other = nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            kept, given = self.other(functional.relu(x[:, :8])), x[:, 8:]
            x = torch.cat([kept, functional.relu(self.other(self.layer(given)))], 1)
            n, c, h, w = x.shape
            x = x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
        first, second = x.chunk(2, 1)
        return first * torch.sigmoid(second)


class Padded(nn.Module):
    """Borders on one side, on both sides, and of another number than 0."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 2), nn.Conv2d(8, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(functional.pad(x, (0, 1, 0, 1)))
        x = self.second(functional.pad(x, (1, 1, 1, 1)))
        return functional.pad(torch.roll(x, (2, -1), (2, 3)), (1, 2, 0, -1), value=0.5)


class Block(nn.Module):
    """A transformer's block, with q, k and v as one product."""

    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(24), nn.LayerNorm(24)
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)
        self.up, self.down = nn.Linear(24, 40), nn.Linear(40, 24)
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        n, length, size = x.shape
        q, k, v = self.qkv(self.before(x)).view(n, length, 3, 4, size // 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(n, length, size))
        result: Tensor = x + self.down(functional.gelu(self.up(self.after(x))))
        return result


class Norms(nn.Module):
    """An RMS normalisation that is written out, a softmax over another axis, a scale of the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.gamma = nn.Linear(20, 12), nn.Parameter(torch.rand(12) + 0.5)
        self.weight = nn.Parameter(torch.rand(20))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        y = self.linear(y) * self.gamma
        return functional.softmax(y, 1), functional.log_softmax(y + 1, -1)


class Tokens(nn.Module):
    """ConvNeXt's block: products on tokens between images, a scale of the channels and a sum of images."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.depthwise = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.up, self.down, self.gamma = nn.Linear(8, 12), nn.Linear(12, 8), nn.Parameter(torch.rand(8))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(2):
            y = self.depthwise(x).permute(0, 2, 3, 1)
            x = x + (self.gamma * self.down(functional.gelu(self.up(y)))).permute(0, 3, 1, 2)
        result: Tensor = x.mean((2, 3))
        return result


class Windows(nn.Module):
    """Swin's shifted windows of tokens, and the merging of neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.merged = nn.LayerNorm(12), nn.LayerNorm(48)
        self.inside, self.after, self.reduced = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(48, 8)

    def forward(self, x: Tensor) -> Tensor:
        n, _, c = x.shape
        y = torch.roll(self.before(x).view(n, 6, 4, c), (-1, -1), (1, 2))
        y = y.view(n, 3, 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, c)
        y = self.inside(y).view(n, 3, 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(n, 6, 4, c)
        x = self.after(x + torch.roll(y, (1, 1), (1, 2)).view(n, 24, c)).view(n, 6, 4, c)
        parts = [x[:, row::2, column::2] for column in range(2) for row in range(2)]
        result: Tensor = self.reduced(self.merged(torch.cat(parts, -1).view(n, 6, 4 * c)))
        return result


class Sequences(nn.Module):
    """Convolutions of sequences, as speech models begin with."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(6, 12, 3, padding=1), nn.Conv1d(12, 8, 3, 2, 2, 2, groups=2)
        self.third = nn.Conv1d(8, 8, 5, padding="same")

    def forward(self, x: Tensor) -> Tensor:
        y = functional.gelu(self.second(functional.gelu(self.first(x))))
        result: Tensor = functional.layer_norm((y + self.third(y)).permute(0, 2, 1), (8,))
        return result


class Embedded(nn.Module):
    """A table and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.positions, self.linear = nn.Embedding(50, 12), nn.Embedding(9, 12), nn.Linear(12, 7)

    def forward(self, indices: Tensor) -> Tensor:
        positions = torch.arange(indices.shape[1])
        result: Tensor = self.linear(functional.layer_norm(self.table(indices) + self.positions(positions), (12,)))
        return result


class Cached(nn.Module):
    """Attention of one token with the keys and values of those before it, as in the decoding of a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.heads, self.linear = nn.Embedding(50, 16), nn.Linear(16, 48), nn.Linear(16, 5)

    def forward(self, indices: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.heads(self.table(indices.view(-1, 1))).view(-1, 1, 3, 2, 8).permute(2, 0, 3, 1, 4)
        k, v = (torch.cat((torch.cat((torch.tensor([]), past), -2), new), -2) for new in (k, v))
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 16)
        return self.linear(y), k[:, :, -1:]


@pytest.mark.parametrize(("model", "shape"), [
    (InvertedResidual(), (1, 8, 9, 7)), (Excitation(), (2, 16, 6, 5)), (Dense(), (1, 8, 14, 12)),
    (Shuffle(), (1, 16, 7, 5)), (Padded(), (1, 3, 12, 12)), (Block(), (2, 5, 24)), (Block(True), (1, 9, 24)),
    (Norms(), (2, 3, 20)), (Sequences(), (2, 6, 15)), (Windows(), (2, 24, 12)), (Tokens(), (2, 3, 5, 4))],
    ids=lambda value: type(value).__name__)
def test_a_network_is_one_program_with_pytorch_s_results(
        quick: Callable[..., Optimized], model: nn.Module, shape: tuple[int, ...]) -> None:
    model = random_norms(model.eval())
    fast = quick(model, torch.randn(shape))
    steps_of(fast)
    for _ in range(2):
        assert same(fast, model, torch.randn(shape))


def test_an_embedding_is_part_of_the_program(quick: Callable[..., Optimized]) -> None:
    model, indices = Embedded().eval(), torch.randint(50, (2, 9))
    fast = quick(model, indices)
    assert len(steps_of(fast)) <= 4
    assert same(fast, model, torch.randint(50, (2, 9)))
    for index in (50, -1, 2**40):
        with pytest.raises(IndexError, match="out of range"):
            fast(torch.full((2, 9), index))
    assert same(fast, model, torch.randint(50, (2, 9)))


def test_a_token_with_a_cache_is_one_program(quick: Callable[..., Optimized]) -> None:
    model, past = Cached().eval(), torch.randn(2, 2, 5, 8)
    fast = quick(model, (torch.randint(50, (1, 2)), past))
    steps_of(fast)
    assert same(fast, model, torch.randint(50, (1, 2)), past)
    with pytest.raises(IndexError, match="out of range"):
        fast(torch.full((1, 2), 50), past)


def test_a_block_needs_one_kernel_for_each_layer(quick: Callable[..., Optimized]) -> None:
    model = random_norms(InvertedResidual().eval())
    fast = quick(model, torch.randn(1, 8, 9, 7).contiguous(memory_format=torch.channels_last))
    assert len([step for step in steps_of(fast) if step != "copy"]) == 3


def test_factors_of_channels_multiply_weights_instead_of_an_image(quick: Callable[..., Optimized]) -> None:
    model = random_norms(Excitation().eval())
    fast = quick(model, torch.randn(1, 16, 6, 5))
    for _ in range(2):
        assert same(fast, model, torch.randn(1, 16, 6, 5))
    (program,) = (module for module in fast.modules() if isinstance(module, NetworkModule))
    (product,) = (job for job in program.jobs if job.name == "aten.mul")
    assert [binding.value.view.size for binding in product.bindings if binding.writes] == [16 * 8]  # not 16 x 30 pixels


def test_a_sum_of_images_is_computed_by_a_product_of_tokens(quick: Callable[..., Optimized]) -> None:
    fast = quick(Tokens().eval(), torch.randn(2, 3, 5, 4).contiguous(memory_format=torch.channels_last))
    assert steps_of(fast) == ["aten.conv2d", *["aten.conv2d", "aten.linear", "aten.linear"] * 2, "aten.mean"]


def test_shifted_windows_are_rows_read_by_number(quick: Callable[..., Optimized]) -> None:
    fast = quick(Windows().eval(), torch.randn(2, 24, 12))
    assert steps_of(fast) == ["aten.layer_norm", "aten.roll", "aten.linear", "aten.add", "aten.linear", "aten.cat",
                              "aten.layer_norm", "aten.linear"]


def test_convolutions_of_sequences_take_the_activation(quick: Callable[..., Optimized]) -> None:
    fast = quick(Sequences().eval(), torch.randn(2, 6, 15))
    assert [step for step in steps_of(fast) if step != "copy"] == ["aten.conv1d"] * 3 + ["aten.layer_norm"]


def test_concatenations_are_written_in_place(quick: Callable[..., Optimized]) -> None:
    fast = quick(random_norms(Dense().eval()), torch.randn(1, 8, 14, 12).contiguous(memory_format=torch.channels_last))
    steps = steps_of(fast)
    assert steps.count("copy") <= 1  # the result, which is not channels_last
    assert len(steps) == 1 + 2 * 3 + 1 + steps.count("copy")  # pool, norm and layer three times, pool


def test_a_normalisation_that_is_written_out_is_one_step(quick: Callable[..., Optimized]) -> None:
    fast = quick(Norms().eval(), torch.randn(2, 3, 20))
    assert [step for step in steps_of(fast) if step != "copy"] == [
        "rms_norm", "aten.linear", "aten.softmax", "aten.add", "aten.log_softmax"]
