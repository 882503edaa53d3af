"""timm's networks with random weights: the smallest model of each module, and timm's own small test models."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch

from tests.peers.compiled import fault
from tests.peers.verdicts import Verdicts

LEAST = 120
SIZES = ("atto", "femto", "pico", "nano", "xxs", "xxtiny", "xs", "xtiny", "tiny", "t", "mini", "micro", "small", "s",
         "base", "b")  # the letters with which parts of names begin, the smallest model first
EACH = 60  # models of a module for which one more is taken


@pytest.fixture(scope="module")
def timm() -> Any:
    """The package timm. The operators of torchvision that were compiled for another build of PyTorch stay out."""
    with mock.patch("torch.library.register_fake", return_value=lambda function: function):
        import torchvision  # noqa: F401
    import timm

    return timm


def chosen(timm: Any) -> list[str]:
    """The names of the models."""
    modules: dict[str, list[str]] = {module: timm.list_models(module=module) for module in timm.list_modules()}

    def size(name: str) -> tuple[int, int, str]:
        words = (part.rstrip("0123456789") for part in name.split("_")[1:])
        return min((SIZES.index(word) for word in words if word in SIZES), default=len(SIZES)), len(name), name

    smallest = [name for names in modules.values() for name in sorted(names, key=size)[:1 + len(names) // EACH]]
    return sorted({*smallest, *timm.list_models("test_*")})


def checked(timm: Any, name: str) -> str:
    """The fault of a compiled model; empty if it is right."""
    torch.manual_seed(0)
    network = timm.create_model(name, pretrained=False)
    return fault(network, [torch.randn(1, *network.default_cfg["input_size"])])


def test_a_model_of_each_module_of_timm_computes_what_it_does_in_pytorch(
        timm: Any, request: pytest.FixtureRequest) -> None:
    verdicts = Verdicts()
    for name in chosen(timm):
        verdicts.judge(name, partial(checked, timm, name))
    verdicts.check(LEAST, request)
