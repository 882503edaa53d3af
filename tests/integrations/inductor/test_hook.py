"""seqtune.inductor under Inductor's own lowering for GPUs that are not here; what is proposed is compiled."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: make develop")
pytest.importorskip("triton", reason="Triton is not installed (Linux only): make develop")

import torch
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V

import seqtune.inductor
from seqtune.errors import MisuseError, SeqtuneWarning, UnavailableError
from seqtune.kernels.declaration import to_json
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.predictor.answering import Answering
from tests.support.confidence import expect
from tests.support.devices import described_gpu
from tests.support.inductor.lowering import lowered, pretended_gpu
from tests.support.learning.shipped_gpu import ship_random
from tests.support.paths import ROOT
from tests.support.triton.generated import compiled, load

if not hasattr(InductorChoices, "_finalize_template_configs"):
    pytest.skip("this PyTorch's Inductor does not ask for choices", allow_module_level=True)

ATEN = torch.ops.aten
HALF, FP8 = torch.float16, torch.float8_e4m3fn
Operands = list[tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]]


def rows(*size: int, dtype: torch.dtype = HALF) -> tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]:
    """A tensor whose last axis is contiguous."""
    return dtype, size, tuple(torch.empty(size, device="meta").stride())


def columns(m: int, n: int, dtype: torch.dtype = HALF) -> tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]:
    """A matrix whose first axis is contiguous."""
    return dtype, (m, n), (1, m)


def scaled(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
    """a times b of 8-bit numbers, with a scale for each tensor."""
    return ATEN._scaled_mm.default(a, b, scale_a, scale_b, out_dtype=torch.bfloat16)


PRODUCTS: dict[str, tuple[Any, Operands]] = {
    "mm": (ATEN.mm.default, [rows(512, 1000), columns(1000, 768)]),
    "addmm": (ATEN.addmm.default, [rows(768), rows(512, 1024), rows(1024, 768)]),
    "bmm": (ATEN.bmm.default, [rows(8, 64, 128), rows(8, 128, 256)]),
    "baddbmm": (ATEN.baddbmm.default, [rows(8, 64, 256), rows(8, 64, 128), rows(8, 128, 256)]),
    "scaled_mm": (scaled, [rows(512, 1024, dtype=FP8), columns(1024, 768, dtype=FP8),
                           rows(dtype=torch.float32), rows(dtype=torch.float32)]),
}


def predicted(choices: list[Any]) -> list[Any]:
    return [choice for choice in choices if "seqtune" in choice.annotations]


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_predicted_choice_is_timed_against_the_library_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with seqtune.inductor.choosing(device="triton:h200"):
        choices = lowered(*PRODUCTS[name], monkeypatch)
    assert len(predicted(choices)) == 1
    assert all("triton" not in choice.name for choice in choices if choice not in predicted(choices))
    assert 2 <= len(choices) <= 3  # PyTorch has two library calls for a product with a bias


@pytest.mark.parametrize("name", PRODUCTS)
def test_alone_nothing_is_timed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with seqtune.inductor.choosing(alone=True, device="triton:h200"):
        choices = lowered(*PRODUCTS[name], monkeypatch)
    assert predicted(choices) == choices
    assert len(choices) == 1


@pytest.mark.parametrize(("name", "answers"), [
    ("mm", "gpu"), ("addmm", "gpu"), ("bmm", "analytic"), ("scaled_mm", "analytic")])
def test_the_shipped_checkpoint_answers_for_the_kernels_that_it_knows(
        name: str, answers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ship_random(tmp_path, monkeypatch)
    asked: list[str] = []
    propose = Answering.propose

    def noted(self: Answering, *given: Any) -> Any:
        asked.append(str(self.name))
        return propose(self, *given)

    monkeypatch.setattr(Answering, "propose", noted)
    with seqtune.inductor.choosing(alone=True, device="triton:h200"):
        assert len(lowered(*PRODUCTS[name], monkeypatch)) == 1
    assert asked == [answers]


def test_without_the_library_one_choice_is_left_and_afterwards_inductor_has_its_own(
        monkeypatch: pytest.MonkeyPatch) -> None:
    with seqtune.inductor.choosing(device="triton:h200"):
        assert len(predicted(lowered(*PRODUCTS["mm"], monkeypatch, backends="TRITON"))) == 1
    monkeypatch.undo()
    choices = lowered(*PRODUCTS["mm"], monkeypatch)
    assert len(choices) > 10
    assert predicted(choices) == []


@pytest.mark.parametrize(("name", "gpu"), [
    ("mm", "h200"), ("bmm", "a100"), ("scaled_mm", "mi300x"),  # an A100 has no 8-bit floating-point instructions
    *(pytest.param(*pair, marks=pytest.mark.anywhere) for pair in (
        ("mm", "a100"), ("mm", "mi300x"), ("bmm", "h200"), ("bmm", "mi300x"), ("scaled_mm", "h200")))])
def test_the_text_of_the_predicted_choice_compiles(name: str, gpu: str, tmp_path: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    device = described_gpu("triton", gpu)
    operation, operands = PRODUCTS[name]
    if (name, gpu) == ("scaled_mm", "mi300x"):  # which has another 8-bit format
        operands = [(torch.float8_e4m3fnuz if dtype == FP8 else dtype, size, strides)
                    for dtype, size, strides in operands]
    with seqtune.inductor.choosing(alone=True, device=f"triton:{gpu}"):
        (choice,) = lowered(operation, operands, monkeypatch)
        settings = dict(choice.annotations["seqtune"].settings)
        text = Path(choice.bmreq.module_path).read_text()
        tuner = getattr(load(text, tmp_path / f"{name}_{gpu}.py"), choice.bmreq.kernel_name)
    depth, block = operands[0][1][-1], settings["BLOCK_SIZE_K" if name == "scaled_mm" else "BLOCK_K"]
    assert f"EVEN_K : tl.constexpr = {depth % int(block) == 0}\n" in text
    monkeypatch.undo()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    signature = tuner.triton_meta["signature"]
    binary = compiled(tuner.fn, signature, range(len(signature)), device,
                      {option: settings[option] for option in ("num_warps", "num_stages")})
    assert 0 < binary.metadata.shared <= device.local_memory


@pytest.mark.parametrize(("operation", "operands", "options", "reason"), [
    (ATEN.mm.default, [rows(64, 64, dtype=torch.float32)] * 2, {}, "fp32 products without TF32"),
    (ATEN._int_mm.default, [rows(64, 64, dtype=torch.int8)] * 2, {}, "its template of int_mm"),
    (*PRODUCTS["mm"], {"device": None}, "name the one to predict for|no facts|GPU"),
    (*PRODUCTS["mm"], {"device": "triton:t4"}, "needs a GPU from sm_80"),
    (*PRODUCTS["bmm"], {"min_confidence": 0.5}, "the predictor does not estimate its confidence"),
    (lambda x, w: ATEN.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
     [rows(1, 64, 28, 28), rows(64, 64, 3, 3)], {}, "template of convolutions")])
def test_what_cannot_be_predicted_is_one_warning_and_inductors_choices(
        operation: Any, operands: Operands, options: dict[str, Any], reason: str,
        monkeypatch: pytest.MonkeyPatch) -> None:
    expected = len(lowered(operation, operands, monkeypatch))
    monkeypatch.undo()
    with seqtune.inductor.choosing(**{"device": "triton:h200", **options}), \
            pytest.warns(SeqtuneWarning, match=f"so Inductor chooses: .*({reason})") as said:
        choices = lowered(operation, operands, monkeypatch)
    assert predicted(choices) == []
    assert len(choices) == expected
    assert len(said) == 1


def test_options_of_a_declared_kernel_are_predicted(tmp_path: Path) -> None:
    flex = Kernel.of(
        name="mine.flex", operation="recorded", meaning="flex attention", backends=("triton",),
        parameters=(Parameter("BLOCK_M", (64, 128)), Parameter("BLOCK_N", (32, 64)), Parameter("num_warps", (4, 8)),
                    Parameter("num_stages", (2, 3))),
        constraints=(("BLOCK_M <= queries", "the block has more rows than there are queries"),),
        default={"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3})
    (tmp_path / "flex.json").write_text(json.dumps({"kernels": [to_json(flex)]}))
    ask = partial(seqtune.inductor.kernel_options, tmp_path / "flex.json", device="triton:h200", head=128)
    assert ask(queries=4096) == {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    assert ask(queries=64)["BLOCK_M"] == 64
    with pytest.warns(SeqtuneWarning, match="so Inductor chooses: the predictor does not estimate its confidence"):
        assert ask(queries=64, min_confidence=0.9) == {}
    with pytest.warns(SeqtuneWarning, match="so Inductor chooses"):
        assert ask(queries=32) == {}


def test_an_inductor_without_the_hook_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(InductorChoices, "_finalize_template_configs")
    with pytest.raises(UnavailableError, match=r"does not ask for choices .*; that of 2\.13 does"), \
            seqtune.inductor.choosing():
        pass


@pytest.mark.parametrize(("options", "reason"), [
    ({"device": 5}, "device=5"), ({"min_confidence": 2}, "min_confidence=2"), ({"checkpoint": 5}, "checkpoint=5"),
    ({"checkpoint": "no/such/folder"}, "no/such/folder")])
def test_arguments_that_can_never_work_are_refused_at_once(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(MisuseError, match=reason), seqtune.inductor.choosing(**options):
        pass


def test_the_example_in_the_guide_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    code, _ = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "guides" / "inductor.md").read_text(), re.M | re.S)
    asked: list[str] = []

    def compiling(model: Any, mode: str) -> Any:
        asked.append(type(V.choices).__name__)
        return model

    monkeypatch.setattr(torch, "compile", compiling)
    names: dict[str, Any] = {}
    exec(compile(code, "inductor.md", "exec"), names)
    assert asked == ["PredictedChoices"]
    assert names["y"].shape == (64, 1024)


def test_below_the_wanted_confidence_inductor_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    expect(0.7, monkeypatch)
    with seqtune.inductor.choosing(device="triton:h200", min_confidence=0.8), \
            pytest.warns(SeqtuneWarning, match="less than 80 %"):
        assert predicted(lowered(*PRODUCTS["mm"], monkeypatch)) == []
    with seqtune.inductor.choosing(device="triton:h200", min_confidence=0.7):
        assert len(predicted(lowered(*PRODUCTS["mm"], monkeypatch))) == 1


def test_flex_attention_is_left_to_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = seqtune.inductor.PredictedChoices(device="triton:h200")
    with pretended_gpu(monkeypatch):
        with pytest.warns(SeqtuneWarning, match="no kernel here describes its template of flex attention"):
            found = choices.get_flex_attention_fwd_configs(64, HALF, "cuda")
        assert found == InductorChoices().get_flex_attention_fwd_configs(64, HALF, "cuda")


def test_caches_tell_answers_apart_that_may_differ() -> None:
    options: list[dict[str, Any]] = [{}, {"device": "triton:h200"}, {"device": "triton:a100"}, {"alone": True},
                                     {"min_confidence": 0.5}, {"checkpoint": "default"}]
    identities = [seqtune.inductor.PredictedChoices(**each).uuid() for each in options]
    assert len(set(identities)) == len(options)
    assert identities[0] == seqtune.inductor.PredictedChoices().uuid()
