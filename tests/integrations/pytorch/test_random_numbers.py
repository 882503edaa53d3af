"""Random numbers: each call of a compiled model draws those that PyTorch draws with the same seed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.integrations.pytorch.hook.dynamo import backend
from seqtune.integrations.pytorch.hook.optimization import optimize
from tests.support.llvm import needs_llvm

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


class Noisy(nn.Linear):
    """A linear layer, and random numbers that are drawn from constants, before and after it."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        drawn = [torch.zeros_like(x).uniform_(), torch.zeros(8).exponential_(), torch.zeros(8).geometric_(0.5),
                 torch.zeros(8).cauchy_(), torch.zeros(8).log_normal_(), torch.poisson(torch.full((8,), 3.)),
                 torch.binomial(torch.full((8,), 9.), torch.full((8,), 0.5)), torch.randint_like(x, 1000),
                 functional.rrelu(-torch.ones(8), training=True), torch.empty(8).normal_(),
                 torch.bernoulli(torch.full((99,), 0.5)), torch.randperm(99), torch.rand(8)]
        y = super().forward(x)
        return y + drawn[0], *drawn, functional.dropout(y, 0.5), torch.rand(8), torch.randn_like(x)


def test_random_numbers_are_new_at_every_call_and_with_a_seed_those_of_pytorch(checkpoint: Path) -> None:
    torch._dynamo.reset()
    model, x = Noisy(8, 8).eval(), torch.randn(4, 8)
    options = {"verify": False, "checkpoint": str(checkpoint), "fallback": "eager"}
    fast = torch.compile(model, backend=partial(backend, options=options))
    with torch.no_grad():
        for seed in (1, 2):
            torch.manual_seed(seed)
            expected = [model(x) for _ in range(2)]
            torch.manual_seed(seed)
            torch.testing.assert_close([fast(x) for _ in range(2)], expected)
            assert not any(torch.equal(*pair) for pair in zip(*expected, strict=True))


class Seeded(nn.Module):
    """A linear layer, and numbers of a generator that each call makes anew."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x) + torch.rand(8, generator=torch.Generator().manual_seed(3))
        return result


def test_a_generator_that_each_call_makes_anew_draws_the_same_numbers(checkpoint: Path) -> None:
    model, x = Seeded().eval(), torch.randn(4, 8)
    fast = optimize(model, x, verify=False, checkpoint=checkpoint)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(x), model(x))
