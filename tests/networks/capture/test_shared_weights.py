"""Tests of copies in the same memory, of written weights, and of what stays the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqtune.errors import MisuseError, SeqtuneWarning
from seqtune.networks.capture.shared_weights import OwnCopy, WatchedWeights, shared_copy
from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm

pytestmark = needs_llvm


class Counts(nn.Module):
    """A model that counts its calls, beside a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 4)
        self.calls = nn.Buffer(torch.zeros(()))
        self.shift = nn.Buffer(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        result: Tensor = self.inner(x) + self.shift
        return result


def test_a_buffer_that_the_model_writes_stays_the_users(quick: Callable[..., Optimized]) -> None:
    model, x = Counts().eval(), torch.randn(2, 8)
    expected = model(x).detach()
    fast = quick(model, x)
    torch.testing.assert_close(fast(x), expected)
    assert float(model.calls) == 1


class Numbered(nn.Module):
    """A linear layer whose result depends on the number of calls, which a buffer counts."""

    def __init__(self, replaced: bool) -> None:
        super().__init__()
        self.inner, self.replaced = nn.Linear(8, 4), replaced
        self.calls: Tensor = nn.Buffer(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.replaced:
            self.calls = self.calls + 1
        else:
            self.calls.add_(1)
        result: Tensor = self.inner(x) * self.calls
        return result


@pytest.mark.parametrize("replaced", [False, True])
def test_results_that_depend_on_a_written_buffer_go_on_as_pytorch_s(replaced: bool,
                                                                    quick: Callable[..., Optimized]) -> None:
    model, x = Numbered(replaced).eval(), torch.randn(2, 8)
    fast = quick(model, x)
    assert len(fast.choices) == 1
    for count in (1, 2, 3):
        torch.testing.assert_close(fast(x), model(x))
        assert float(model.calls) == count


def test_replaced_weights_are_the_original_s(quick: Callable[..., Optimized]) -> None:
    model: Any = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).eval()
    x = torch.randn(2, 8)
    fast = quick(model, x)
    names = [name for name, _ in (*model.named_parameters(), *model.named_buffers())]
    with torch.no_grad():
        for name in names:
            (key,) = (key for key in fast.state_dict() if key.endswith(f".{name}"))
            new = {name: 2 * model.state_dict()[name]}
            with pytest.warns(SeqtuneWarning, match="were replaced"):
                ours = torch.func.functional_call(fast, {key: new[name]}, (x,))
            torch.testing.assert_close(ours, torch.func.functional_call(model, new, (x,)))
        torch.testing.assert_close(fast(x), model(x))
        for module in (model, fast.get_submodule("model.original")):
            torch.nn.utils.parametrize.register_parametrization(module[0], "weight", nn.Tanh())  # type: ignore[index]
        with pytest.warns(SeqtuneWarning, match="were replaced"):
            torch.testing.assert_close(fast(x), model(x))


def test_a_shared_copy_keeps_tied_weights_together_and_has_buffers_of_its_own() -> None:
    model: Any = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3))
    model[1].weight = model[0].weight
    copied: Any = shared_copy(model)
    assert copied[1].weight is copied[0].weight is not model[0].weight
    assert copied[2].running_mean.data_ptr() != model[2].running_mean.data_ptr()
    weights = WatchedWeights(copied)
    with torch.no_grad():
        model[0].weight.fill_(7)
    assert weights.were_written()
    assert (copied[0].weight == 7).all()


def test_an_own_copy_has_the_values_in_other_memory_once_it_has_waited() -> None:
    model: Any = nn.Sequential(nn.Linear(300, 200), nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
                               nn.Linear(3, 3).bfloat16(), nn.BatchNorm1d(3))
    model.register_parameter("tied", model[0].weight)
    model.register_parameter("nothing", nn.Parameter(torch.zeros(0, 3), requires_grad=False))
    expected = {name: value.clone() for name, value in model.state_dict().items()}
    copied = OwnCopy(model)
    weights = WatchedWeights(copied.model)
    copied.wait()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7)
    assert not weights.were_written()
    made: Any = copied.model
    assert made.tied is made[0].weight
    assert made[1].weight.stride() == model[1].weight.stride()
    assert not made.nothing.requires_grad
    for name, value in made.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0)
        assert not value.numel() or value.data_ptr() != model.state_dict()[name].data_ptr()


def test_a_model_that_is_converted_later_keeps_the_optimised_one(quick: Callable[..., Optimized]) -> None:
    model, x = nn.Sequential(nn.Linear(8, 4)).eval(), torch.randn(2, 8)
    expected = model(x).detach()
    fast = quick(model, x)
    model.bfloat16()
    torch.testing.assert_close(fast(x), expected)
    torch.testing.assert_close(fast(torch.cat([x, x])), torch.cat([expected, expected]))
    with torch.no_grad():
        next(fast.parameters()).zero_()
        with pytest.warns(SeqtuneWarning, match="were changed"):
            assert not torch.allclose(fast(x), expected)


class Outer(nn.Module):
    """A module that writes a buffer of its part in one of three ways, and reads the type of the part's weight."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.part: Any = nn.Sequential(nn.Linear(8, 4))
        self.part.register_buffer("state", None if way == "fill" else torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "write":
            self.part.state.add_(1)
        else:
            self.part.state = x.mean() if self.part.state is None else self.part.state * 0.5 + x.mean()
        result: Tensor = self.part(x.to(self.part[0].weight.dtype)) * self.part.state
        return result


@pytest.mark.parametrize("way", ["write", "replace", "fill"])
def test_a_buffer_of_a_part_that_an_outer_module_writes_goes_on_as_pytorch_s(
        way: str, quick: Callable[..., Optimized]) -> None:
    model, x = Outer(way).eval(), torch.randn(2, 8)
    fast = quick(model, x)
    assert len(fast.choices) == 1
    for _ in range(3):
        torch.testing.assert_close(fast(x), model(x))


def test_a_model_that_cannot_be_copied_is_refused_and_a_conjugated_weight_is_copied() -> None:
    model: Any = nn.Linear(8, 4)
    model.derived = model.weight * 2
    with pytest.raises(MisuseError, match=r"^the model cannot be copied: Only Tensors"):
        OwnCopy(model)
    del model.derived
    model.turned = nn.Parameter(torch.randn(3, dtype=torch.cfloat).conj())
    copied = OwnCopy(model)
    copied.wait()
    made: Any = copied.model
    assert torch.equal(made.turned, model.turned)
