"""Models with tuned kernels in them: the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqtune.errors import MisuseError
from seqtune.integrations.pytorch.hook.optimization import optimize
from seqtune.networks.compiled import Compiled
from seqtune.networks.optimized import Optimized
from seqtune.tuner.backends.llvm import discovery as llvm
from seqtune.tuner.backends.llvm.cores import usable_cpus
from tests.support.llvm import needs_llvm
from tests.support.torch_models import Residual, norm_net, random_norms, same

pytestmark = needs_llvm


@pytest.mark.parametrize(("device", "batch"), [("llvm:1", 1), ("llvm:0", 3)])
def test_a_network_with_norms_pools_and_a_classifier_computes_the_same(
        quick: Callable[..., Optimized], device: str, batch: int) -> None:
    model, x = norm_net(), torch.randn(batch, 3, 33, 30)
    fast = quick(model, x, device)
    assert [choice.problem["activation"] for choice in fast.choices] == ["relu", "relu", "none", "relu"]
    assert [choice.problem["bias"] for choice in fast.choices] == ["yes"] * 4
    for _ in range(3):
        y = torch.randn(batch, 3, 33, 30)
        assert same(fast, model, y)
        assert same(fast, model, y.contiguous(memory_format=torch.channels_last))
    assert fast.error < 1e-4


def test_the_threads_are_those_of_pytorch_but_no_more_than_cores(checkpoint: Path) -> None:
    model, x, cores = nn.Linear(8, 4).eval(), torch.randn(2, 8), len(usable_cpus())
    for count in (1, cores, cores + 3):
        torch.set_num_threads(count)
        fast = optimize(model, x, verify=False, checkpoint=checkpoint)
        assert fast.device.threads == min(count, cores)
        assert same(fast, model, x)


def test_threads_that_share_rows_of_images_compute_the_same(quick: Callable[..., Optimized]) -> None:
    model = nn.Sequential(nn.Conv2d(16, 48, 1), nn.ReLU(), nn.Conv2d(48, 48, 3, padding=1, groups=48),
                          nn.Conv2d(48, 48, 1), nn.Conv2d(48, 48, 3, padding=1, groups=6),
                          nn.Conv2d(48, 80, 3, padding=1)).eval()
    best = llvm.devices()[0]
    device = replace(best, name=f"llvm:{best.instruction_set}:2", threads=2, compute_units=2)  # on one core, too
    for batch in (1, 2, 3):
        x = torch.randn(batch, 16, 12, 16)
        assert same(quick(model, x, device), model, x)


def test_layers_in_different_memory_formats_follow_each_other(quick: Callable[..., Optimized]) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.linear, self.other = nn.Conv2d(3, 4, 3), nn.Linear(6, 6), nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            x = self.conv(x)
            y = self.linear(x)
            found: Tensor = self.linear(self.other(y) + y) + x
            return found

    model, x = Mixed().eval(), torch.randn(2, 3, 8, 8)
    fast = quick(model, x)
    assert len(fast.choices) == 4
    assert same(fast, model, x)


def test_an_operation_without_a_translation_stays_pytorch_s(quick: Callable[..., Optimized]) -> None:
    class Sorting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            found: Tensor = self.linear((self.linear(x) + x).sort(-1).values).softmax(-1)
            return found

    model, x = Sorting().eval(), torch.randn(1, 4, 6, 8)
    fast = quick(model, x)
    assert isinstance(fast.model, Compiled)
    graph = fast.model.graph
    assert [str(node.target) for node in graph.graph.nodes if str(node.target).startswith("aten.")] == [
        "aten.sort.default"]
    assert len(list(graph.children())) == 2
    assert same(fast, model, x)


def test_what_was_replaced_is_gone_and_the_model_given_is_untouched(quick: Callable[..., Optimized]) -> None:
    model = norm_net()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fast = quick(model, torch.randn(1, 3, 20, 20))
    compiled = fast.model
    assert isinstance(compiled, Compiled)
    left = {str(node.target) for node in compiled.graph.graph.nodes if node.op == "call_function"}
    assert not left & {"aten.conv2d.default", "aten.batch_norm.default", "aten.relu.default", "aten.relu_.default",
                       "aten.max_pool2d.default", "aten.linear.default"}
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert type(model[0]) is nn.Conv2d  # type: ignore[index]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_result_that_is_read_twice_is_not_lost(quick: Callable[..., Optimized], in_place: bool) -> None:
    model, x = random_norms(Residual(in_place)), torch.randn(1, 16, 9, 10)
    fast = quick(model, x)
    assert [choice.problem["activation"] for choice in fast.choices] == ["none", "relu"]
    assert same(fast, model, x)
    assert same(fast, model, torch.randn(1, 16, 9, 10))


@pytest.mark.parametrize(("layer", "shape"), [
    (nn.Conv2d(12, 18, 3, stride=(2, 1), padding=(2, 1), dilation=(1, 2), groups=3), (2, 12, 11, 13)),
    (nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), (1, 8, 9, 9)),
    (nn.Conv2d(1, 5, (1, 4), padding="valid"), (1, 1, 3, 9)),
    (nn.Linear(24, 40, bias=False), (2, 5, 24)),
    (nn.Linear(24, 40), (24,)),
])
def test_odd_layers_compute_the_same(quick: Callable[..., Optimized], layer: nn.Module, shape: tuple[int, ...]) -> None:
    fast = quick(layer.eval(), torch.randn(shape))
    assert len(fast.choices) == 1
    assert same(fast, layer, torch.randn(shape))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")  # PyTorch's, of its own copy
@pytest.mark.parametrize("layer", [
    nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), nn.Conv2d(4, 4, 2, padding="same"),
    nn.ConvTranspose2d(4, 4, 3)])
def test_what_no_kernel_computes_stays_pytorch_s(quick: Callable[..., Optimized], layer: nn.Module) -> None:
    model = nn.Sequential(layer, nn.Conv2d(4, 4, 1)).eval()
    x = torch.randn(1, 4, 8, 8)
    fast = quick(model, x)
    assert same(fast, model, x)


def test_other_shapes_and_keywords_go_through_the_original(quick: Callable[..., Optimized]) -> None:
    model = norm_net()
    fast = quick(model, torch.randn(1, 3, 20, 20))
    for shape in ((2, 3, 20, 20), (1, 3, 25, 31)):
        assert same(fast, model, torch.randn(shape))
    x = torch.randn(1, 3, 20, 20)
    assert torch.equal(fast(input=x), model(x))


def test_two_inputs_and_a_dictionary_of_results(quick: Callable[..., Optimized]) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3)

        def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            return {"sum": self.conv(x) + self.conv(y), "x": x}

    model, x, y = Two().eval(), torch.randn(1, 4, 6, 6), torch.randn(1, 4, 6, 6)
    fast = quick(model, (x, y))
    found, wanted = fast(x, y), model(x, y)
    assert list(found) == ["sum", "x"]
    assert torch.allclose(found["sum"], wanted["sum"], atol=1e-4)
    assert torch.equal(found["x"], x)


@pytest.mark.parametrize(("option", "message"), [
    ({"verify": "no"}, "verify='no'; it must be True or False"), ({"verify": 1}, "verify=1; it must be True or False"),
    ({"budget": 0}, "budget=0; it must be a positive number"), ({"budget": "1 min"}, "budget='1 min'; it must be a"),
    ({"seconds": True}, "seconds=True; it must be a positive"), ({"precision": []}, "precision=\\[\\] is not one of"),
    ({"checkpoint": 3}, "checkpoint=3; it must be a path"), ({"checkpoint": b"x"}, "checkpoint=b'x'; it must be a"),
    ({"saved": ""}, "saved=''; it must be a path"), ({"saved": "a\0b"}, "it must be a path"),
    ({"journal": "a" * 5000}, "it must be a path"), ({"saved": "\ud800"}, "it must be a path"),
    ({"seconds": 10**400}, "it must be a positive number"), ({"journal": 5}, "journal=5; it must be a path"),
    ({"journal": "."}, "journal='.' is a folder; name a file"), ({"journal": "/"}, "journal='/' is a folder"),
    ({"journal": "no/such/journal"}, "the folder of the journal no/such/journal does not exist"),
    ({"progress": None}, "progress=None; it must be a function")])
def test_an_option_that_makes_no_sense_is_refused_in_one_line(option: dict[str, Any], message: str) -> None:
    with pytest.raises(MisuseError, match=message) as caught:
        optimize(nn.Linear(8, 4).eval(), torch.randn(2, 8), **{"device": "llvm:1", "verify": False, **option})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("example", [3, None, "x", (), {"x": torch.ones(2, 8)}, [torch.ones(2, 8), [torch.ones(2)]],
                                     (torch.ones(2, 8), None)])
def test_an_example_that_is_not_of_tensors_is_refused(example: Any) -> None:
    with pytest.raises(MisuseError, match="the example input must be a tensor, or a tuple of the tensors"):
        optimize(nn.Linear(8, 4).eval(), example, device="llvm:1", verify=False)


@pytest.mark.parametrize("example", [torch.ones(2, 9), (torch.ones(2, 8), torch.ones(2)), torch.ones(2, 8).int()])
def test_an_example_that_the_model_does_not_take_is_refused_in_one_line(example: Any) -> None:
    with pytest.raises(MisuseError, match="the model cannot be called with the example input: ") as caught:
        optimize(nn.Linear(8, 4).eval(), example, device="llvm:1", verify=False)
    assert "\n" not in str(caught.value)


def test_a_model_that_cannot_be_called_a_second_time_is_refused_in_one_line() -> None:
    class Once(nn.Linear):
        calls: torch.Tensor

        def __init__(self) -> None:
            super().__init__(8, 4)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            if self.calls > 1:
                raise RuntimeError("the model was called")
            return super().forward(x)

    with pytest.raises(MisuseError, match="the model cannot be called with the example input a second time: the model"):
        optimize(Once().eval(), torch.randn(2, 8), device="llvm:1", verify=False)


@pytest.mark.parametrize(("kind", "dtype"), [("parameter", torch.float16), ("buffer", torch.float64)])
def test_a_tensor_of_another_type_is_named(kind: str, dtype: torch.dtype) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval()
    norm: Any = model[1]
    if kind == "parameter":
        norm.weight = nn.Parameter(torch.ones(8, dtype=dtype))
    else:
        norm.running_mean = torch.zeros(8, dtype=dtype)
    name = "weight" if kind == "parameter" else "running_mean"
    with pytest.raises(MisuseError, match=f"the model's {kind} 1.{name} is of {dtype}; only torch.float32 and "
                                          "torch.bfloat16 are optimised"):
        optimize(model, torch.randn(2, 8), device="llvm:1", verify=False)


def test_an_interruption_says_in_one_line_that_the_same_call_goes_on() -> None:
    class Interrupting(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"optimize was stopped; .* the same call goes on") as caught:
        optimize(Interrupting(8, 8).eval(), torch.randn(2, 8), device="llvm:1", verify=False)
    assert caught.value.__suppress_context__
    assert len(caught.traceback) == 2  # the caller, and `optimize`


def test_a_bf16_example_of_a_model_without_bf16_parameters_is_refused_with_what_to_convert() -> None:
    with pytest.raises(MisuseError, match=r"the example input is of torch.bfloat16, and no parameter of the model is: "
                                          r"convert the model and the example input with .float\(\) or"):
        optimize(nn.Linear(8, 8).eval(), torch.randn(2, 8).bfloat16(), device="llvm:1", verify=False)


def test_whatever_fails_inside_is_a_misuse_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("nothing to divide")

    monkeypatch.setattr("seqtune.integrations.pytorch.hook.optimization.compile_parts", failing)
    model, x = nn.Linear(4, 4).eval(), torch.randn(2, 4)
    with pytest.raises(MisuseError, match="this Linear cannot be optimised: ZeroDivisionError: nothing to divide"):
        optimize(model, x, verify=False)
