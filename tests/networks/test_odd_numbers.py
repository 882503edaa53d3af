"""Numbers that are not finite, and denormal ones, in programs of every kind of step: PyTorch's results."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.networks.program.device_threads import binder_of, device_for_threads
from tests.networks.test_networks import Block, Dense, Excitation, InvertedResidual, Norms, Shuffle
from tests.support.llvm import needs_llvm
from tests.support.networks.default_programs import program_of
from tests.support.torch_models import random_norms

pytestmark = needs_llvm

# not gelu: PyTorch's is NaN at infinity, ours is infinity
ACTIVATIONS = (functional.relu, functional.relu6, functional.hardswish, functional.hardsigmoid, functional.silu,
               torch.sigmoid, torch.tanh, torch.exp, torch.abs, torch.sqrt, functional.elu,
               functional.leaky_relu)
NUMBERS = {"NaN": math.nan, "infinity": math.inf, "minus infinity": -math.inf, "denormal": 1e-40, "large": 1e18}
MODELS = {"inverted residual": (InvertedResidual(), (1, 8, 9, 7)), "excitation": (Excitation(), (2, 16, 6, 5)),
          "dense": (Dense(), (1, 8, 14, 12)), "shuffle": (Shuffle(), (1, 16, 7, 5)),
          "transformer": (Block(), (2, 5, 24)), "norms": (Norms(), (2, 3, 20))}


class Activated(nn.Module):
    """A layer, and activations of its operand."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.linear(x)
        return (y, *(activation(x) for activation in ACTIVATIONS), *(activation(x + 1) for activation in ACTIVATIONS),
                x.sum(1), x.amax(0), x.amin(1), x.mean(0))


def assert_same(results: tuple[Tensor, ...], expected: tuple[Tensor, ...], what: str) -> None:
    """Fail unless numbers that are not finite are the same ones, and the others agree."""
    for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        finite = wanted.isfinite()
        assert torch.equal(finite, result.isfinite()), (what, index)
        assert torch.allclose(result[~finite], wanted[~finite], equal_nan=True), (what, index)
        if finite.any():
            limit = 1e-4 * float(wanted[finite].abs().max()) + 1e-38
            assert float((result[finite] - wanted[finite]).abs().max()) <= limit, (what, index)


def check(model: nn.Module, shape: tuple[int, ...]) -> None:
    """Compare a program with the model on inputs that hold an odd number."""
    program = program_of(random_norms(model.eval()), [torch.randn(shape)], binder_of(device_for_threads(1)))
    for name, number in NUMBERS.items():
        x = torch.randn(shape)
        x.view(-1)[x.numel() // 3] = number
        with torch.no_grad():
            answer = model(x)
        assert_same(program(x), answer if isinstance(answer, tuple) else (answer,), name)


def test_activations_and_reductions_treat_odd_numbers_as_pytorch_does() -> None:
    check(Activated(), (5, 8))


@pytest.mark.parametrize("name", MODELS)
def test_networks_treat_odd_numbers_as_pytorch_does(name: str) -> None:
    check(*MODELS[name])


class Normalised(nn.Module):
    """A layer, and normalisations of its operand."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.group_norm = nn.Linear(16, 16), nn.GroupNorm(2, 8)
        self.norms = nn.ModuleList([nn.LayerNorm(16), nn.RMSNorm(16)])

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (self.linear(x), self.group_norm(x), *(norm(x) for norm in self.norms), x.softmax(-1), x.softmax(0),
                x.log_softmax(-1), functional.normalize(x, dim=-1), x.std(-1))


def test_normalisations_of_large_and_small_numbers_are_pytorch_s() -> None:
    model = random_norms(Normalised().eval())
    program = program_of(model, [torch.randn(2, 8, 16)], binder_of(device_for_threads(1)))
    for scale in (1e-38, 1e-30, 1e-15, 1e4, 1e15):
        x = scale * torch.randn(2, 8, 16)
        with torch.no_grad():
            results, expected = program(x), model(x)
        if scale < 1e-20:  # the squares of a deviation vanish
            assert not results[-1].any()
            results, expected = results[:-1], expected[:-1]
        assert_same(results, expected, f"{scale:g}")
