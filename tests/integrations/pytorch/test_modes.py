"""Models under autocast, in inference mode and with hooks: both entries answer as PyTorch does or the guide says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from seqtune.errors import MisuseError, SeqtuneWarning
from seqtune.integrations.pytorch.hook.dynamo import backend
from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
              pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")]


def image_net() -> nn.Sequential:
    """A convolution, its activation and another convolution."""
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval()


def doubled(module: nn.Module, operands: Any, result: Tensor) -> Tensor:
    return 2 * result


def shifted(module: nn.Module, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(operand + 1 for operand in operands)


@pytest.fixture
def compiled(checkpoint: Path) -> Callable[..., Any]:
    """`torch.compile` with the backend, without measuring."""
    torch._dynamo.reset()
    return partial(torch.compile, backend=partial(backend, options={
        "verify": False, "checkpoint": str(checkpoint), "fallback": "eager"}))


@pytest.fixture(params=["optimize", "compile"])
def made(request: pytest.FixtureRequest, quick: Callable[..., Optimized],
         compiled: Callable[..., Any]) -> Callable[[nn.Module, Tensor], Callable[[Tensor], Tensor]]:
    """Each entry: a model and an example become a faster model."""
    def entry(model: nn.Module, x: Tensor) -> Any:
        return quick(model, x) if request.param == "optimize" else compiled(model)

    return entry


def test_hooks_of_the_model_run(made: Callable[..., Any]) -> None:
    model, x = image_net(), torch.randn(1, 3, 6, 5)
    with torch.no_grad():
        plain = model(x)
        model[0].register_forward_hook(doubled)
        model[2].register_forward_pre_hook(shifted)
        expected = model(x)
        fast = made(model, x)
        torch.testing.assert_close(fast(x), expected, atol=1e-4, rtol=1e-4)
    assert (plain - expected).abs().max() > 0.1


def test_inference_mode_changes_nothing(made: Callable[..., Any]) -> None:
    model, x = image_net(), torch.randn(1, 3, 6, 5)
    with torch.inference_mode():
        torch.testing.assert_close(made(model, x)(x), model(x), atol=1e-4, rtol=1e-4)


def test_under_autocast_a_compiled_model_answers_as_the_model_does(compiled: Callable[..., Any]) -> None:
    model, x = image_net(), torch.randn(1, 3, 6, 5)
    fast = compiled(model)
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            expected = model(x)
            with pytest.warns(SeqtuneWarning, match="eager computes this graph"):
                result = fast(x)
        assert result.dtype == expected.dtype == torch.bfloat16
        torch.testing.assert_close(result, expected, atol=2e-2, rtol=2e-2)
        torch.testing.assert_close(fast(x), model(x), atol=1e-4, rtol=1e-4)


def test_under_autocast_an_optimised_model_keeps_its_precision(quick: Callable[..., Optimized]) -> None:
    model, x = image_net(), torch.randn(1, 3, 6, 5)
    fast = quick(model, x)
    with torch.no_grad():
        expected = model(x)
        with torch.autocast("cpu", torch.bfloat16):
            result = fast(x)
        assert result.dtype == torch.float32
        torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)


def test_a_trace_and_fake_tensors_see_the_original(quick: Callable[..., Optimized]) -> None:
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval(), torch.randn(1, 3, 9, 9)
    fast, trace = quick(model, x), cast("Callable[..., nn.Module]", torch.jit.trace)
    torch.testing.assert_close(trace(fast, x)(x), model(x))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert fast(mode.from_tensor(x)).shape == (1, 8, 7, 7)
        with pytest.raises(MisuseError, match="fake tensors have none"):
            fast(x)
