"""Odd inputs and results: views, empty tensors, numbers that are not finite, inputs that a model changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqtune.errors import MisuseError
from seqtune.networks.compiled import Compiled
from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm
from tests.support.torch_models import norm_net, same

pytestmark = needs_llvm


class After(nn.Module):
    """A convolution and a function of its result."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.function = nn.Conv2d(4, 8, 1), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


def equal(result: Tensor, expected: Tensor) -> bool:
    """Whether shapes, strides and numbers agree; NaN equals NaN."""
    return result.stride() == expected.stride() and torch.allclose(result, expected, atol=1e-5, equal_nan=True)


def with_number(number: float) -> Tensor:
    """An image that holds an odd number."""
    x = torch.randn(2, 3, 20, 20)
    x[0, 1, 5, 6] = number
    return x


INPUTS: dict[str, Callable[[], Tensor]] = {
    "every second column": lambda: torch.randn(2, 3, 20, 40)[..., ::2],
    "transposed": lambda: torch.randn(2, 3, 20, 20).transpose(2, 3),
    "one image twice": lambda: torch.randn(1, 3, 20, 20).expand(2, 3, 20, 20),
    "one channel three times": lambda: torch.randn(2, 1, 20, 20).expand(2, 3, 20, 20),
    "inside another tensor": lambda: torch.randn(3, 3, 20, 20)[1:],
    "an address between cache lines": lambda: torch.randn(2401)[1:].view(2, 3, 20, 20),
    "denormal": lambda: 1e-40 * torch.randn(2, 3, 20, 20),
    "with a sign that is changed lazily": lambda: torch._neg_view(torch.randn(2, 3, 20, 20)),
    "zeros without memory": lambda: torch._efficientzerotensor((2, 3, 20, 20)),
    "with NaN": lambda: with_number(math.nan), "with infinity": lambda: with_number(math.inf)}


@pytest.fixture
def fast_and_model(quick: Callable[..., Optimized]) -> tuple[Optimized, nn.Module]:
    """A net for two images, optimised."""
    model = norm_net()
    return quick(model, torch.randn(2, 3, 20, 20)), model


def test_inputs_of_every_kind_give_pytorch_s_results(fast_and_model: tuple[Optimized, nn.Module]) -> None:
    fast, model = fast_and_model
    with torch.inference_mode():
        inference = torch.randn(2, 3, 20, 20)
    for name, x in [(name, make()) for name, make in INPUTS.items()] + [("of the inference mode", inference)]:
        with torch.no_grad():
            assert equal(fast(x), model(x)), name


@pytest.mark.parametrize("example_format", [torch.contiguous_format, torch.channels_last])
def test_results_have_the_memory_format_that_pytorch_gives_them(example_format: torch.memory_format,
                                                                quick: Callable[..., Optimized]) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2)).eval()
    fast = quick(model, torch.randn(2, 3, 10, 12).contiguous(memory_format=example_format))
    images = torch.randn(3, 2, 3, 10, 12)
    for form in (torch.contiguous_format, torch.channels_last):
        for image in images:  # the first result is the original's
            x = image.contiguous(memory_format=form)
            with torch.no_grad():
                assert equal(fast(x), model(x))


class Returned(nn.Module):
    """A layer, and a result that does not read it."""

    def __init__(self, result: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.layer, self.result = nn.Conv2d(3, 4, 3), result

    def forward(self, x: Tensor) -> object:
        self.layer(x)
        return self.result(x)


@pytest.mark.parametrize(("model", "batch", "reason"), [
    (nn.Conv2d(3, 4, 3), 0, r"an example input has a size of 0 \(0x3x20x20\)$"),
    (Returned(lambda x: "hello"), 1, "its result has no tensor$"),
    (Returned(lambda x: x + 1), 1, "for this input, no convolution .* whose result is used$")])
def test_a_model_without_a_layer_to_optimise_is_refused_with_the_reason(
        model: nn.Module, batch: int, reason: str, quick: Callable[..., Optimized]) -> None:
    with pytest.raises(MisuseError, match=reason):
        quick(model.eval(), torch.randn(batch, 3, 20, 20))


def test_a_number_without_axes_is_an_operand(quick: Callable[..., Optimized]) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x: Tensor, factor: Tensor) -> Tensor:
            result: Tensor = self.linear(x) * factor
            return result

    model, x = Scaled().eval(), torch.randn(5, 8)
    fast = quick(model, (x, torch.tensor(2.5)))
    for factor in (torch.tensor(-1.0), torch.tensor(3), torch.tensor([3.0])):
        assert same(fast, model, x, factor)


@pytest.mark.parametrize("function", [
    lambda y: torch.cat([y[:, 3:3], y], 1), lambda y: torch.cat([torch.ones(2, 0, 7, 6), y], 1),
    lambda y: y.mean(1, keepdim=True).expand(2, 8, 7, 6),
    lambda y: nn.functional.max_pool2d(y, 2, return_indices=True)[1].float(),
    lambda y: nn.functional.max_pool2d(y[0], 2, return_indices=True)[0],
    lambda y: y.sqrt(), lambda y: (y > 0).float().log(),
    lambda y: nn.functional.avg_pool2d(y, 3, 2, 1, ceil_mode=True, count_include_pad=False)])
def test_odd_results_are_pytorch_s(quick: Callable[..., Optimized], function: Callable[[Tensor], Tensor]) -> None:
    model, x = After(function).eval(), torch.randn(2, 4, 7, 6)
    fast = quick(model, x)
    with torch.no_grad():
        assert equal(fast(x), model(x))


def test_an_input_that_the_model_changes_is_changed(quick: Callable[..., Optimized]) -> None:
    class Changing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.add_(1))

    model, example = Changing(8, 4).eval(), torch.randn(5, 8)
    before = example.clone()
    fast = quick(model, example)
    assert torch.equal(example, before)
    x, other = before.clone(), before.clone()
    with torch.no_grad():
        assert torch.allclose(fast(x), model(other), atol=1e-5)
    assert torch.equal(x, other)


def test_of_a_model_that_changes_its_buffers_the_parts_are_optimised(quick: Callable[..., Optimized]) -> None:
    class Remembering(nn.Module):
        last: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 4)
            self.register_buffer("last", torch.zeros(5, 4))

        def forward(self, x: Tensor) -> Tensor:
            self.last.copy_(self.linear(x))
            return self.last * 2

    model, x = Remembering().eval(), torch.randn(5, 8)
    lines: list[str] = []
    fast: Any = quick(model, x, progress=lines.append)
    assert "it changes its buffers" in lines[0]
    assert isinstance(fast.model.linear, Compiled)
    with torch.no_grad():
        assert same(fast, model, x)
