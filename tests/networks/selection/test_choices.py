"""Choices of kernels on disk: saved, loaded, and refused where they do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqtune.errors import FormatError, MisuseError
from seqtune.integrations.pytorch.hook.optimization import Optimizer, optimize
from seqtune.integrations.pytorch.hook.tools import Tools
from seqtune.networks.optimized import Optimized
from seqtune.networks.program.device_threads import device_for_threads
from seqtune.networks.selection.choices import MOST_BYTES
from tests.support.llvm import needs_llvm
from tests.support.torch_models import norm_net

pytestmark = needs_llvm


def test_a_choice_is_saved_and_loaded_without_predicting(
        quick: Callable[..., Optimized], tmp_path: Path) -> None:
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    fast = quick(model, x)
    fast.save(tmp_path / "choice.json")
    again = Optimizer(device_for_threads(1), saved=tmp_path / "choice.json", tools=Tools(
        lambda *_: pytest.fail("a predictor is made"))).optimize(model, x)
    assert [one.configuration for one in again.choices] == [one.configuration for one in fast.choices]
    assert torch.equal(again(x), fast(x))


@pytest.mark.parametrize("path", [None, 1, b"choice", "a" * 300, "\ud800"])
def test_a_choice_is_saved_at_paths_only(path: Any, quick: Callable[..., Optimized]) -> None:
    fast = quick(nn.Linear(8, 4).eval(), torch.randn(2, 8))
    with pytest.raises(MisuseError, match="it must be a path"):
        fast.save(path)


def test_a_saved_choice_with_other_numbers_is_refused(quick: Callable[..., Optimized], tmp_path: Path) -> None:
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    quick(model, x).save(tmp_path / "choice.json")
    found = json.loads((tmp_path / "choice.json").read_text())
    for layer in found["layers"]:
        layer["configuration"] = {name: float(one) if isinstance(one, int) else one
                                  for name, one in layer["configuration"].items()}
    (tmp_path / "choice.json").write_text(json.dumps(found))
    with pytest.raises(FormatError, match=r"vector=\d+\.0 is not one of"):  # 16.0 is another setting than 16
        optimize(model, x, device=device_for_threads(1), saved=tmp_path / "choice.json")


@pytest.mark.parametrize(("change", "says"), [
    (lambda found: found.update(device="llvm:neon:64 m9"), "was saved on llvm:neon:64 m9"),
    (lambda found: found.update(machine="l1=1 l2=2 l3=3 local=0"), "was saved on a machine with other caches"),
    (lambda found: found["layers"].pop(), "saved for another model"),
    (lambda found: found["layers"].append(found["layers"][0]), "saved for another model"),
    (lambda found: (found["layers"].pop(), found.pop("inputs")), "saved for another model or other input shapes"),
    (lambda found: (found["layers"].pop(), found.update(inputs="two\nlines")), "saved for other input shapes"),
    (lambda found: found["layers"][0].update(version=999), "version 999 of llvm.direct"),
    (lambda found: found["layers"][0].update(kernel="llvm.none"), "no kernel 'llvm.none'"),
    (lambda found: found["layers"][0]["configuration"].update(vector=999), "vector=999"),
    (lambda found: found["layers"][0].update(configuration=None), "not a saved choice"),
    (lambda found: found["layers"][0].update(kernel=None), "not a saved choice"),
    (lambda found: found["layers"][0].update(kernel="llvm.gemm"), "solves gemm, not conv2d"),
    (lambda found: found["layers"][0].update(kernel="opencl.direct"), "runs on opencl, not on llvm"),
    (lambda found: found["layers"][0].update(kernel="llvm.depthwise", version=1), "a group of its own"),
    (lambda found: found["layers"][0]["problem"].update(layout="two\nlines"), "layout=two lines"),
    (lambda found: found.update(device="two\nlines"), "saved on two lines"),
    (lambda found: found.update(layers={"problem": 1}), "not a saved choice"),
    (lambda found: found.update(networks={"peer": "eager"}), "not a saved choice"),
    (lambda found: found.update(networks=[{"peer": "two\nlines"}]), "no verdict on a network"),
    (lambda found: found.update(seqtune=99), "schema 99"),
    (lambda found: found.pop("layers"), "not a saved choice"),
])
def test_a_choice_that_does_not_fit_is_refused_in_one_line(
        quick: Callable[..., Optimized], tmp_path: Path, change: Callable[[Any], object], says: str) -> None:
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    path = tmp_path / "choice.json"
    quick(model, x).save(path)
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    with pytest.raises(MisuseError) as caught:
        optimize(model, x, device=device_for_threads(1), saved=path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_choice_for_other_input_shapes_says_for_which_it_was_saved(quick: Callable[..., Optimized],
                                                                     tmp_path: Path) -> None:
    path = tmp_path / "choice.json"
    quick(norm_net(), torch.randn(1, 3, 20, 20)).save(path)
    with pytest.raises(FormatError, match=r"was saved for other input shapes, \[1, 3, 20, 20\]; these are "
                                          r"\[4, 3, 20, 20\] \(it has no .* n=4 .*\): optimise the model for them"):
        optimize(norm_net(), torch.randn(4, 3, 20, 20), device=device_for_threads(1), saved=path)


def test_a_choice_that_is_not_there_or_damaged_is_refused(tmp_path: Path) -> None:
    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    with pytest.raises(FormatError, match="cannot read"):
        optimize(model, x, device=device_for_threads(1), saved=tmp_path / "none.json")
    path = tmp_path / "damaged.json"
    for damage in (b"[1, {", b"\xff\xfe\x00", b"[" * 100_000, b"{}"):
        path.write_bytes(damage)
        with pytest.raises(FormatError, match="not a saved choice"):
            optimize(model, x, device=device_for_threads(1), saved=path)
    path.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(FormatError, match="more than 4 MB"):
        optimize(model, x, device=device_for_threads(1), saved=path)
