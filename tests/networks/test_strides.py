"""Models whose results depend on the strides of an operand: the original computes these where the graph does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

from seqtune.errors import SeqtuneWarning
from seqtune.networks.capture.examples import difference
from seqtune.networks.compiled import Compiled
from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]
SHAPE = (2, 3, 6, 5)


class Strided(nn.Conv2d):
    """A convolution whose result depends on the memory of its operand, which it also changes."""

    def __init__(self, read: Callable[[Tensor], float]) -> None:
        super().__init__(3, 4, 3)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        result = super().forward(x) + self.read(x)
        x.mul_(2)
        return result


READS: dict[str, Callable[[Tensor], float]] = {
    "stride": lambda x: x.stride(1), "is_contiguous, a little": lambda x: 0.05 * x.is_contiguous(),
    "is_contiguous": lambda x: int(x.is_contiguous()),
    "is channels_last": lambda x: int(x.is_contiguous(memory_format=torch.channels_last))}
FORMATS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x, "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "every second column": lambda x: torch.cat([x, x], 3)[..., ::2]}


def check(fast: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor) -> None:
    """Compare result, its strides, and the operand with those of the model."""
    other = torch.empty_strided(x.shape, x.stride()).copy_(x)
    with torch.no_grad():
        result, expected = fast(x), model(other)
    torch.testing.assert_close(result, expected)
    assert result.stride() == expected.stride()
    torch.testing.assert_close(x, other)


@pytest.mark.parametrize("name", READS)
def test_an_optimised_model_computes_operands_of_all_strides(quick: Callable[..., Optimized], name: str) -> None:
    model = Strided(READS[name]).eval()
    fast = quick(model, torch.randn(SHAPE))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SeqtuneWarning)
        for form in FORMATS.values():
            for _ in range(3):
                check(fast, model, form(torch.randn(SHAPE)))
    others = {model.read(form(torch.randn(SHAPE))) for form in FORMATS.values()} - {model.read(torch.randn(SHAPE))}
    messages = [message for message in (str(warning.message) for warning in caught)
                if "depend on the strides of its operands" in message]
    assert (len(messages) > 0) == (len(others) > 0)


def test_a_model_whose_results_do_not_depend_on_strides_stays_ours(quick: Callable[..., Optimized]) -> None:
    model = Strided(lambda x: 1).eval()
    fast = quick(model, torch.randn(SHAPE))
    assert isinstance(fast.model, Compiled)
    fast.model.original.forward = calls = Mock(wraps=fast.model.original.forward)
    for form in FORMATS.values():
        for _ in range(3):
            check(fast, model, form(torch.randn(SHAPE)))
    assert calls.call_count == len(FORMATS) - 1  # once for each format that is not the example's


def test_a_call_in_which_only_the_graph_differs_settles_nothing(quick: Callable[..., Optimized],
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    model = Strided(lambda x: 1).eval()
    fast = quick(model, torch.randn(SHAPE))
    assert isinstance(fast.model, Compiled)
    noisy = iter([1.0])  # of the first comparison: the example of rounding errors alone
    with monkeypatch.context() as patch:
        patch.setattr("seqtune.networks.compiled.difference",
                      lambda expected, results: next(noisy, None) or difference(expected, results))
        with warnings.catch_warnings():
            warnings.simplefilter("error", SeqtuneWarning)
            check(fast, model, FORMATS["channels_last"](torch.randn(SHAPE)))
            strides = (FORMATS["channels_last"](torch.randn(SHAPE)).stride(),)
            assert not fast.model.formats.are_refused(strides)
            assert fast.model.formats.find(strides) is None
            check(fast, model, FORMATS["channels_last"](torch.randn(SHAPE)))
            assert fast.model.formats.find(strides) is not None


class Columns(nn.Linear):
    """A result with gaps: some of the columns."""

    def __init__(self, part: slice) -> None:
        super().__init__(7, 11)
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, self.part]


@pytest.mark.parametrize("part", [slice(0, 11, 2), slice(1, None, 3), slice(0, None, 7), slice(2, 9)])
def test_results_with_gaps_have_pytorch_s_strides(quick: Callable[..., Optimized], part: slice) -> None:
    model, x = Columns(part).eval(), torch.randn(4, 7)
    check(quick(model, x), model, x)
